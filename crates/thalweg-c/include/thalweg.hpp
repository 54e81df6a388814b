/* Thalweg's C++17 interface: header only, over the C interface. The guide's chapter on C++ shows how to use it.
 *
 * Handles are owned, and move only; a destructor ignores failures, which `wait`, `release` and `read` throw. Bodies get
 * a `view` per access, of constant elements if the task only reads. An exception of a body fails its task with its
 * text. Invariant: a body is destroyed once, whether it ran, was skipped or was refused. */

#ifndef THALWEG_HPP
#define THALWEG_HPP

#include "thalweg_data.hpp"

#include <thalweg.h>

namespace tw {

/// Tasks that a program waits for or cancels together.
class group : public detail::owned<tw_group, tw_group_free> {
 public:
  using detail::owned<tw_group, tw_group_free>::owned;
  void wait() const { check(tw_group_wait(handle())); }
  /// Waits at most for this time, and returns whether all tasks of the group are done.
  bool wait_for(double seconds) const { return detail::in_time(tw_group_wait_timeout(handle(), seconds)); }
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
  /// Waits at most for this time, and returns whether the task is done.
  bool wait_for(double seconds) const { return detail::in_time(tw_submitted_wait_timeout(handle(), seconds)); }
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

/// A kernel of a text in Thalweg's dialect. With any arguments, it touches only the elements that its head declares.
class kernel : public detail::owned<tw_kernel, tw_kernel_free> {
 public:
  kernel(const char *name, const char *text, const char *function) {
    tw_kernel made;
    check(tw_kernel_new(name, text, function, &made));
    detail::owned<tw_kernel, tw_kernel_free>::operator=(owned(made));
  }
};

/// The access of a task with this index, as an argument of a kernel.
struct nth {
  std::size_t access;
};

namespace detail {

inline tw_argument argument(nth region) { return tw_region(region.access); }
template <class T>
tw_argument argument(T number) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "a kernel takes numbers of 4 or 8 bytes, and tw::nth");
  tw_argument made{static_cast<uint32_t>(element<T>::number()), {0}};
  if constexpr (std::is_same_v<T, double>) {
    made.value.float64 = number;
  } else if constexpr (std::is_same_v<T, float>) {
    made.value.float32 = number;
  } else if constexpr (sizeof(T) == 4) {
    made.value.int32 = static_cast<int32_t>(number);
  } else {
    made.value.int64 = static_cast<int64_t>(number);
  }
  return made;
}

/// A launch whose arguments are not yet at their final place.
struct launch {
  tw_kernel kernel;
  std::array<std::size_t, 3> threads;
  std::vector<tw_argument> arguments;
};

}  // namespace detail

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

  /// Launches a kernel on accelerators, after the launches that were added before. `arguments` are those of its head:
  /// numbers, and `tw::nth{i}` for the access with index i.
  template <class... Arguments>
  task &&launch(const tw::kernel &kernel, std::array<std::size_t, 3> threads, Arguments... arguments) && {
    launches_.push_back({kernel.handle(), threads, {detail::argument(arguments)...}});
    return std::move(*this);
  }
  /// Submits a task whose bodies are launches.
  void submit() && {
    task_.accesses = accesses_.data();
    submit_raw(nullptr);
  }
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
    std::vector<tw_launch> launches;
    for (const detail::launch &one : launches_) {
      const auto [x, y, z] = one.threads;
      launches.push_back({one.kernel, {x, y, z}, one.arguments.data(), one.arguments.size()});
    }
    task_.launches = launches.data();
    task_.launch_count = launches.size();
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
  std::vector<detail::launch> launches_;
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
  /// The memory that the runtime uses of each device, in bytes.
  std::uint64_t device_memory_bytes = 0;
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
    given.device_memory_bytes = options.device_memory_bytes;
    tw_runtime made;
    check(tw_runtime_new(&given, &made));
    detail::owned<tw_runtime, tw_runtime_free>::operator=(owned(made));
  }
  explicit runtime(const char *units) : runtime(options{units, {}, 0, {}, 0}) {}

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
  /// What the runtime has done since it was built.
  tw_statistics statistics() const {
    tw_statistics found;
    check(tw_runtime_statistics(handle(), &found));
    return found;
  }
  /// Waits for all tasks. Throws `failed` if tasks have failed since the last call that waited.
  void wait() const { check(tw_wait(handle())); }
  /// Waits at most for this time, and returns whether all tasks are done.
  bool wait_for(double seconds) const { return detail::in_time(tw_wait_timeout(handle(), seconds)); }
};

}  // namespace tw

#endif  /* THALWEG_HPP */
