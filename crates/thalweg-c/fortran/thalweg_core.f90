! Runtimes, data objects, tasks and their bodies, for module `thalweg`.
!
! Invariants: a `bound` is freed by the destructor of its task alone, whether the body ran or not; dimensions are in
! Fortran's order in all arguments, and in C's order in a `tw_access`.

module thalweg_core
  use thalweg_c
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  public

  !> A box of a data object.
  type :: tw_region
    type(tw_access) :: access
    integer :: rank = 0
  contains
    procedure, private :: part_range, part_box
    !> The part from `lo` to `hi`: along the last dimension, or with a number per dimension.
    generic :: part => part_range, part_box
  end type

  !> A data object, made by `tw_borrow` or `tw_zeros`; the region of all its elements.
  type, extends(tw_region) :: tw_data
    integer(c_int32_t) :: element = -1
  contains
    !> Names the data object in error messages.
    procedure :: name => data_name
    !> Gives borrowed memory back with the current value, once its tasks are done.
    procedure :: release => data_release
  end type

  !> Tasks that a program waits for or cancels together.
  type :: tw_group
    type(handle) :: handle
  contains
    procedure :: start => group_start
    procedure :: wait => group_wait
    procedure :: cancel => group_cancel
    procedure :: finish => group_finish
  end type

  !> Tasks that recur in each time step, which schedulers distribute by their weights.
  type :: tw_space
    type(handle) :: handle
  contains
    procedure :: start => space_start
    !> Begins the next time step.
    procedure :: begin => space_begin
    procedure :: finish => space_finish
  end type

  !> A submitted task.
  type :: tw_submitted
    type(handle) :: handle
  contains
    procedure :: wait => submitted_wait
    procedure :: finish => submitted_finish
  end type

  !> A kernel of a text in Thalweg's dialect. With any arguments, it touches only the elements that its head declares.
  type :: tw_kernel
    type(handle) :: handle
  contains
    procedure :: start => kernel_start
    procedure :: finish => kernel_finish
    !> A launch, for `submit`.
    procedure :: launch => kernel_launch
  end type

  !> A launch of a kernel.
  type :: tw_launch
    type(c_launch) :: launch
    type(tw_argument), allocatable :: arguments(:)
  end type

  !> A number as an argument of a kernel: an `int`, `INT64`, `float` or `double`.
  interface tw_number
    module procedure number_int32, number_int64, number_real32, number_real64
  end interface

  !> A runtime.
  type :: tw_runtime
    type(handle) :: handle
  contains
    procedure :: start => runtime_start
    procedure :: submit => runtime_submit
    procedure :: statistics => runtime_statistics
    !> Waits for all tasks, or at most `seconds`.
    procedure :: wait => runtime_wait
    !> Waits for all tasks and ends the runtime.
    procedure :: finish => runtime_finish
  end type

  !> The running task, which its body gets.
  type :: tw_task
    type(c_ptr) :: context
    type(c_view), pointer :: views(:)
    !> The argument with which the task was submitted; `null()` if there was none.
    class(*), pointer :: argument
    logical :: has_failed = .false.
  contains
    procedure :: submit => task_submit
    !> Waits for the children that the body has submitted.
    procedure :: wait => task_wait
    !> Fails the task with a text, once its body returns.
    procedure :: fail => task_fail
    !> The number of the unit that runs the body.
    procedure :: unit => task_unit
    !> Whether the task's group was cancelled.
    procedure :: is_cancelled => task_is_cancelled
  end type

  abstract interface
    !> A body: a procedure of a module, since an internal one is gone when its host returns.
    subroutine tw_body(task)
      import :: tw_task
      type(tw_task), intent(inout) :: task
    end subroutine
  end interface

  !> The argument of the body that the library calls.
  type :: bound
    procedure(tw_body), pointer, nopass :: body
    class(*), pointer :: argument => null()
  end type

  !> A contiguous array and the section of it that has the elements of a view.
  type :: layout
    type(c_ptr) :: first
    integer :: rank = 0, extent(max_dims), last(max_dims), step(max_dims)
  end type

contains

  !> Returns the text of this thread's last failure.
  function tw_message() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: found(:)
    integer :: i
    call c_f_pointer(tw_last_error(), found, [strlen(tw_last_error())])
    allocate (character(size(found)) :: text)
    do i = 1, size(found)
      text(i:i) = found(i)
    end do
  end function

  !> Returns a status, or ends the program if nobody asks for it.
  subroutine report(found, status)
    integer(c_int), intent(in) :: found
    integer, intent(out), optional :: status
    if (present(status)) then
      status = found
    else if (found /= TW_OK) then
      write (error_unit, '(a)') tw_message()
      error stop 1
    end if
  end subroutine

  !> Builds a runtime. What is absent has its default.
  subroutine runtime_start(rt, units, scheduler, max_pending_tasks, trace, status)
    class(tw_runtime), intent(out) :: rt
    character(*), intent(in), optional :: units, scheduler, trace
    integer, intent(in), optional :: max_pending_tasks
    integer, intent(out), optional :: status
    type(c_options) :: options
    character(kind=c_char), allocatable, target :: texts(:, :)
    options%size = c_sizeof(options)
    allocate (texts(max_text, 3))
    if (present(units)) options%units = put(units, texts(:, 1))
    if (present(scheduler)) options%scheduler = put(scheduler, texts(:, 2))
    if (present(trace)) options%trace = put(trace, texts(:, 3))
    if (present(max_pending_tasks)) options%max_pending_tasks = max_pending_tasks
    call report(tw_runtime_new(options, rt%handle), status)
  end subroutine

  !> Writes a text for C, and returns its address.
  type(c_ptr) function put(text, to)
    character(*), intent(in) :: text
    character(kind=c_char), intent(out), target, contiguous :: to(:)
    integer :: i, length
    length = min(len(text), size(to) - 1)
    do i = 1, length
      to(i) = text(i:i)
    end do
    to(length + 1) = c_null_char
    put = c_loc(to)
  end function

  subroutine runtime_wait(rt, seconds, status)
    class(tw_runtime), intent(in) :: rt
    real(c_double), intent(in), optional :: seconds
    integer, intent(out), optional :: status
    if (present(seconds)) then
      call report(tw_wait_timeout(rt%handle, seconds), status)
    else
      call report(tw_wait(rt%handle), status)
    end if
  end subroutine

  subroutine runtime_statistics(rt, statistics, status)
    class(tw_runtime), intent(in) :: rt
    type(tw_statistics), intent(out) :: statistics
    integer, intent(out), optional :: status
    call report(tw_runtime_statistics(rt%handle, statistics), status)
  end subroutine

  subroutine runtime_finish(rt, status)
    class(tw_runtime), intent(inout) :: rt
    integer, intent(out), optional :: status
    integer(c_int) :: found
    found = tw_runtime_free(rt%handle)
    if (found /= TW_REFUSED) rt%handle%id = 0
    call report(found, status)
  end subroutine

  !> Makes a data object of zeros, of elements such as `TW_FLOAT64`.
  subroutine tw_zeros(rt, element, shape, data, status)
    type(tw_runtime), intent(in) :: rt
    integer, intent(in) :: element, shape(:)
    type(tw_data), intent(out) :: data
    integer, intent(out), optional :: status
    integer(c_size_t) :: extents(size(shape))
    extents = shape(size(shape):1:-1)
    call report(tw_data_zeros(rt%handle, int(element, c_int32_t), size(extents, kind=c_size_t), extents, &
                              data%access%data), status)
    data%element = int(element, c_int32_t)
    data%rank = size(shape)
  end subroutine

  !> Returns the number of bytes of an element.
  pure integer(c_intptr_t) function bytes_of(element)
    integer(c_int32_t), intent(in) :: element
    integer(c_intptr_t), parameter :: bytes(0:11) = int([1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16], c_intptr_t)
    bytes_of = bytes(element)
  end function

  !> Borrows an array, by the addresses of its first element and of the next one along each dimension.
  subroutine borrow_at(rt, element, shape, at, data, status)
    type(tw_runtime), intent(in) :: rt
    integer(c_int32_t), intent(in) :: element
    integer, intent(in) :: shape(:)
    type(c_ptr), intent(in) :: at(0:)
    type(tw_data), intent(inout) :: data
    integer, intent(out), optional :: status
    integer(c_size_t) :: extents(max_dims + 1), strides(max_dims + 1), step(size(shape))
    type(layout) :: found
    integer :: d, ndim
    do d = 1, size(shape)
      step(d) = (transfer(at(d), 0_c_intptr_t) - transfer(at(0), 0_c_intptr_t))/bytes_of(element)
    end do
    ndim = size(shape)
    extents(:ndim) = shape(ndim:1:-1)
    strides(:ndim) = step(ndim:1:-1)
    if (shape(1) > 1 .and. step(1) /= 1 .and. ndim < max_dims) then
      ndim = ndim + 1
      extents(ndim) = 1
      strides(ndim) = 1
    end if
    if (all(step >= 0)) then
      call nest(shape, step, found)
      if (found%rank == 0) then
        call refuse("cannot `tw_borrow`: no array has sections with these strides; try a copy of the section", status)
        return
      end if
    end if
    call report(tw_data_borrow(rt%handle, at(0), element, int(ndim, c_size_t), extents, strides, data%access%data), &
                status)
    data%element = element
    data%rank = size(shape)
  end subroutine

  !> Finds a contiguous array of which a section has these extents and steps. Its rank is 0 if there is none.
  pure subroutine nest(shape, step, found)
    integer, intent(in) :: shape(:)
    integer(c_size_t), intent(in) :: step(:)
    type(layout), intent(inout) :: found
    integer(c_size_t) :: unit, next
    integer :: d
    found%rank = 0
    unit = 1
    do d = 1, size(shape)
      found%step(d) = 1
      if (shape(d) > 1) found%step(d) = int(step(d)/unit)
      found%last(d) = (shape(d) - 1)*found%step(d) + 1
      found%extent(d) = found%last(d)
      if (shape(d) == 0) found%last(d) = 0
      if (d < size(shape)) then
        next = common(shape(d + 1:), step(d + 1:))
        if (next > 0) then
          found%extent(d) = int(next/unit)
          unit = next
        else
          unit = unit*found%extent(d)
        end if
        if (found%extent(d) < found%last(d)) return
      end if
    end do
    found%rank = size(shape)
  end subroutine

  !> Returns the greatest common divisor of the steps along dimensions with several indices; 0 if there are none.
  pure integer(c_size_t) function common(shape, step)
    integer, intent(in) :: shape(:)
    integer(c_size_t), intent(in) :: step(:)
    integer(c_size_t) :: a, b
    integer :: d
    common = 0
    do d = 1, size(shape)
      if (shape(d) <= 1) cycle
      a = step(d)
      do while (common > 0)
        b = mod(a, common)
        a = common
        common = b
      end do
      common = a
    end do
  end function

  !> Returns where the elements of an access are. If they cannot be seen so, the rank is 0 and the task fails.
  function layout_of(task, i, element, rank, status) result(found)
    type(tw_task), intent(inout) :: task
    integer, intent(in) :: i, rank
    integer(c_int32_t), intent(in) :: element
    integer, intent(out), optional :: status
    type(layout) :: found
    integer :: shape(rank)
    integer(c_size_t) :: step(rank)
    found%rank = 0
    if (i < 1 .or. i > size(task%views)) then
      call refuse("cannot `tw_view`: the task has no access with this number; try 1 for the first", status, task)
      return
    end if
    associate (view => task%views(i))
      if (.not. c_associated(view%data)) then
        call refuse("cannot `tw_view`: the access gives no view; try another mode", status, task)
      else if (view%type /= element) then
        call refuse("cannot `tw_view`: the elements have another type; try a pointer of that type", status, task)
      else if (view%ndim /= rank .and. .not. (view%ndim == rank + 1 .and. view%shape(min(rank + 1, max_dims)) == 1)) then
        call refuse("cannot `tw_view`: the region has another rank; try a pointer of that rank", status, task)
      else
        shape = int(view%shape(rank:1:-1))
        step = view%strides(rank:1:-1)
        call nest(shape, step, found)
        found%first = view%data
        call report(TW_OK, status)
      end if
    end associate
  end function

  !> Refuses a call of this module; in a body, its task fails.
  subroutine refuse(text, status, task)
    character(*), intent(in) :: text
    integer, intent(out), optional :: status
    type(tw_task), intent(inout), optional :: task
    call tw_set_last_error(text//c_null_char)
    if (present(task)) call task%fail(text)
    call report(TW_INVALID, status)
  end subroutine

  !> Reads the value of a data object of this shape.
  subroutine read_at(data, element, shape, to, status)
    type(tw_data), intent(in) :: data
    integer(c_int32_t), intent(in) :: element
    integer, intent(in) :: shape(:)
    type(c_ptr), intent(in) :: to
    integer, intent(out), optional :: status
    if (data%access%data%id /= 0 .and. (data%element /= element .or. data%rank /= size(shape))) then
      call refuse("cannot `tw_read`: the array has another type or rank than the data object; try one like it", status)
      return
    end if
    call report(tw_data_read(data%access%data, c_null_ptr, c_null_ptr, to, &
                             product(int(shape, c_size_t))*bytes_of(element)), status)
  end subroutine

  subroutine data_name(data, name, status)
    class(tw_data), intent(in) :: data
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    call report(tw_data_set_name(data%access%data, name//c_null_char), status)
  end subroutine

  subroutine data_release(data, status)
    class(tw_data), intent(inout) :: data
    integer, intent(out), optional :: status
    integer(c_int) :: found
    found = tw_data_release(data%access%data)
    if (found /= TW_REFUSED) data%access%data%id = 0
    call report(found, status)
  end subroutine

  pure type(tw_region) function part_range(region, lo, hi)
    class(tw_region), intent(in) :: region
    integer, intent(in) :: lo, hi
    part_range%access = region%access
    part_range%rank = region%rank
    part_range%access%ndim = 1
    part_range%access%lo(1) = lo - 1
    part_range%access%hi(1) = hi
  end function

  pure type(tw_region) function part_box(region, lo, hi)
    class(tw_region), intent(in) :: region
    integer, intent(in) :: lo(:), hi(:)
    integer :: n
    n = size(lo)
    part_box%access = region%access
    part_box%rank = region%rank
    part_box%access%ndim = max_dims + 1 ! refused at submission
    if (n /= region%rank .or. n /= size(hi)) return
    part_box%access%ndim = n
    part_box%access%lo(:n) = lo(n:1:-1) - 1
    part_box%access%hi(:n) = hi(n:1:-1)
  end function

  !> The task reads the region.
  pure type(tw_access) function tw_in(region)
    class(tw_region), intent(in) :: region
    tw_in = region%access
    tw_in%mode = 0
  end function

  !> The task overwrites all of the region.
  pure type(tw_access) function tw_out(region)
    class(tw_region), intent(in) :: region
    tw_out = region%access
    tw_out%mode = 1
  end function

  !> The task reads and writes the region.
  pure type(tw_access) function tw_inout(region)
    class(tw_region), intent(in) :: region
    tw_inout = region%access
    tw_inout%mode = 2
  end function

  !> Like `tw_inout`, in any order with other commutative tasks, one at a time.
  pure type(tw_access) function tw_commutative(region)
    class(tw_region), intent(in) :: region
    tw_commutative = region%access
    tw_commutative%mode = 3
  end function

  !> The task is ordered as if it read the region, but gets no view.
  pure type(tw_access) function tw_after(region)
    class(tw_region), intent(in) :: region
    tw_after = region%access
    tw_after%mode = 4
  end function

  !> The task's children may read the region.
  pure type(tw_access) function tw_weak_in(region)
    class(tw_region), intent(in) :: region
    tw_weak_in = region%access
    tw_weak_in%mode = 5
  end function

  !> The task's children may read and write the region.
  pure type(tw_access) function tw_weak_inout(region)
    class(tw_region), intent(in) :: region
    tw_weak_inout = region%access
    tw_weak_inout%mode = 6
  end function

  !> The task adds to the region: its view is a private replica of zeros.
  pure type(tw_access) function tw_sum(region)
    class(tw_region), intent(in) :: region
    tw_sum = region%access
    tw_sum%mode = 7
  end function

  !> The region gets the minimum.
  pure type(tw_access) function tw_min(region)
    class(tw_region), intent(in) :: region
    tw_min = region%access
    tw_min%mode = 8
  end function

  !> The region gets the maximum.
  pure type(tw_access) function tw_max(region)
    class(tw_region), intent(in) :: region
    tw_max = region%access
    tw_max%mode = 9
  end function

  include 'thalweg_tasks.inc'
  include 'thalweg_kernels.inc'
end module
