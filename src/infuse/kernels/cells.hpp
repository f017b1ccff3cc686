// The cells of recurrent networks: what one step makes of the sums of its gates, and the activation
// functions of ONNX. All of them work on vectors of float and on single doubles.
#pragma once

#include "math.hpp"

namespace infuse {
namespace recur {

// How T is computed with: `type` holds `width` numbers, Whole and Part are its lane tags.
template <class T> struct Wide {
  typedef T type;
  typedef One Whole, Part;
  static constexpr isize width = 1;
  static INFUSE_INLINE type all(T x) { return x; }
  static INFUSE_INLINE One part(isize) { return One{}; }
};
template <> struct Wide<float> {
  typedef vf type;
  typedef Full Whole;
  typedef Tail Part;
  static constexpr isize width = LANES;
  static INFUSE_INLINE vf all(float x) { return splat(x); }
  static INFUSE_INLINE Tail part(isize n) { return Tail{int(n)}; }
};

// ---- activation functions --------------------------------------------------------------------

#define INFUSE_ACTIVATION(name, text)                                \
  template <class T> struct name {                                   \
    typedef typename Wide<T>::type V;                                \
    T alpha, beta;                                                   \
    static INFUSE_INLINE V all(double x) { return Wide<T>::all(T(x)); } \
    INFUSE_INLINE V operator()(V x) const {                          \
      const V a = Wide<T>::all(alpha), b = Wide<T>::all(beta);       \
      (void)a, (void)b;                                              \
      return text;                                                   \
    }                                                                \
  };
INFUSE_ACTIVATION(Affine, a* x + b)
INFUSE_ACTIVATION(Elu, select(x >= all(0), x, a* expm1(x)))
INFUSE_ACTIVATION(HardSigmoid, min(max(a * x + b, all(0)), all(1)))
INFUSE_ACTIVATION(LeakyRelu, select(x >= all(0), x, a* x))
INFUSE_ACTIVATION(Relu, max(x, all(0)))
INFUSE_ACTIVATION(ScaledTanh, a* tanh(b* x))
INFUSE_ACTIVATION(Sigmoid, sigmoid(x))
INFUSE_ACTIVATION(Softplus, softplus(x))
INFUSE_ACTIVATION(Softsign, x / (all(1) + abs(x)))
INFUSE_ACTIVATION(Tanh, tanh(x))
INFUSE_ACTIVATION(ThresholdedRelu, select(x >= a, x, all(0)))
#undef INFUSE_ACTIVATION

// One of them by its number here, of what lies between -limit and limit.
template <class T> struct AnyFunction {
  typedef typename Wide<T>::type V;
  int number;
  T alpha, beta, limit;
  INFUSE_NOINLINE V operator()(V x) const {
    if (limit < T(__builtin_inf())) x = min(max(x, Wide<T>::all(-limit)), Wide<T>::all(limit));
    switch (number) {
      case 0: return Affine<T>{alpha, beta}(x);
      case 1: return Elu<T>{alpha, beta}(x);
      case 2: return HardSigmoid<T>{alpha, beta}(x);
      case 3: return LeakyRelu<T>{alpha, beta}(x);
      case 4: return Relu<T>{alpha, beta}(x);
      case 5: return ScaledTanh<T>{alpha, beta}(x);
      case 6: return Sigmoid<T>{alpha, beta}(x);
      case 7: return Softplus<T>{alpha, beta}(x);
      case 8: return Softsign<T>{alpha, beta}(x);
      case 9: return Tanh<T>{alpha, beta}(x);
      default: return ThresholdedRelu<T>{alpha, beta}(x);
    }
  }
};

// ---- cells -----------------------------------------------------------------------------------

// Where one block of hidden units of one example lies: `x` are its gates of X Wᵀ with all biases,
// `h` the old state, `next` the new one, `c` the memory, `y` the output or null; `j` is the number
// of the first unit. `z` and `reset` are notes of a cell that works in two passes.
template <class T> struct Place {
  const T *x, *h;
  T *next, *c, *y, *z, *reset;
  isize j;
};

// Stores the new state.
template <class T, class V, class L>
INFUSE_INLINE void emit(const Place<T>& at, V h, L lanes) {
  store(at.next, h, lanes);
  if (at.y) store(at.y, h, lanes);
}

// The gates of X Wᵀ lie one vector after another.
template <class T, class L = typename Wide<T>::Whole>
INFUSE_INLINE typename Wide<T>::type gate(const Place<T>& at, int i) {
  return load(at.x + i * Wide<T>::width, L{});
}

template <class T, class F> struct RnnCell {
  static constexpr int gates = 1;
  F f;
  template <class V, class L>
  INFUSE_INLINE void operator()(const Place<T>& at, const V* sums, L lanes) const {
    emit(at, f(sums[0] + gate(at, 0)), lanes);
  }
};

// `peepholes` is null or [i, o, f][hidden].
template <class T, bool coupled, class F, class G, class H> struct LstmCell {
  static constexpr int gates = 4;
  F f;
  G g;
  H h;
  const T* peepholes;
  isize hidden;

  template <class V, class L>
  INFUSE_INLINE void operator()(const Place<T>& at, const V* sums, L lanes) const {
    V c = load(at.c, lanes);
    V i = sums[0] + gate(at, 0), o = sums[1] + gate(at, 1), k = sums[2] + gate(at, 2);
    const T* p = peepholes + at.j;
    if (peepholes) {
      i += load(p, lanes) * c;
      k += load(p + 2 * hidden, lanes) * c;
    }
    i = f(i);
    if constexpr (coupled)
      k = Wide<T>::all(1) - i;
    else
      k = f(k);
    c = k * c + i * g(sums[3] + gate(at, 3));
    if (peepholes) o += load(p + hidden, lanes) * c;
    store(at.c, c, lanes);
    emit(at, f(o) * h(c), lanes);
  }
};

// All gates at once; `bias` is null or that of h Rhᵀ, which the reset gate scales too.
template <class T, class F, class G> struct GruLinearCell {
  static constexpr int gates = 3;
  F f;
  G g;
  const T* bias;

  template <class V, class L>
  INFUSE_INLINE void operator()(const Place<T>& at, const V* sums, L lanes) const {
    V z = f(sums[0] + gate(at, 0)), r = f(sums[1] + gate(at, 1)), linear = sums[2];
    if (bias) linear += load(bias + at.j, lanes);
    V made = g(gate(at, 2) + r * linear);
    emit(at, (Wide<T>::all(1) - z) * made + z * load(at.h, lanes), lanes);
  }
};

// First pass of the usual form: the update gate, and the state after the reset gate.
template <class T, class F> struct GruGates {
  static constexpr int gates = 2;
  F f;
  template <class V, class L>
  INFUSE_INLINE void operator()(const Place<T>& at, const V* sums, L lanes) const {
    store(at.z, f(sums[0] + gate(at, 0)), lanes);
    store(at.reset, V(f(sums[1] + gate(at, 1)) * load(at.h, lanes)), lanes);
  }
};

// Second pass: `sums` are those of the reset state.
template <class T, class G> struct GruState {
  static constexpr int gates = 1;
  G g;
  template <class V, class L>
  INFUSE_INLINE void operator()(const Place<T>& at, const V* sums, L lanes) const {
    V z = load(at.z, lanes), made = g(sums[0] + gate(at, 0));
    emit(at, (Wide<T>::all(1) - z) * made + z * load(at.h, lanes), lanes);
  }
};

}  // namespace recur
}  // namespace infuse
