// Runs the model: example [FOLDER [SIZE...]]. FOLDER has weights.bin, and may have inputs, the elements of input number i
// in input<i>.bin (zeros without it; an optional input is absent then); outputs are written beside them. The sizes are
// those of symbols: @SYMBOL_NAMES@.
#include "@NAME@.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>

namespace {

template <class T>
struct Elements {
  std::vector<char> bytes;
  @NAME@::View<T> view;
  std::int64_t size() const { return view.elements(); }
  operator const @NAME@::View<T>&() const { return view; }
};

template <class T>
Elements<T> read(const std::string& folder, int number, const std::int64_t* sizes, bool optional) {
  Elements<T> data;
  std::ifstream file(folder + "/input" + std::to_string(number) + ".bin", std::ios::binary);
  if (!file && optional) return data;
  data.bytes.assign(std::istreambuf_iterator<char>(file), {});
  data.bytes.resize(std::size_t(sizes[0]) * sizeof(T) + 1);
  data.view = {reinterpret_cast<const T*>(data.bytes.data()), @NAME@::Shape(sizes + 2, sizes + 2 + sizes[1])};
  return data;
}

template <class T>
void write(const std::string& folder, int number, const @NAME@::Tensor<T>& tensor) {
  std::printf("output %d:", number);
  for (const std::int64_t size : tensor.shape()) std::printf(" %lld", static_cast<long long>(size));
  std::printf("\n");
  std::ofstream file(folder + "/output" + std::to_string(number) + ".bin", std::ios::binary);
  file.write(reinterpret_cast<const char*>(tensor.data()), std::streamsize(tensor.size() * sizeof(T)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : ".";
    std::int64_t frame[@WORDS@ + 1] = {};
    for (int i = 0; i < @SYMBOLS@; i++) frame[@SYMBOLS_AT@ + i] = i + 2 < argc ? std::stoll(argv[i + 2]) : 2;
    char text[@P@_BINDING_TEXT];
    if (@P@_binding_shapes(frame, text)) throw @NAME@::Error(-1, text);
    @NAME@::Inputs inputs;
@READ@
    @NAME@::Model model(folder + "/weights.bin");
    @NAME@::Session session = model.session(2);
    const @NAME@::Outputs outputs = session.run(inputs);
@WRITE@
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
