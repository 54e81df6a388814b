/* Thalweg's C interface. The guide's chapter on C shows how to use it. Generated from crates/thalweg-c. */

#ifndef THALWEG_H
#define THALWEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this interface. It increases when a program that was compiled with an older header would break.
#define TW_ABI_VERSION 1

// The greatest number of bytes of an argument that is copied.
#define TW_MAX_ARGUMENT_BYTES (1 << 20)

// The type of an argument that is a region.
#define TW_REGION 100

// The greatest number of dimensions.
#define TW_MAX_DIMS 4

// The result of a call.
typedef enum {
  // The call has succeeded.
  TW_OK = 0,
  // The call was refused, and nothing has changed.
  TW_REFUSED = 1,
  // A task has failed, or a value is missing because of it.
  TW_FAILED = 2,
  // The time is over.
  TW_TIMEOUT = 3,
  // An argument is a null pointer, a released handle, or not valid UTF-8.
  TW_INVALID = 4,
  // The library has an error; please report it.
  TW_PANICKED = 5,
} tw_status;

// A type of elements.
typedef enum {
  // `int8_t`
  TW_INT8 = 0,
  // `int16_t`
  TW_INT16 = 1,
  // `int32_t`
  TW_INT32 = 2,
  // `int64_t`
  TW_INT64 = 3,
  // `uint8_t`
  TW_UINT8 = 4,
  // `uint16_t`
  TW_UINT16 = 5,
  // `uint32_t`
  TW_UINT32 = 6,
  // `uint64_t`
  TW_UINT64 = 7,
  // `float`
  TW_FLOAT32 = 8,
  // `double`
  TW_FLOAT64 = 9,
  // `float _Complex`
  TW_COMPLEX64 = 10,
  // `double _Complex`
  TW_COMPLEX128 = 11,
  // Elements of another type, such as structures.
  TW_BYTES = 12,
} tw_dtype;

// The mode of an access.
typedef enum {
  // The task reads the region.
  TW_IN = 0,
  // The task overwrites all of the region.
  TW_OUT = 1,
  // The task reads and writes the region.
  TW_INOUT = 2,
  // Like `TW_INOUT`, in any order with other commutative tasks, one at a time.
  TW_COMMUTATIVE = 3,
  // The task is ordered as if it read the region, but gets no view.
  TW_AFTER = 4,
  // The task's children may read the region.
  TW_WEAK_IN = 5,
  // The task's children may read and write the region.
  TW_WEAK_INOUT = 6,
  // The task adds to the region: its view is a private replica of zeros.
  TW_SUM = 7,
  // The region gets the minimum.
  TW_MIN = 8,
  // The region gets the maximum.
  TW_MAX = 9,
} tw_mode;

// The environment of a body; valid while the body runs, on its thread.
typedef struct tw_context tw_context;

// A runtime.
typedef struct {
  // The handle's number; 0 is no runtime.
  uint64_t id;
} tw_runtime;

// A data object.
typedef struct {
  // The handle's number; 0 is no data object.
  uint64_t id;
} tw_data;

// A kernel.
typedef struct {
  // The handle's number; 0 is no kernel.
  uint64_t id;
} tw_kernel;

// A group of tasks, which a program waits for or cancels together.
typedef struct {
  // The handle's number; 0 is no group.
  uint64_t id;
} tw_group;

// An iteration space: tasks that recur in each time step, which schedulers distribute.
typedef struct {
  // The handle's number; 0 is no space.
  uint64_t id;
} tw_space;

// A submitted task.
typedef struct {
  // The handle's number; 0 is no task.
  uint64_t id;
} tw_submitted;

// Options of a runtime. A field that is zero has its default.
typedef struct {
  // `sizeof(tw_options)`.
  size_t size;
  // The compute units, such as `"4:CPU:1,1:EMU:1"`; by default a CPU unit per core.
  const char *units;
  // The scheduler's name, such as `"eft"`.
  const char *scheduler;
  // The number of pending tasks from which a submission waits.
  size_t max_pending_tasks;
  // The file to which a trace of the run is written; null if none is.
  const char *trace;
  // The memory that the runtime uses of each device, in bytes.
  uint64_t device_memory_bytes;
} tw_options;

// The work of a runtime since it was built.
typedef struct {
  // The number of tasks that have run.
  uint64_t tasks;
  // The number of copies between memories.
  uint64_t copies;
  // The number of bytes copied.
  uint64_t bytes_copied;
  // The number of replicas that were evicted from a device's memory.
  uint64_t evictions;
  // The time for which units ran bodies, in seconds, added up.
  double busy_seconds;
} tw_statistics;

// An access of a task.
typedef struct {
  // The data object.
  tw_data data;
  // A `tw_mode`. C passes any number as an enumeration, so it arrives as one.
  uint32_t mode;
  // The number of leading dimensions that `lo` and `hi` limit; 0 for all of the data object.
  uint32_t ndim;
  // The first index, per dimension.
  size_t lo[TW_MAX_DIMS];
  // The index after the last one, per dimension.
  size_t hi[TW_MAX_DIMS];
} tw_access;

// A view of a region in host memory.
typedef struct {
  // The first element; null if the access gives no view. Elements of `TW_IN` must not be written.
  void *data;
  // A `tw_dtype`.
  uint32_t type;
  // The number of dimensions.
  size_t ndim;
  // The number of elements along each dimension; 1 beyond the last.
  size_t shape[TW_MAX_DIMS];
  // The number of elements from one index to the next, per dimension.
  size_t strides[TW_MAX_DIMS];
  // The number of elements.
  size_t count;
  // The number of bytes of an element.
  size_t element_bytes;
  // Whether the task may write the region.
  bool is_writable;
} tw_view;

// A body. It gets a view for each access, in their order, and the address of its argument. It returns 0 if it has
// succeeded; otherwise the task fails, with the text of `tw_fail` if it was called. A body must not end by `longjmp`
// or an exception, nor let anything use its context or its views after it has returned.
typedef int (*tw_body)(tw_context *context, const tw_view *views, size_t count, void *argument);

// The number of an argument.
typedef union {
  // For `TW_FLOAT64`.
  double float64;
  // For `TW_FLOAT32`.
  float float32;
  // For `TW_INT32`.
  int32_t int32;
  // For `TW_UINT32`.
  uint32_t uint32;
  // For `TW_INT64`.
  int64_t int64;
  // For `TW_UINT64`.
  uint64_t uint64;
  // For `TW_REGION`: the index of an access of the task.
  size_t access;
} tw_number;

// An argument of a kernel: `tw_region`, `tw_float64`, `tw_int32` and their like make one.
typedef struct {
  // `TW_REGION`, or the `tw_dtype` of a number.
  uint32_t type;
  // The number, or the index of the access.
  tw_number value;
} tw_argument;

// The launch of a kernel.
typedef struct {
  // The kernel.
  tw_kernel kernel;
  // The number of threads along each dimension; 0 beyond the first means 1.
  size_t threads[3];
  // The arguments, as the kernel's head declares them.
  const tw_argument *arguments;
  // The number of arguments.
  size_t count;
} tw_launch;

// A task. A field that is zero has its default.
typedef struct {
  // `sizeof(tw_task)`.
  size_t size;
  // The name, in error messages and traces.
  const char *name;
  // The file that submits the task, for error messages and traces; `TW_TASK` sets it.
  const char *file;
  // The line in the file, counted from 1.
  uint32_t line;
  // The accesses, which must not overlap if one of them writes.
  const tw_access *accesses;
  // The number of accesses.
  size_t count;
  // The body for CPU units and emulated devices.
  tw_body body;
  // Launches of kernels, one after the other: the body for accelerators of all kinds.
  const tw_launch *launches;
  // The number of launches.
  size_t launch_count;
  // The body for CUDA devices: it enqueues work on `tw_context_stream`, and does not wait for it. The views are in
  // the device's memory. Without the feature `cuda` of the library, it is ignored.
  tw_body cuda;
  // The body for HIP devices, likewise.
  tw_body hip;
  // The argument of the body.
  const void *argument;
  // The number of bytes of the argument that are copied, at most `TW_MAX_ARGUMENT_BYTES`; 0 if the body gets the
  // address as it is.
  size_t argument_bytes;
  // A function that is called once with the argument's address, when the body is gone, whether it ran or not.
  void (*destructor)(void*);
  // Whether the body runs on CPU units only, as it must if it waits for children.
  bool host_only;
  // Ready tasks with larger priorities go first.
  int32_t priority;
  // The amount of work, in any unit that is the same for all tasks; 0 if it is unknown.
  double cost;
  // The group that the task joins.
  tw_group group;
  // The iteration space that the task belongs to.
  tw_space space;
  // The task's index in the iteration space.
  size_t index;
} tw_task;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the interface of this library, to be compared with `TW_ABI_VERSION`.
uint32_t tw_abi_version(void);

// Sets the text with which the task fails if its body returns another number than 0.
//
// # Safety
// `context` is that of the running body, and `text` ends with a zero byte.
int tw_fail(tw_context *context, const char *text);

// Returns the number of the unit that runs the body.
//
// # Safety
// `context` is that of the running body.
size_t tw_context_unit(const tw_context *context);

// Returns whether the task's group was cancelled, so that a long body can return early.
//
// # Safety
// `context` is that of the running body.
bool tw_context_is_cancelled(const tw_context *context);

// Returns the stream of the task, in a body for CUDA or HIP: a `CUstream` or `hipStream_t`. Otherwise, null.
//
// # Safety
// `context` is that of the running body.
void *tw_context_stream(const tw_context *context);

// Returns the ordinal of the device, in a body for CUDA or HIP. Otherwise, 0.
//
// # Safety
// `context` is that of the running body.
int tw_context_device(const tw_context *context);

// Makes a data object of the caller's memory, in place. `strides` are in elements, one per dimension; they may
// be null if there are no gaps. Until [`tw_data_release`] has returned, only tasks may touch the elements.
//
// # Safety
// `elements` points to elements of this type at these strides, which stay valid until `tw_data_release` has returned.
// `shape` points to `ndim` numbers, `strides` is null or points to `ndim` numbers, and `data` points to a variable.
tw_status tw_data_borrow(tw_runtime rt,
                         void *elements,
                         uint32_t type,
                         size_t ndim,
                         const size_t *shape,
                         const size_t *strides,
                         tw_data *data);

// Makes a data object of the caller's memory, as [`tw_data_borrow`], of elements of `size` bytes, such as structures.
// They are aligned to the largest power of two that divides `size`, up to 16.
//
// # Safety
// As for [`tw_data_borrow`].
tw_status tw_data_borrow_of_size(tw_runtime rt,
                                 void *elements,
                                 size_t size,
                                 size_t ndim,
                                 const size_t *shape,
                                 const size_t *strides,
                                 tw_data *data);

// Makes a data object of zeros with `ndim` dimensions. `type` is a `tw_dtype`.
//
// # Safety
// `shape` points to `ndim` numbers, and `data` to a variable.
tw_status tw_data_zeros(tw_runtime rt, uint32_t type, size_t ndim, const size_t *shape, tw_data *data);

// Makes a data object of zeroed elements of `size` bytes, such as structures, which are aligned to the largest power
// of two that divides `size`, up to 16.
//
// # Safety
// `shape` points to `ndim` numbers, and `data` to a variable.
tw_status tw_data_zeros_of_size(tw_runtime rt, size_t size, size_t ndim, const size_t *shape, tw_data *data);

// Returns the number of bytes of all elements.
//
// # Safety
// `bytes` points to a variable.
tw_status tw_data_bytes(tw_data data, size_t *bytes);

// Names a data object in error messages. The first call wins.
//
// # Safety
// `name` ends with a zero byte.
tw_status tw_data_set_name(tw_data data, const char *name);

// Releases a data object. Memory that was borrowed contains the current value and belongs to the caller again once the
// call returns, which waits for the tasks that use it; other memory is freed after these tasks. Bodies that submit
// children by the handle must be done before the handle of memory that is not borrowed is released.
//
// Returns `TW_FAILED` if a task that should have written the value has failed. The object is released even then, but
// not if the call is refused, as in the body of a task that uses borrowed memory.
tw_status tw_data_release(tw_data data);

// Waits for the value of a region, and copies its elements in row-major order to `elements`. The region is the box
// from `lo` to `hi` - 1 in each dimension, or everything if both are null.
//
// # Safety
// `elements` points to `bytes` bytes. `lo` and `hi` are null or point to as many numbers as the data object has
// dimensions.
tw_status tw_data_read(tw_data data, const size_t *lo, const size_t *hi, void *elements, size_t bytes);

// Submits a task that overwrites a region with these elements, in row-major order. They are copied during the call.
//
// # Safety
// As for `tw_data_read`.
tw_status tw_data_write(tw_data data, const size_t *lo, const size_t *hi, const void *elements, size_t bytes);

// Makes a kernel of a text in Thalweg's dialect, which the guide's chapter on kernels describes. The library keeps
// each text, once, until the process ends. `name` is that of the text in the messages of compilers.
//
// # Safety
// The texts end with a zero byte, and `made` points to a variable. With any arguments of the types in its head, the
// kernel touches only the elements that its head declares.
tw_status tw_kernel_new(const char *name, const char *source, const char *kernel, tw_kernel *made);

// Releases the handle of a kernel. Tasks that were submitted with it go on.
tw_status tw_kernel_free(tw_kernel kernel);

// Makes a group.
//
// # Safety
// `group` points to a variable.
tw_status tw_group_new(tw_runtime rt, tw_group *group);

// Waits for the group's tasks.
tw_status tw_group_wait(tw_group group);

// Waits for the group's tasks, at most for this time. Returns `TW_TIMEOUT` if some are not done.
tw_status tw_group_wait_timeout(tw_group group, double seconds);

// Cancels the group: tasks that have not begun are skipped, and no more are accepted.
tw_status tw_group_cancel(tw_group group);

// Releases the handle of a group. Its tasks go on.
tw_status tw_group_free(tw_group group);

// Makes an iteration space with one index per weight. The weights are read during the call.
//
// # Safety
// `weights` points to `count` numbers, `name` is null or ends with a zero byte, and `space` points to a variable.
tw_status tw_space_new(const char *name, const double *weights, size_t count, tw_space *space);

// Begins the next time step of an iteration space.
tw_status tw_space_begin(tw_space space);

// Releases an iteration space.
tw_status tw_space_free(tw_space space);

// Waits for a task. Returns `TW_FAILED` if it has failed.
tw_status tw_submitted_wait(tw_submitted task);

// Waits for a task, at most for this time. Returns `TW_TIMEOUT` if it is not done, and `TW_FAILED` if it has failed.
tw_status tw_submitted_wait_timeout(tw_submitted task, double seconds);

// Releases the handle of a task. The task goes on.
tw_status tw_submitted_free(tw_submitted task);

// Builds a runtime. `options` may be null; it and its texts are read during the call.
//
// # Safety
// `options` is null or points to options of their `size`, whose texts are null or end with a zero byte; `rt` points to
// a variable.
tw_status tw_runtime_new(const tw_options *options, tw_runtime *rt);

// Waits for all tasks and ends the runtime. Data objects that were borrowed keep their memory until they are released.
//
// Returns `TW_FAILED` if tasks have failed since the last call that waited. The handle is released even then, but not
// by a call in a body, which is refused.
tw_status tw_runtime_free(tw_runtime rt);

// Waits for all tasks. Returns `TW_FAILED` if tasks have failed since the last call that waited.
tw_status tw_wait(tw_runtime rt);

// Waits for all tasks, at most for this time. Returns `TW_TIMEOUT` if some are not done.
tw_status tw_wait_timeout(tw_runtime rt, double seconds);

// Returns what a runtime has done since it was built.
//
// # Safety
// `statistics` points to a variable.
tw_status tw_runtime_statistics(tw_runtime rt, tw_statistics *statistics);

// Returns the text of the last call on this thread that did not return `TW_OK`, or an empty text. The text is valid
// until the next call on this thread that does not return `TW_OK`.
const char *tw_last_error(void);

// Sets the text that [`tw_last_error`] returns on this thread, for modules of other languages over this interface.
//
// # Safety
// `text` is null or ends with a zero byte.
void tw_set_last_error(const char *text);

// Submits a task: it runs as soon as the tasks that it depends on are done. `task`, its name, its accesses and an
// argument that is copied are read during the call. `submitted` may be null.
//
// The argument's destructor is called even if the task is refused, unless `size` or `argument_bytes` is wrong.
//
// # Safety
// `task` points to a task of its `size`, whose name and file are null or end with a zero byte, and which has `count`
// accesses.
// The argument has `argument_bytes` bytes; body and destructor may use it on any thread. The body uses its views only
// while it runs, and writes only those that are writable. `submitted` is null or points to a variable.
tw_status tw_submit(tw_runtime rt, const tw_task *task, tw_submitted *submitted);

// Submits a child of the running task, which may access the regions of its parent. See [`tw_submit`].
//
// # Safety
// As for [`tw_submit`]; `context` is that of the running body.
tw_status tw_submit_child(const tw_context *context, const tw_task *task, tw_submitted *submitted);

// Waits for the children that the running body has submitted.
//
// # Safety
// `context` is that of the running body.
tw_status tw_wait_children(const tw_context *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* Conveniences for C. */

#ifndef __cplusplus
/// A task, by designated initializers: `tw_submit(rt, &TW_TASK(.name = "axpy", .body = axpy), NULL)`.
#define TW_TASK(...) ((tw_task){.size = sizeof(tw_task), .file = __FILE__, .line = __LINE__, __VA_ARGS__})
/// A list of accesses, for `TW_TASK`: `TW_ACCESSES(tw_whole(x, TW_IN), tw_whole(y, TW_INOUT))`.
#define TW_ACCESSES(...) \
  .accesses = (tw_access[]){__VA_ARGS__}, .count = sizeof((tw_access[]){__VA_ARGS__}) / sizeof(tw_access)
/// An argument that is copied, for `TW_TASK`: `TW_ARGUMENT(double, 2.0)`.
#define TW_ARGUMENT(type, ...) .argument = &(type){__VA_ARGS__}, .argument_bytes = sizeof(type)

/// Launches of kernels, for `TW_TASK`: `TW_LAUNCHES({.kernel = k, .threads = {n}, TW_ARGUMENTS(tw_region(0))})`.
#define TW_LAUNCHES(...) \
  .launches = (tw_launch[]){__VA_ARGS__}, .launch_count = sizeof((tw_launch[]){__VA_ARGS__}) / sizeof(tw_launch)
/// The arguments of a launch: `TW_ARGUMENTS(tw_float64(2.0), tw_region(0))`.
#define TW_ARGUMENTS(...) \
  .arguments = (tw_argument[]){__VA_ARGS__}, .count = sizeof((tw_argument[]){__VA_ARGS__}) / sizeof(tw_argument)
#endif

/// Returns the argument of a kernel for the access of the task with this index.
static inline tw_argument tw_region(size_t access) {
  tw_argument argument = {TW_REGION, {0}};
  argument.value.access = access;
  return argument;
}
/// Returns an argument that is a `double`.
static inline tw_argument tw_float64(double number) {
  tw_argument argument = {TW_FLOAT64, {0}};
  argument.value.float64 = number;
  return argument;
}
/// Returns an argument that is a `float`.
static inline tw_argument tw_float32(float number) {
  tw_argument argument = {TW_FLOAT32, {0}};
  argument.value.float32 = number;
  return argument;
}
/// Returns an argument that is an `int`.
static inline tw_argument tw_int32(int32_t number) {
  tw_argument argument = {TW_INT32, {0}};
  argument.value.int32 = number;
  return argument;
}
/// Returns an argument that is an `INT64`.
static inline tw_argument tw_int64(int64_t number) {
  tw_argument argument = {TW_INT64, {0}};
  argument.value.int64 = number;
  return argument;
}

/// Returns an access of a whole data object.
static inline tw_access tw_whole(tw_data data, tw_mode mode) {
  tw_access access = {data, mode, 0, {0}, {0}};
  return access;
}

/// Returns an access of the elements with indices from `lo` to `hi` - 1 along the first dimension.
static inline tw_access tw_range(tw_data data, tw_mode mode, size_t lo, size_t hi) {
  tw_access access = {data, mode, 1, {lo}, {hi}};
  return access;
}

/// Returns an access of a box: indices from `lo` to `hi` - 1 along the first two dimensions.
static inline tw_access tw_block(tw_data data, tw_mode mode, size_t lo0, size_t hi0, size_t lo1, size_t hi1) {
  tw_access access = {data, mode, 2, {lo0, lo1}, {hi0, hi1}};
  return access;
}

#endif  /* THALWEG_H */
