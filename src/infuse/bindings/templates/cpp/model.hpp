// The model as C++17. Link libmodel.a with -pthread -lm, or the target @NAME@::@NAME@ of CMake.
//
//     @NAME@::Model model("weights.bin");
//     @NAME@::Session session = model.session();
//     @NAME@::Outputs outputs = session.run(inputs);
#ifndef @NAME@_INFUSE_HPP
#define @NAME@_INFUSE_HPP

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "binding.h"

namespace @NAME@ {

static_assert(@P@_BINDING_ID == INT64_C(@ID@), "two models have one prefix: infuse compile --prefix gives each its own");

/** Why something failed: a code of model.h (INFUSE_BAD_DATA, …), -1 for inputs and weights that do not fit. */
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/** A number of 16 bits: the upper half of a float. */
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float number) {
    std::uint32_t all;
    std::memcpy(&all, &number, 4);
    const bool is_nan = (all & 0x7fffffffu) > 0x7f800000u;
    bits = std::uint16_t(is_nan ? (all >> 16) | 64 : (all + 0x7fff + ((all >> 16) & 1)) >> 16);
  }
  explicit operator float() const {
    const std::uint32_t all = std::uint32_t(bits) << 16;
    float number;
    std::memcpy(&number, &all, 4);
    return number;
  }
};

/** A half of IEEE 754. */
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float number) {
    std::uint32_t all;
    std::memcpy(&all, &number, 4);
    const std::uint32_t sign = all >> 16 & 0x8000, size = all & 0x7fffffff;
    std::uint32_t half;
    if (size > 0x7f800000) {
      half = 0x7e00;
    } else if (size >= 0x477ff000) {
      half = 0x7c00;
    } else if (size >= 0x38800000) {
      half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    } else {
      float whole;  // subnormals: the unit is 2^-24, as is that of floats of 2^-1
      std::memcpy(&whole, &size, 4);
      whole += 0.5f;
      std::memcpy(&half, &whole, 4);
      half -= 0x3f000000;
    }
    bits = std::uint16_t(sign | half);
  }
  explicit operator float() const {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
    std::uint32_t all = (rest << 13) + (rest >= 0x7c00 ? 0x70000000 : 0x38000000);
    float number;
    if (rest < 0x400) {
      number = float(rest) / 16777216.0f;
      std::memcpy(&all, &number, 4);
    }
    all |= sign;
    std::memcpy(&number, &all, 4);
    return number;
  }
};

using Shape = std::vector<std::int64_t>;

/** Elements in row-major order, with a shape. Memory stays when it is resized to what fits in it. */
template <class T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Shape& shape) { resize(shape.data(), shape.size()); }
  Tensor(const Shape& shape, std::initializer_list<T> elements) : Tensor(shape) {
    if (elements.size() != size_) throw Error(-1, "the number of elements is not that of the shape");
    std::copy(elements.begin(), elements.end(), begin());
  }
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  void resize(const std::int64_t* sizes, std::size_t axes) {
    shape_.assign(sizes, sizes + axes);
    size_ = std::accumulate(sizes, sizes + axes, std::size_t(1),
                            [](std::size_t a, std::int64_t b) { return a * std::size_t(b); });
    if (size_ > room_ || !data_) data_.reset(new T[(room_ = size_) + 1]);
  }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return size_; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0, room_ = 0;
  Shape shape_;
};

/** Elements of somebody else, who keeps them. Without a shape, it follows from their number where that is possible. */
template <class T>
class View {
 public:
  View() = default;
  View(const Tensor<T>& tensor) : View(tensor.data(), tensor.shape()) {
    if (!data_) elements_ = -1;
  }
  View(const T* data, const Shape& shape) : data_(data), elements_(1), axes_(std::int64_t(shape.size())), shape_(shape) {
    for (const std::int64_t size : shape)  // sizes that are none are refused by the run
      elements_ = size <= 0 ? 0 : elements_ > INT64_MAX / size ? INT64_MAX : elements_ * size;
  }
  View(const std::vector<T>& elements) : data_(elements.data()), elements_(std::int64_t(elements.size())) {}
  View(const std::vector<T>& elements, const Shape& shape) : View(elements.data(), shape) {
    elements_ = std::int64_t(elements.size());
  }
  const T* data() const { return data_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t axes() const { return axes_; }
  const Shape& shape() const { return shape_; }

 private:
  const T* data_ = nullptr;
  std::int64_t elements_ = -1, axes_ = -1;
  Shape shape_;
};

struct Inputs {
@INPUTS@};

struct Outputs {
@OUTPUTS@};

/** A context of a model: runs one call at a time; others wait. It keeps the weights. */
class Session {
 public:
  Session(std::shared_ptr<void> loaded, int threads) : loaded_(std::move(loaded)), lock_(new std::mutex) {
    char text[@P@_BINDING_TEXT];
    void* context = nullptr;
    const int code = @P@_binding_open(loaded_.get(), threads, INT64_C(@ID@), &context, text);
    context_.reset(context);
    if (code) throw Error(code, text);
  }

  /** The outputs for these inputs; Error where they do not fit, and where the run fails. */
  Outputs run(const Inputs& inputs) {
    Outputs outputs;
    run(inputs, outputs);
    return outputs;
  }

  /** The same in the memory of earlier outputs, where it suffices. */
  void run(const Inputs& inputs, Outputs& outputs) {
    const std::lock_guard<std::mutex> alone(*lock_);
    char text[@P@_BINDING_TEXT];
@DESCRIBED@
    if (@P@_binding_sizes(frame_, text)) throw Error(-1, text);
@LISTED@
@RESULTS@
    if (const int code = @P@_binding_run(context_.get(), frame_))
      throw Error(code, @P@_binding_error(context_.get()));
@LATE@
    (void)inputs, (void)outputs;
  }

  /** Ends the run that is under way, and later ones, with INFUSE_CANCELLED, until cancel(false). Any thread may call it. */
  void cancel(bool cancelled = true) { @P@_binding_cancel(context_.get(), cancelled); }

 private:
  static std::int64_t address(const void* data) { return std::int64_t(reinterpret_cast<std::intptr_t>(data)); }

  template <class T>
  void describe(int at, int place, int rank, const View<T>& view) {
    static const T none[1] = {};
    frame_[at] = view.elements();
    frame_[at + 1] = view.axes();
    if (view.axes() == rank)
      for (int i = 0; i < rank; i++) frame_[at + 2 + i] = view.shape()[std::size_t(i)];
    frame_[place] = view.elements() < 0 ? 0 : address(view.elements() ? view.data() : none);
  }

  template <class T>
  void take(int number, Tensor<T>& tensor) {
    const std::int64_t rank = @P@_binding_rank(context_.get(), number);
    Shape sizes(std::size_t(rank) + 1);
    const void* data = @P@_binding_result(context_.get(), number, sizes.data());
    tensor.resize(sizes.data(), std::size_t(rank));
    if (tensor.size()) std::memcpy(static_cast<void*>(tensor.data()), data, tensor.size() * sizeof(T));
  }

  std::shared_ptr<void> loaded_;
  std::unique_ptr<std::mutex> lock_;
  std::unique_ptr<void, void (*)(void*)> context_{nullptr, @P@_binding_close};
  std::int64_t frame_[@WORDS@ + 1] = {};
};

/** The weights of a model, which any number of sessions share. */
class Model {
 public:
  /** From a file; Error where it has not the weights of this model. */
  explicit Model(const std::string& weights = "weights.bin") {
    char text[@P@_BINDING_TEXT];
    loaded_.reset(@P@_binding_load(weights.c_str(), text), @P@_binding_unload);
    if (!loaded_) throw Error(-1, text);
  }

  /** From the content of such a file, which is copied. */
  Model(const void* weights, std::size_t bytes) {
    char text[@P@_BINDING_TEXT];
    loaded_.reset(@P@_binding_copied(weights, std::int64_t(bytes), text), @P@_binding_unload);
    if (!loaded_) throw Error(-1, text);
  }

  /** A context with this many threads; 0: one a processor. */
  Session session(int threads = 0) const { return Session(loaded_, threads); }

 private:
  std::shared_ptr<void> loaded_;
};

}  // namespace @NAME@

#endif
