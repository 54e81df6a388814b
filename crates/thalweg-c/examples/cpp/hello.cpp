// Doubles an array in parts. The order of tasks follows from their data.
#include <cstdio>
#include <thalweg.hpp>

int main() {
  std::vector<double> x(1000, 1.0);
  tw::runtime rt("2:CPU:1");
  auto data = rt.borrow(x);
  for (std::size_t lo = 0; lo < 1000; lo += 100)
    rt.task("double", tw::inout(data.range(lo, lo + 100))).submit([](tw::view<double> x) {
      for (double &e : x) e *= 2;
    });
  data.release();  // waits; from here on, the array is ours again
  std::printf("%g\n", x[999]);
}
