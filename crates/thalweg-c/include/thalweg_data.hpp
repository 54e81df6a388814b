/* Errors, views, data objects and accesses of thalweg.hpp, which includes it.
 *
 * Invariant: a data object and its regions have the element type and the number of dimensions with which they were
 * made, so a view has those of the data object. */

#ifndef THALWEG_DATA_HPP
#define THALWEG_DATA_HPP

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

/// Returns whether a wait has ended in time.
inline bool in_time(tw_status status) {
  if (status != TW_TIMEOUT) check(status);
  return status == TW_OK;
}

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
  void release() {
    const tw_status status = tw_data_release(this->handle());
    if (status != TW_REFUSED) this->give();
    check(status);
  }
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

}  // namespace tw

#endif  /* THALWEG_DATA_HPP */
