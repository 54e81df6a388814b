// A pipeline: frames are made, filtered and logged. Several frames are in flight, while the log stays in order, because
// each `log` task updates it.
#include <cstdio>
#include <thalweg.hpp>

const int frames = 40, size = 1000, slots = 4;

static void make(tw::view<int> frame, int number) {
  for (int i = 0; i < size; i++) frame[i] = number * 7919 + i;
}
static void filter(tw::view<const int> from, tw::view<int> to) {
  for (int i = 0; i < size; i++) to[i] = from[i] ^ (from[(i + 1) % size] >> 1);
}
// The log begins with the number of its entries.
static void log_frame(tw::view<const int> frame, tw::view<int> log) {
  unsigned hash = 17;
  for (int pixel : frame) hash = hash * 31 + static_cast<unsigned>(pixel);
  log[++log[0]] = static_cast<int>(hash);
}

int main() {
  std::vector<int> log(frames + 1), expected(frames + 1), raw(size), filtered(size);
  const std::size_t extent[] = {size}, whole[] = {frames + 1}, stride[] = {1};
  for (int n = 0; n < frames; n++) {
    make({raw.data(), extent, stride}, n);
    filter({raw.data(), extent, stride}, {filtered.data(), extent, stride});
    log_frame({filtered.data(), extent, stride}, {expected.data(), whole, stride});
  }

  tw::runtime rt("2:CPU:1");
  auto data = rt.borrow(log);
  std::vector<tw::data<int>> from, to;
  for (int k = 0; k < slots; k++) {
    from.push_back(rt.zeros<int>(size));
    to.push_back(rt.zeros<int>(size));
  }
  for (int n = 0; n < frames; n++) {
    auto &a = from[n % slots], &b = to[n % slots];
    rt.task("make", tw::out(a)).submit([n](tw::view<int> frame) { make(frame, n); });
    rt.task("filter", tw::in(a), tw::out(b)).submit(filter);
    rt.task("log", tw::in(b), tw::inout(data)).submit(log_frame);
  }
  data.release();
  std::puts(log == expected ? "VERIFIED" : "WRONG");
}
