/* Thalweg's C++17 interface: header only, over the C interface. The guide's chapter on C++ shows how to use it.
 *
 * Handles are owned, and move only; a destructor ignores failures, which `wait`, `release` and `read` throw. Bodies get a
 * `view` per access, of constant elements if the task only reads. An exception of a body fails its task with its text.
 * Invariant: a body is destroyed once, whether it ran, was skipped or was refused. */

#ifndef THALWEG_HPP
#define THALWEG_HPP

#include <thalweg.h>

#include <array>
#include <complex>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

namespace tw {

/// A call that did not succeed. `what` has the same text as in Rust.
class error : public std::runtime_error {
 public:
  error(tw_status status, const char *text) : std::runtime_error(text), status_(status) {}
  tw_status status() const { return status_; }

 private:
  tw_status status_;
};
/// The call was refused, and nothing has changed.
struct refused : error { using error::error; };
/// A task has failed, or a value is missing because of it.
struct failed : error { using error::error; };
/// The time is over.
struct timed_out : error { using error::error; };

/// Throws unless a call has succeeded.
inline void check(tw_status status) {
  switch (status) {
    case TW_OK: return;
    case TW_REFUSED: throw refused(status, tw_last_error());
    case TW_FAILED: throw failed(status, tw_last_error());
    case TW_TIMEOUT: throw timed_out(status, tw_last_error());
    default: throw error(status, tw_last_error());
  }
}

namespace detail {

template <class T>
struct element {
  static_assert(std::is_trivially_copyable_v<T>, "elements of data objects are trivially copyable");
  /// The type's number; -1 if it is not a number but a structure.
  static constexpr int number() {
    if constexpr (std::is_same_v<T, bool> || !std::is_arithmetic_v<T> || std::is_same_v<T, long double>) {
      return std::is_same_v<T, std::complex<float>> ? TW_COMPLEX64 : std::is_same_v<T, std::complex<double>> ? TW_COMPLEX128 : -1;
    } else if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? TW_FLOAT32 : TW_FLOAT64;
    } else {
      constexpr int power = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return (std::is_signed_v<T> ? TW_INT8 : TW_UINT8) + power;
    }
  }
};

/// A handle that is owned. `Free` releases it.
template <class Handle, tw_status (*Free)(Handle)>
class owned {
 public:
  owned() = default;
  explicit owned(Handle handle) : handle_(handle) {}
  owned(owned &&other) noexcept : handle_(other.give()) {}
  owned &operator=(owned &&other) noexcept {
    if (this != &other) {
      reset();
      handle_ = other.give();
    }
    return *this;
  }
  ~owned() { reset(); }
  /// Returns the handle, which remains owned.
  Handle handle() const { return handle_; }
  /// Returns the handle, which the caller now owns.
  Handle give() { return std::exchange(handle_, Handle{0}); }

 private:
  void reset() {
    if (handle_.id != 0) Free(give());
  }
  Handle handle_{0};
};

}  // namespace detail

/// The elements of a region, in row-major order, possibly with gaps between rows. Elements of a row are contiguous.
template <class T, std::size_t N = 1>
class view {
 public:
  explicit view(const tw_view &given) : data_(static_cast<T *>(given.data)) {
    for (std::size_t d = 0; d < N; d++) extents_[d] = given.shape[d], strides_[d] = given.strides[d];
  }
  view(T *data, const std::size_t *extents, const std::size_t *strides) : data_(data) {
    for (std::size_t d = 0; d < N; d++) extents_[d] = extents[d], strides_[d] = strides[d];
  }
  T *data() const { return data_; }
  std::size_t extent(std::size_t d) const { return extents_[d]; }
  /// The number of elements from one index to the next.
  std::size_t stride(std::size_t d) const { return strides_[d]; }
  std::size_t size() const {
    std::size_t count = 1;
    for (std::size_t extent : extents_) count *= extent;
    return count;
  }
  template <class... Index>
  T &operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "there is an index per dimension");
    std::size_t place = 0, d = 0;
    ((place += static_cast<std::size_t>(index) * strides_[d++]), ...);
    return data_[place];
  }
  /// The element, or the view of one dimension less, with this first index.
  decltype(auto) operator[](std::size_t i) const {
    if constexpr (N == 1) {
      return (data_[i]);
    } else {
      return view<T, N - 1>(data_ + i * strides_[0], &extents_[1], &strides_[1]);
    }
  }
  T *begin() const {
    static_assert(N == 1, "only a view of one dimension is a range; try its rows");
    return data_;
  }
  T *end() const { return begin() + extents_[0]; }
#ifdef __cpp_lib_span
  operator std::span<T>() const { return {begin(), end()}; }
#endif

 private:
  T *data_;
  std::array<std::size_t, N> extents_, strides_;
};

/// The place of an access that gives no view.
struct no_view {
  explicit no_view(const tw_view &) {}
};

/// An access of a task. Its body gets a `View`.
template <class View>
struct access {
  tw_access raw;
};

/// A range of indices, without the last.
struct span_of {
  std::size_t lo, hi;
};

/// A box of a data object.
template <class T, std::size_t N = 1>
class region {
 public:
  region(tw_data data, std::initializer_list<span_of> ranges = {}) : raw_{data, 0, 0, {0}, {0}} {
    for (const span_of &range : ranges) {
      if (raw_.ndim < N) raw_.lo[raw_.ndim] = range.lo, raw_.hi[raw_.ndim] = range.hi;
      raw_.ndim++;
    }
  }
  template <class View>
  tw::access<View> access(tw_mode mode) const {
    tw_access raw = raw_;
    raw.mode = mode;
    return {raw};
  }

 private:
  tw_access raw_;
};

/// A data object of elements `T` with `N` dimensions.
template <class T, std::size_t N = 1>
class data : public detail::owned<tw_data, tw_data_release> {
 public:
  using detail::owned<tw_data, tw_data_release>::owned;
  operator region<T, N>() const { return all(); }
  region<T, N> all() const { return region<T, N>(this->handle()); }
  /// The elements whose first index is in a range.
  region<T, N> range(std::size_t lo, std::size_t hi) const { return region<T, N>(this->handle(), {{lo, hi}}); }
  /// A box, by a range per dimension; further dimensions are whole.
  region<T, N> box(std::initializer_list<span_of> ranges) const { return region<T, N>(this->handle(), ranges); }
  /// Names the data object in error messages.
  data &&named(const char *name) && {
    check(tw_data_set_name(this->handle(), name));
    return std::move(*this);
  }
  /// Waits for the value and copies `count` elements, which are all.
  void read(T *elements, std::size_t count) const {
    check(tw_data_read(this->handle(), nullptr, nullptr, elements, count * sizeof(T)));
  }
  /// Waits for the value and returns its elements.
  std::vector<T> read() const {
    std::size_t bytes = 0;
    check(tw_data_bytes(this->handle(), &bytes));
    std::vector<T> elements(bytes / sizeof(T));
    read(elements.data(), elements.size());
    return elements;
  }
  /// Overwrites the value by a copy of these elements.
  void write(const std::vector<T> &elements) const {
    check(tw_data_write(this->handle(), nullptr, nullptr, elements.data(), elements.size() * sizeof(T)));
  }
  /// Gives borrowed memory back with the current value. Throws `failed` if a task that should have written it failed.
  void release() { check(tw_data_release(this->give())); }
};

/* The modes. Each takes a data object or a region. */
#define TW_MODES(name, mode, type)                                           \
  template <class T, std::size_t N>                                          \
  access<type> name(const region<T, N> &x) {                                 \
    return x.template access<type>(mode);                                    \
  }                                                                          \
  template <class T, std::size_t N>                                          \
  access<type> name(const data<T, N> &x) {                                   \
    return name(x.all());                                                    \
  }
#define TW_READS view<const T, N>
#define TW_WRITES view<T, N>
/// The task reads the region.
TW_MODES(in, TW_IN, TW_READS)
/// The task overwrites all of the region.
TW_MODES(out, TW_OUT, TW_WRITES)
/// The task reads and writes the region.
TW_MODES(inout, TW_INOUT, TW_WRITES)
/// Like `inout`, in any order with other commutative tasks, one at a time.
TW_MODES(commutative, TW_COMMUTATIVE, TW_WRITES)
/// The task adds to the region: its view is a private replica of zeros.
TW_MODES(sum, TW_SUM, TW_WRITES)
/// The region gets the minimum.
TW_MODES(min, TW_MIN, TW_WRITES)
/// The region gets the maximum.
TW_MODES(max, TW_MAX, TW_WRITES)
/// The task is ordered as if it read the region.
TW_MODES(after, TW_AFTER, no_view)
/// The task's children may read the region.
TW_MODES(weak_in, TW_WEAK_IN, no_view)
/// The task's children may read and write the region.
TW_MODES(weak_inout, TW_WEAK_INOUT, no_view)
#undef TW_READS
#undef TW_WRITES
#undef TW_MODES

/// Tasks that a program waits for or cancels together.
class group : public detail::owned<tw_group, tw_group_free> {
 public:
  using detail::owned<tw_group, tw_group_free>::owned;
  void wait() const { check(tw_group_wait(handle())); }
  /// Tasks that have not begun are skipped.
  void cancel() const { check(tw_group_cancel(handle())); }
};

/// Tasks that recur in each time step, which schedulers distribute by their weights.
class space : public detail::owned<tw_space, tw_space_free> {
 public:
  explicit space(const char *name, const std::vector<double> &weights) {
    tw_space made;
    check(tw_space_new(name, weights.data(), weights.size(), &made));
    detail::owned<tw_space, tw_space_free>::operator=(owned(made));
  }
  /// Begins the next time step.
  void begin() const { check(tw_space_begin(handle())); }
};

/// A submitted task.
class submitted : public detail::owned<tw_submitted, tw_submitted_free> {
 public:
  using detail::owned<tw_submitted, tw_submitted_free>::owned;
  void wait() const { check(tw_submitted_wait(handle())); }
};

/// A task's name, and the place that names it. The text is read when the task is submitted.
struct name {
  const char *text, *file;
  unsigned line;
  name(const char *text, const char *file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : text(text), file(file), line(line) {}
  name(const std::string &text, const char *file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : name(text.c_str(), file, line) {}
};

class context;

/// A task that is not yet submitted: a temporary, whose name and accesses stay valid until `submit`.
template <class... Views>
class task {
 public:
  task(tw_runtime rt, tw_context *parent, name name, const access<Views> &...accesses)
      : rt_(rt), parent_(parent), accesses_{accesses.raw...} {
    task_.size = sizeof task_;
    task_.name = name.text, task_.file = name.file, task_.line = name.line;
    task_.count = sizeof...(Views);
  }
  /// Ready tasks with larger priorities go first.
  task &&priority(int priority) && { return task_.priority = priority, std::move(*this); }
  /// The amount of work, in any unit that is the same for all tasks.
  task &&cost(double cost) && { return task_.cost = cost, std::move(*this); }
  task &&in_group(const tw::group &group) && { return task_.group = group.handle(), std::move(*this); }
  /// The index of an iteration space at which the task recurs.
  task &&at(const tw::space &space, std::size_t index) && {
    return task_.space = space.handle(), task_.index = index, std::move(*this);
  }
  /// The body runs on CPU units only, as it must if it waits for children.
  task &&host() && { return task_.host_only = true, std::move(*this); }

  /// Submits the task. `body` takes a view per access, after a `tw::context &` if it begins with one.
  template <class Body>
  void submit(Body &&body) && { send(std::forward<Body>(body), nullptr); }
  /// As `submit`; returns the task's handle.
  template <class Body>
  [[nodiscard]] submitted submit_handle(Body &&body) && {
    tw_submitted made{0};
    send(std::forward<Body>(body), &made);
    return submitted(made);
  }

 private:
  template <class Body>
  void send(Body &&body, tw_submitted *made) {
    using F = std::decay_t<Body>;
    static_assert(std::is_invocable_v<F &, Views...> || std::is_invocable_v<F &, context &, Views...>,
                  "the body takes the views of its accesses: try one parameter per access, such as "
                  "tw::view<const double> for tw::in, in their order");
    task_.accesses = accesses_.data();
    task_.body = &run<F>;
    // A small plain body is copied by the library; another one is moved to memory that its destructor frees.
    if constexpr (std::is_empty_v<F> && std::is_trivially_copyable_v<F>) {
      static const char nothing = 0;
      task_.argument = &nothing;
      submit_raw(made);
    } else if constexpr (std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F> && alignof(F) <= 16) {
      F copy(std::forward<Body>(body));
      task_.argument = &copy;
      task_.argument_bytes = sizeof(F);
      submit_raw(made);
    } else {
      task_.argument = new F(std::forward<Body>(body));
      task_.destructor = [](void *argument) { delete static_cast<F *>(argument); };
      submit_raw(made);
    }
  }
  void submit_raw(tw_submitted *made) {
    check(parent_ ? tw_submit_child(parent_, &task_, made) : tw_submit(rt_, &task_, made));
  }
  template <class F>
  static int run(tw_context *raw, const tw_view *views, std::size_t, void *argument) noexcept {
    return call<F>(raw, views, argument, std::index_sequence_for<Views...>());
  }
  template <class F, std::size_t... I>
  static int call(tw_context *raw, const tw_view *views, void *argument, std::index_sequence<I...>);

  tw_runtime rt_;
  tw_context *parent_;
  std::array<tw_access, sizeof...(Views)> accesses_;
  tw_task task_{};
};

/// The environment of a body, on its thread.
class context {
 public:
  explicit context(tw_context *raw) : raw_(raw) {}
  /// The number of the unit that runs the body.
  std::size_t unit() const { return tw_context_unit(raw_); }
  /// Whether the task's group was cancelled, so that a long body can return early.
  bool is_cancelled() const { return tw_context_is_cancelled(raw_); }
  /// A child, which may access the regions of its parent.
  template <class... Views>
  tw::task<Views...> task(name name, const access<Views> &...accesses) const {
    return {tw_runtime{0}, raw_, name, accesses...};
  }
  /// Waits for the children.
  void wait() const { check(tw_wait_children(raw_)); }

 private:
  tw_context *raw_;
};

template <class... Views>
template <class F, std::size_t... I>
int task<Views...>::call(tw_context *raw, const tw_view *views, void *argument, std::index_sequence<I...>) {
  (void)views;
  F &body = *static_cast<F *>(argument);
  try {
    if constexpr (std::is_invocable_v<F &, context &, Views...>) {
      context environment(raw);
      body(environment, Views(views[I])...);
    } else {
      body(Views(views[I])...);
    }
    return 0;
  } catch (const std::exception &thrown) {
    return tw_fail(raw, thrown.what());
  } catch (...) {
    return tw_fail(raw, "its body threw an object that is no std::exception");
  }
}

/// Options of a runtime. What is not set has its default.
struct options {
  /// The compute units, such as `"4:CPU:1,1:EMU:1"`.
  std::string units;
  /// The scheduler's name, such as `"eft"`.
  std::string scheduler;
  /// The number of pending tasks from which a submission waits.
  std::size_t max_pending_tasks = 0;
  /// The file to which a trace of the run is written.
  std::string trace;
};

/// A runtime. Its destructor waits for all tasks.
class runtime : public detail::owned<tw_runtime, tw_runtime_free> {
 public:
  explicit runtime(const options &options = {}) {
    if (tw_abi_version() != TW_ABI_VERSION) {
      throw error(TW_INVALID, "cannot use this libthalweg: its interface has another version; try the header that it "
                              "was installed with");
    }
    auto text = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    tw_options given{};
    given.size = sizeof given;
    given.units = text(options.units);
    given.scheduler = text(options.scheduler);
    given.max_pending_tasks = options.max_pending_tasks;
    given.trace = text(options.trace);
    tw_runtime made;
    check(tw_runtime_new(&given, &made));
    detail::owned<tw_runtime, tw_runtime_free>::operator=(owned(made));
  }
  explicit runtime(const char *units) : runtime(options{units, {}, 0, {}}) {}

  /// Makes a data object of zeros.
  template <class T, class... Extent>
  data<T, sizeof...(Extent)> zeros(Extent... extents) const {
    const std::size_t shape[] = {static_cast<std::size_t>(extents)...};
    tw_data made;
    if constexpr (detail::element<T>::number() >= 0) {
      check(tw_data_zeros(handle(), detail::element<T>::number(), sizeof...(Extent), shape, &made));
    } else {
      check(tw_data_zeros_of_size(handle(), sizeof(T), sizeof...(Extent), shape, &made));
    }
    return data<T, sizeof...(Extent)>(made);
  }
  /// Makes a data object of the elements of an array, in place. Until it is released, only tasks may touch them.
  template <class T>
  data<T> borrow(std::vector<T> &elements) const {
    return borrow(elements.data(), {elements.size()});
  }
  /// Makes a data object of memory, in place, with these extents. `strides` are in elements; without them, there are
  /// no gaps.
  template <class T, std::size_t N>
  data<T, N> borrow(T *elements, const std::size_t (&shape)[N], const std::size_t *strides = nullptr) const {
    tw_data made;
    if constexpr (detail::element<T>::number() >= 0) {
      check(tw_data_borrow(handle(), elements, detail::element<T>::number(), N, shape, strides, &made));
    } else {
      check(tw_data_borrow_of_size(handle(), elements, sizeof(T), N, shape, strides, &made));
    }
    return data<T, N>(made);
  }
  /// Begins a task.
  template <class... Views>
  tw::task<Views...> task(name name, const access<Views> &...accesses) const {
    return {handle(), nullptr, name, accesses...};
  }
  tw::group group() const {
    tw_group made;
    check(tw_group_new(handle(), &made));
    return tw::group(made);
  }
  /// Waits for all tasks. Throws `failed` if tasks have failed since the last call that waited.
  void wait() const { check(tw_wait(handle())); }
  /// Waits at most for this time, and returns whether all tasks are done.
  bool wait_for(double seconds) const {
    tw_status status = tw_wait_timeout(handle(), seconds);
    if (status != TW_TIMEOUT) check(status);
    return status == TW_OK;
  }
};

}  // namespace tw

#endif  /* THALWEG_HPP */
