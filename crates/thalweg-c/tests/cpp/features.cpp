/* The C++ interface: views, ownership, exceptions, children, groups, iteration spaces. */
#include "check.hpp"

#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>

static void computes(const char *units) {
  tw::runtime rt(units);
  std::vector<double> x(1000);
  std::iota(x.begin(), x.end(), 0.0);
  auto data = rt.borrow(x).named("x");
  auto total = rt.zeros<double>(1);
  auto largest = rt.zeros<double>(1);
  tw::group group = rt.group();
  for (std::size_t lo = 0; lo < 1000; lo += 100) {
    auto part = data.range(lo, lo + 100);
    double factor = 2;
    rt.task("scale", tw::inout(part)).in_group(group).cost(1).submit([factor](tw::view<double> x) {
      for (double &e : x) e *= factor;
    });
    rt.task(std::string("sum"), tw::in(part), tw::sum(total), tw::max(largest))
        .priority(1)
        .submit([](tw::context &, tw::view<const double> x, tw::view<double> total, auto largest) {
          for (double e : x) total[0] += e, largest[0] = std::max(largest[0], e);
        });
  }
  group.wait();
  CHECK(total.read() == std::vector<double>{999000});
  CHECK(largest.read()[0] == 1998);
  data.release();
  CHECK(rt.statistics().tasks >= 20 && rt.statistics().evictions == 0);
  for (int i = 0; i < 1000; i++) CHECK(x[i] == 2 * i);
}

static void matrices() {
  tw::runtime rt("1:CPU:1,1:EMU:1");
  int memory[4][8] = {};
  const std::size_t strides[] = {8, 1};
  auto matrix = rt.borrow(&memory[0][0], {4, 5}, strides);
  rt.task("box", tw::out(matrix.box({{1, 4}, {2, 4}}))).submit([](tw::view<int, 2> a) {
    CHECK(a.extent(0) == 3 && a.extent(1) == 2 && a.size() == 6);
    for (std::size_t i = 0; i < 3; i++) {
      a(i, 0) = static_cast<int>(i + 1);
      a[i][1] = -a(i, 0);
    }
  });
  rt.task("row", tw::in(matrix)).submit([](tw::view<const int, 2> a) {
    int sum = 0;
    for (int e : a[3]) sum += e;
    CHECK(sum == 0 && a[3][2] == 3);
  });
  matrix.release();
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 8; j++) CHECK(memory[i][j] == (i < 1 || j < 2 || j > 3 ? 0 : j == 2 ? i : -i));
}

struct particle {
  double place[3];
  int kind;
};

static void structures() {
  tw::runtime rt("1:CPU:1,1:EMU:1");
  std::vector<particle> cloud(100, particle{{1, 2, 3}, 7});
  auto own = rt.zeros<particle>(100);
  auto borrowed = rt.borrow(cloud);
  rt.task("copy", tw::in(borrowed.range(10, 20)), tw::out(own.range(0, 10)))
      .submit([](tw::view<const particle> from, tw::view<particle> to) {
        for (std::size_t i = 0; i < from.size(); i++) to[i] = from[i], to[i].kind++;
      });
  std::vector<particle> found = own.read();
  CHECK(found.size() == 100 && found[9].kind == 8 && found[9].place[2] == 3 && found[10].kind == 0);
  rt.task("move", tw::inout(borrowed)).submit([](tw::view<particle> cloud) { cloud[99].place[1] = 5; });
  borrowed.release();
  CHECK(cloud[99].place[1] == 5);
  auto flags = rt.zeros<std::complex<float>>(2);
  flags.write({{1, 2}, {3, 4}});
  CHECK(flags.read()[1] == std::complex<float>(3, 4));
}

static void fails() {
  tw::runtime rt("2:CPU:1");
  auto x = rt.zeros<long>(1).named("x");
  rt.task("store", tw::out(x)).submit([](tw::view<long>) { throw std::runtime_error("the disk is full"); });
  THROWS(tw::failed, "features.cpp:" + std::to_string(__LINE__ - 1), rt.wait());
  THROWS(tw::failed, "`store`", x.read());
  rt.task("mend", tw::out(x)).submit([](tw::view<long> x) { x[0] = 1; });
  CHECK(x.read()[0] == 1);
  auto odd = rt.task("odd").submit_handle([] { throw 3; });
  THROWS(tw::error, "no std::exception", odd.wait());
  // The text of a call in a body is that of its failure.
  rt.task("calls").submit([&rt] { rt.zeros<int>(0x7fffffffffffffff, 8); });
  THROWS(tw::failed, "overflows", rt.wait());

  THROWS(tw::refused, "no units", tw::runtime bad("no units"));
  THROWS(tw::error, "2 dimensions", rt.task("t", tw::in(x.box({{0, 1}, {0, 1}}))).submit([](auto) {}));
  THROWS(tw::refused, "bounds", rt.task("t", tw::in(x.range(0, 2))).submit([](auto) {}));
  auto gone = std::move(x);
  THROWS(tw::error, "data object is zero", x.read());
  CHECK(gone.read()[0] == 1);
  gone.release();
  THROWS(tw::error, "data object is zero", gone.release());
  CHECK(rt.wait_for(60));
}

/* A body that returns late, calls back into the library, and asks for absurd sizes. */
static void late() {
  tw::runtime rt("2:CPU:1");
  std::atomic<bool> open{false};
  tw::group group = rt.group();
  auto x = rt.zeros<double>(4);
  auto task = rt.task("late", tw::inout(x)).in_group(group).submit_handle([&open](tw::view<double> x) {
    while (!open) continue;
    x[0] = 7;
  });
  CHECK(!task.wait_for(0.01) && !group.wait_for(0.01) && !rt.wait_for(0.01));
  open = true;
  CHECK(task.wait_for(60) && group.wait_for(60) && x.read()[0] == 7);
  THROWS(tw::error, "NaN", task.wait_for(std::nan("")));
  double memory[4] = {};
  auto borrowed = rt.borrow(memory, {4});
  rt.task("back", tw::inout(borrowed)).submit([&](tw::view<double>) {
    THROWS(tw::refused, "inside", rt.wait());
    THROWS(tw::refused, "inside", group.wait_for(1));
    THROWS(tw::refused, "holds", borrowed.release());
  });
  rt.wait();
  borrowed.release();
  THROWS(tw::refused, "; try", rt.zeros<double>(std::size_t(1) << 50));
  THROWS(tw::refused, "; try", rt.zeros<double>(-1));
}

static void children() {
  tw::runtime rt("2:CPU:1");
  auto x = rt.zeros<long>(10);
  rt.task("parent", tw::weak_inout(x)).host().submit([&x](tw::context &context, tw::no_view) {
    for (int i = 0; i < 10; i++)
      context.task("child", tw::inout(x.range(i, i + 1))).submit([i](tw::view<long> x) { x[0] = i; });
    context.wait();
  });
  CHECK(x.read()[9] == 9);
  tw::space zones("zones", {1, 2});
  for (int step = 0; step < 3; step++) {
    zones.begin();
    for (int i = 0; i < 2; i++)
      rt.task("zone", tw::commutative(x.range(i, i + 1))).at(zones, i).submit([](tw::view<long> x) { x[0]++; });
  }
  CHECK(x.read()[0] == 3 && x.read()[1] == 4);
}

/* Bodies with destructors and move-only bodies are destroyed once, also if they are skipped or refused. */
static void destroys() {
  auto counter = std::make_shared<int>(0);
  {
    tw::runtime rt("1:CPU:1");
    auto x = rt.zeros<int>(1);
    tw::group cancelled = rt.group();
    cancelled.cancel();
    for (int i = 0; i < 10; i++) {
      rt.task("counts", tw::inout(x)).submit([counter](tw::view<int> x) { x[0] = ++*counter; });
      auto moved = std::make_unique<int>(i);
      rt.task("moves").submit([moved = std::move(moved), counter] { CHECK(*moved >= 0); });
      THROWS(tw::refused, "cancel", rt.task("refused").in_group(cancelled).submit([counter] {}));
    }
    CHECK(x.read()[0] == 10);
  }
  CHECK(counter.use_count() == 1 && *counter == 10);
}

int main() {
  computes("1:CPU:1");
  computes("2:CPU:1");
  computes("1:CPU:1,1:EMU:1");
  matrices();
  structures();
  fails();
  late();
  children();
  destroys();
  std::puts("ok");
}
