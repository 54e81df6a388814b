/* Kernels from text through C++. The argument is the units. */
#include "check.hpp"

const char *text = "KERNEL(64, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)\n"
                   "{ REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] += a * x[i]; }\n";

int main(int argc, char **argv) {
  tw::kernel axpy("axpy.cl", text, "axpy");
  tw::runtime rt(argc > 1 ? argv[1] : "1:CPU:1,1:OPENCL:1");
  std::vector<double> ones(1000, 1.0);
  auto x = rt.borrow(ones);
  auto y = rt.zeros<double>(1000);
  for (int i = 0; i < 3; i++) {
    rt.task("axpy", tw::in(x), tw::inout(y)).launch(axpy, {1000}, 2.0, tw::nth{0}, tw::nth{1}, 1000).submit();
    // Whichever unit runs it, the result is the same.
    rt.task("either", tw::in(x), tw::inout(y))
        .launch(axpy, {1000}, 1.0, tw::nth{0}, tw::nth{1}, 1000)
        .submit([](tw::view<const double> x, tw::view<double> y) {
          for (std::size_t i = 0; i < y.size(); i++) y[i] += x[i];
        });
  }
  CHECK(y.read() == std::vector<double>(1000, 9));
  rt.task("axpy", tw::in(x), tw::inout(y)).launch(axpy, {1000}, 2.0f, tw::nth{0}, tw::nth{1}, 1000).submit();
  THROWS(tw::failed, "a number of float32", rt.wait());
  std::puts("ok");
}
