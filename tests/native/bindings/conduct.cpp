// How a session conducts itself where something is wrong, and with several threads: weights wrong_weights.
#include <chrono>
#include <cstdio>
#include <thread>

#include "conduct.hpp"

using namespace conduct;

template <class F>
void failing(const char* what, F f) {
  try {
    f();
    std::printf("%s: nothing failed\n", what);
  } catch (const Error& error) {
    std::printf("%s: %d %s\n", what, error.code(), error.what());
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::vector<float> x(8, 1.0f);
  const std::vector<double> y(4, 10.0);
  const Tensor<std::int64_t> three({}, {3}), endless({}, {std::int64_t(1) << 40});
  const std::vector<std::int64_t> places{2, 0};
  const Inputs good{{x, {2, 4}}, y, three, places};
  Model model(argv[1]);
  Session session = model.session(2);
  Outputs outputs = session.run(good);
  std::printf("run: %.1f %.1f %.1f\n", double(outputs.z[7]), outputs.w[3], double(outputs.picked[0]));
  const auto with = [&](const char* what, auto change) {
    failing(what, [&] {
      Inputs inputs = good;
      change(inputs);
      session.run(inputs);
    });
  };
  with("formula", [&](Inputs& in) { in.y = std::vector<double>(y.begin(), y.begin() + 3); });
  with("size", [&](Inputs& in) { in.x = {x, {4, 2}}; });
  with("axes", [&](Inputs& in) { in.x = {x, {8}}; });
  with("elements", [&](Inputs& in) { in.x = {std::vector<float>(x.begin(), x.begin() + 7), {2, 4}}; });
  with("shape", [&](Inputs& in) { in.x = x; });
  with("missing", [&](Inputs& in) { in.y = {}; });
  with("huge", [&](Inputs& in) { in.x = {x.data(), {INT64_MAX, 4}}; });
  const std::vector<std::int64_t> outside{3};
  with("data", [&](Inputs& in) { in.places = outside; });
  failing("weights", [&] { Model wrong(argv[2]); });
  failing("content", [&] { Model wrong("other", 5); });
  failing("absent", [&] { Model wrong("/none"); });

  double sums[2] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++)
    threads.emplace_back([&, i] {
      Session own = model.session(1);
      Outputs reused;
      for (int k = 0; k < 200; k++) own.run(good, reused), sums[i] += double(reused.z[0]);
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("threads: %.1f %.1f\n", sums[0], sums[1]);

  Inputs lasting = good;
  lasting.times = endless;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    session.cancel();
  });
  failing("cancelled", [&] { session.run(lasting); });
  stopper.join();
  session.cancel(false);
  std::printf("again: %.1f\n", double(session.run(good).z[0]));
  std::printf("halves: %.8g %.8g %04x %04x\n", double(float(float16(1e-7f))), double(float(bfloat16(3.1415927f))),
              unsigned(float16(65520.0f).bits), unsigned(bfloat16(-0.0f).bits));
  return 0;
}
