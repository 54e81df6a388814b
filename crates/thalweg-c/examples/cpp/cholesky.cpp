// Factors a positive definite matrix by tiles, in place. Each tile is a region of one data object; the order of the
// tasks follows from the tiles that they read and write.
#include "../c/tiles.h"

#include <cstdio>
#include <thalweg.hpp>

using matrix = tw::view<double, 2>;
using constant = tw::view<const double, 2>;

static void update(constant a, constant b, matrix c) {
  tile_update(a.data(), a.extent(0), a.stride(0), b.data(), b.extent(0), b.stride(0), a.extent(1), c.data(), c.stride(0));
}

int main() {
  const std::size_t n = 240, size = 48, tiles = n / size;
  std::vector<double> a(n * n);
  for (std::size_t i = 0; i < n; i++)
    for (std::size_t j = 0; j < n; j++) a[i * n + j] = element(i, j, n);

  tw::runtime rt("2:CPU:1");
  auto data = rt.borrow(a.data(), {n, n});
  auto tile = [&](std::size_t i, std::size_t j) {
    return data.box({{i * size, (i + 1) * size}, {j * size, (j + 1) * size}});
  };
  for (std::size_t k = 0; k < tiles; k++) {
    rt.task("factor", tw::inout(tile(k, k))).priority(2).submit([](matrix a) {
      if (!tile_factor(a.data(), a.extent(0), a.stride(0))) throw std::domain_error("the matrix is not positive definite");
    });
    for (std::size_t i = k + 1; i < tiles; i++)
      rt.task("solve", tw::in(tile(k, k)), tw::inout(tile(i, k))).priority(1).submit([](constant l, matrix b) {
        tile_solve(l.data(), l.extent(0), l.stride(0), b.data(), b.extent(0), b.stride(0));
      });
    for (std::size_t i = k + 1; i < tiles; i++) {
      for (std::size_t j = k + 1; j < i; j++)
        rt.task("update", tw::in(tile(i, k)), tw::in(tile(j, k)), tw::inout(tile(i, j))).submit(update);
      rt.task("update", tw::in(tile(i, k)), tw::inout(tile(i, i))).submit([](constant a, matrix c) { update(a, a, c); });
    }
  }
  data.release();
  std::puts(residual(a.data(), n) < 1e-9 ? "VERIFIED" : "WRONG");
}
