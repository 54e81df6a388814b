// Jacobi's method for Laplace's equation on a square: a task per block of rows and step. The rows next to a block are
// read as part of its region, so no step waits for all blocks of the one before.
#include <algorithm>
#include <cstdio>
#include <thalweg.hpp>

const std::size_t n = 200;

// Averages the neighbours of the rows between the first and the last one of `u`.
static void sweep(tw::view<const double, 2> u, tw::view<double, 2> v) {
  for (std::size_t i = 1; i + 1 < u.extent(0); i++)
    for (std::size_t j = 1; j + 1 < n; j++)
      v(i - 1, j) = 0.25 * (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1));
}

int main() {
  const int steps = 50;
  std::vector<double> grid[2], plain[2];
  for (int k = 0; k < 2; k++) {
    grid[k].assign(n * n, 0);
    for (std::size_t i = 0; i < n; i++) grid[k][i * n] = 1;
    plain[k] = grid[k];
  }
  const std::size_t extents[] = {n, n}, strides[] = {n, 1};
  for (int step = 0; step < steps; step++)
    sweep({plain[step % 2].data(), extents, strides}, {plain[1 - step % 2].data() + n, extents, strides});

  tw::runtime rt("2:CPU:1");
  tw::data<double, 2> data[] = {rt.borrow(grid[0].data(), {n, n}), rt.borrow(grid[1].data(), {n, n})};
  for (int step = 0; step < steps; step++)
    for (std::size_t lo = 1; lo < n - 1; lo += 33) {
      std::size_t hi = std::min(lo + 33, n - 1);
      rt.task("sweep", tw::in(data[step % 2].range(lo - 1, hi + 1)), tw::inout(data[1 - step % 2].range(lo, hi)))
          .submit(sweep);
    }
  data[0].release();
  data[1].release();
  std::puts(grid[0] == plain[0] && grid[1] == plain[1] ? "VERIFIED" : "WRONG");
}
