! The C interface's types and functions, for module `thalweg_core`.

module thalweg_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  enum, bind(c)
    enumerator :: TW_OK, TW_REFUSED, TW_FAILED, TW_TIMEOUT, TW_INVALID, TW_PANICKED
  end enum
  enum, bind(c)
    enumerator :: TW_INT8, TW_INT16, TW_INT32, TW_INT64, TW_UINT8, TW_UINT16, TW_UINT32, TW_UINT64, TW_FLOAT32, &
      TW_FLOAT64, TW_COMPLEX64, TW_COMPLEX128, TW_BYTES
  end enum
  integer, parameter :: max_dims = 4, max_text = 4096

  !> A handle of the C interface.
  type, bind(c) :: handle
    integer(c_int64_t) :: id = 0
  end type

  type, bind(c) :: c_options
    integer(c_size_t) :: size
    type(c_ptr) :: units = c_null_ptr, scheduler = c_null_ptr
    integer(c_size_t) :: max_pending_tasks = 0
    type(c_ptr) :: trace = c_null_ptr
    integer(c_int64_t) :: device_memory_bytes = 0
  end type

  !> The work of a runtime since it was built.
  type, bind(c) :: tw_statistics
    integer(c_int64_t) :: tasks, copies, bytes_copied, evictions
    real(c_double) :: busy_seconds
  end type

  !> An access of a task, made by `tw_in` and its like.
  type, bind(c) :: tw_access
    type(handle) :: data
    integer(c_int32_t) :: mode = 0, ndim = 0
    integer(c_size_t) :: lo(max_dims) = 0, hi(max_dims) = 0
  end type

  type, bind(c) :: c_view
    type(c_ptr) :: data
    integer(c_int32_t) :: type
    integer(c_size_t) :: ndim, shape(max_dims), strides(max_dims), count, element_bytes
    logical(c_bool) :: is_writable
  end type

  !> An argument of a kernel, made by `tw_number` and `tw_nth`.
  type, bind(c) :: tw_argument
    integer(c_int32_t) :: type = 0
    integer(c_int64_t) :: value = 0
  end type
  integer(c_int32_t), parameter :: argument_is_region = 100

  type, bind(c) :: c_launch
    type(handle) :: kernel
    integer(c_size_t) :: threads(3) = 1
    type(c_ptr) :: arguments = c_null_ptr
    integer(c_size_t) :: count = 0
  end type

  type, bind(c) :: c_task
    integer(c_size_t) :: size
    type(c_ptr) :: name = c_null_ptr, file = c_null_ptr
    integer(c_int32_t) :: line = 0
    type(c_ptr) :: accesses = c_null_ptr
    integer(c_size_t) :: count = 0
    type(c_funptr) :: body = c_null_funptr
    type(c_ptr) :: launches = c_null_ptr
    integer(c_size_t) :: launch_count = 0
    type(c_funptr) :: cuda = c_null_funptr, hip = c_null_funptr
    type(c_ptr) :: argument = c_null_ptr
    integer(c_size_t) :: argument_bytes = 0
    type(c_funptr) :: destructor = c_null_funptr
    logical(c_bool) :: host_only = .false.
    integer(c_int32_t) :: priority = 0
    real(c_double) :: cost = 0
    type(handle) :: group, space
    integer(c_size_t) :: index = 0
  end type

  interface
    function tw_last_error() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    subroutine tw_set_last_error(text) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: text(*)
    end subroutine
    function tw_runtime_new(options, rt) bind(c) result(status)
      import :: c_options, handle, c_int
      type(c_options), intent(in) :: options
      type(handle), intent(out) :: rt
      integer(c_int) :: status
    end function
    function tw_runtime_free(rt) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: rt
      integer(c_int) :: status
    end function
    function tw_runtime_statistics(rt, statistics) bind(c) result(status)
      import :: handle, tw_statistics, c_int
      type(handle), value :: rt
      type(tw_statistics), intent(out) :: statistics
      integer(c_int) :: status
    end function
    function tw_wait(rt) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: rt
      integer(c_int) :: status
    end function
    function tw_wait_timeout(rt, seconds) bind(c) result(status)
      import :: handle, c_int, c_double
      type(handle), value :: rt
      real(c_double), value :: seconds
      integer(c_int) :: status
    end function
    function tw_data_zeros(rt, type, ndim, shape, data) bind(c) result(status)
      import :: handle, c_int, c_int32_t, c_size_t
      type(handle), value :: rt
      integer(c_int32_t), value :: type
      integer(c_size_t), value :: ndim
      integer(c_size_t), intent(in) :: shape(*)
      type(handle), intent(out) :: data
      integer(c_int) :: status
    end function
    function tw_data_borrow(rt, elements, type, ndim, shape, strides, data) bind(c) result(status)
      import :: handle, c_int, c_int32_t, c_size_t, c_ptr
      type(handle), value :: rt
      type(c_ptr), value :: elements
      integer(c_int32_t), value :: type
      integer(c_size_t), value :: ndim
      integer(c_size_t), intent(in) :: shape(*), strides(*)
      type(handle), intent(out) :: data
      integer(c_int) :: status
    end function
    function tw_data_read(data, lo, hi, elements, bytes) bind(c) result(status)
      import :: handle, c_int, c_size_t, c_ptr
      type(handle), value :: data
      type(c_ptr), value :: lo, hi, elements
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function
    function tw_data_set_name(data, name) bind(c) result(status)
      import :: handle, c_int, c_char
      type(handle), value :: data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: status
    end function
    function tw_data_release(data) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: data
      integer(c_int) :: status
    end function
    function tw_group_new(rt, group) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: rt
      type(handle), intent(out) :: group
      integer(c_int) :: status
    end function
    function tw_group_wait(group) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: group
      integer(c_int) :: status
    end function
    function tw_group_wait_timeout(group, seconds) bind(c) result(status)
      import :: handle, c_int, c_double
      type(handle), value :: group
      real(c_double), value :: seconds
      integer(c_int) :: status
    end function
    function tw_group_cancel(group) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: group
      integer(c_int) :: status
    end function
    function tw_group_free(group) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: group
      integer(c_int) :: status
    end function
    function tw_space_new(name, weights, count, space) bind(c) result(status)
      import :: handle, c_int, c_char, c_double, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), intent(in) :: weights(*)
      integer(c_size_t), value :: count
      type(handle), intent(out) :: space
      integer(c_int) :: status
    end function
    function tw_space_begin(space) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: space
      integer(c_int) :: status
    end function
    function tw_space_free(space) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: space
      integer(c_int) :: status
    end function
    function tw_kernel_new(name, source, kernel, made) bind(c) result(status)
      import :: handle, c_int, c_char
      character(kind=c_char), intent(in) :: name(*), source(*), kernel(*)
      type(handle), intent(out) :: made
      integer(c_int) :: status
    end function
    function tw_kernel_free(kernel) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: kernel
      integer(c_int) :: status
    end function
    function tw_submit(rt, task, submitted) bind(c) result(status)
      import :: handle, c_task, c_int, c_ptr
      type(handle), value :: rt
      type(c_task), intent(in) :: task
      type(c_ptr), value :: submitted
      integer(c_int) :: status
    end function
    function tw_submit_child(context, task, submitted) bind(c) result(status)
      import :: c_task, c_int, c_ptr
      type(c_ptr), value :: context, submitted
      type(c_task), intent(in) :: task
      integer(c_int) :: status
    end function
    function tw_wait_children(context) bind(c) result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int) :: status
    end function
    function tw_submitted_wait(task) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: task
      integer(c_int) :: status
    end function
    function tw_submitted_wait_timeout(task, seconds) bind(c) result(status)
      import :: handle, c_int, c_double
      type(handle), value :: task
      real(c_double), value :: seconds
      integer(c_int) :: status
    end function
    function tw_submitted_free(task) bind(c) result(status)
      import :: handle, c_int
      type(handle), value :: task
      integer(c_int) :: status
    end function
    function tw_fail(context, text) bind(c) result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: status
    end function
    function tw_context_unit(context) bind(c) result(unit)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: context
      integer(c_size_t) :: unit
    end function
    function tw_context_is_cancelled(context) bind(c) result(is_cancelled)
      import :: c_ptr, c_bool
      type(c_ptr), value :: context
      logical(c_bool) :: is_cancelled
    end function
    function strlen(text) bind(c) result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

end module
