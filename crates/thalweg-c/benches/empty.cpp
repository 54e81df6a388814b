// Empty tasks through C++: `empty TASKS` prints the nanoseconds per task.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thalweg.hpp>

int main(int argc, char **argv) {
  long tasks = argc > 1 ? std::atol(argv[1]) : 1;
  tw::runtime rt("1:CPU:1");
  std::vector<tw::data<double>> data;
  for (int i = 0; i < 64; i++) data.push_back(rt.zeros<double>(8));
  auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < tasks; i++) rt.task("empty", tw::inout(data[i % 64])).submit([](tw::view<double>) {});
  rt.wait();
  std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  std::printf("%g\n", time.count() / tasks);
}
