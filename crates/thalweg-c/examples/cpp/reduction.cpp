// Sums an array by tasks that each add to a private replica. The replicas are combined in the order of submission, so
// the sum has the same bits on any number of cores: those of a plain loop over the same parts.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thalweg.hpp>

int main() {
  const std::size_t n = 100000, part = 4096;
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; i++) x[i] = 1.0 / static_cast<double>(i + 1);
  double expected = 0;
  for (std::size_t lo = 0; lo < n; lo += part)
    expected += std::accumulate(x.data() + lo, x.data() + std::min(lo + part, n), 0.0);

  tw::runtime rt("2:CPU:1");
  auto data = rt.borrow(x);
  auto total = rt.zeros<double>(1);
  for (std::size_t lo = 0; lo < n; lo += part)
    rt.task("sum", tw::in(data.range(lo, std::min(lo + part, n))), tw::sum(total))
        .submit([](tw::view<const double> x, tw::view<double> total) {
          total[0] += std::accumulate(x.begin(), x.end(), 0.0);
        });
  std::puts(total.read()[0] == expected ? "VERIFIED" : "WRONG");
}
