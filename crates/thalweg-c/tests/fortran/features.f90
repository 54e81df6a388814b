! The Fortran interface: arrays of all ranks and types, sections, failures, children, groups, iteration spaces.
module bodies
  use check
  use, intrinsic :: iso_fortran_env
  implicit none

  type :: objects
    type(tw_runtime) :: rt
    type(tw_data) :: x
  end type
contains
  subroutine negate1(task)
    type(tw_task), intent(inout) :: task
    real(real32), pointer :: x(:)
    call tw_view(task, 1, x)
    x = -x
  end subroutine

  subroutine negate2(task)
    type(tw_task), intent(inout) :: task
    integer(int32), pointer :: x(:, :)
    call tw_view(task, 1, x)
    x = -x
  end subroutine

  subroutine negate3(task)
    type(tw_task), intent(inout) :: task
    complex(real64), pointer :: x(:, :, :)
    call tw_view(task, 1, x)
    x = -x
  end subroutine

  subroutine negate4(task)
    type(tw_task), intent(inout) :: task
    integer(int64), pointer :: x(:, :, :, :)
    call tw_view(task, 1, x)
    x = -x
  end subroutine

  subroutine scale(task)
    type(tw_task), intent(inout) :: task
    real(real64), pointer :: x(:, :)
    call tw_view(task, 1, x)
    select type (factor => task%argument)
    type is (real(real64))
      x = factor*x
    type is (integer)
      x = x + factor
    class default
      call task%fail("the argument has an unknown type")
    end select
  end subroutine

  subroutine add(task)
    type(tw_task), intent(inout) :: task
    real(real64), pointer :: x(:, :), total(:), largest(:)
    call tw_view(task, 1, x)
    call tw_view(task, 2, total)
    call tw_view(task, 3, largest)
    total(1) = total(1) + sum(x)
    largest(1) = max(largest(1), maxval(x))
  end subroutine

  subroutine fails(task)
    type(tw_task), intent(inout) :: task
    call task%fail("the disk is full")
  end subroutine

  subroutine wrong_views(task)
    type(tw_task), intent(inout) :: task
    real(real32), pointer :: other_type(:, :)
    real(real64), pointer :: x(:), y(:, :)
    integer :: status
    call tw_view(task, 1, other_type, status)
    call expect(1, status == TW_INVALID .and. .not. associated(other_type))
    call tw_view(task, 1, x, status)
    call expect(2, status == TW_INVALID .and. .not. associated(x))
    call tw_view(task, 3, y, status)
    call expect(3, status == TW_INVALID .and. .not. associated(y))
    call tw_view(task, 2, y, status)
    call expect(4, status == TW_INVALID .and. .not. associated(y))
    call tw_view(task, 1, y, status)
    call expect(5, status == TW_OK .and. associated(y))
  end subroutine

  subroutine until_cancelled(task)
    type(tw_task), intent(inout) :: task
    do while (.not. task%is_cancelled())
    end do
  end subroutine

  ! Calls that would wait for the body itself, or take away what it uses, are refused.
  subroutine calls_back(task)
    type(tw_task), intent(inout) :: task
    type(objects), pointer :: all
    integer :: status
    select type (given => task%argument)
    type is (objects)
      all => given
    end select
    call all%rt%wait(status=status)
    call refused(60, status, TW_REFUSED, "inside")
    call all%rt%wait(1d0, status)
    call refused(61, status, TW_REFUSED, "inside")
    call all%rt%finish(status)
    call refused(62, status, TW_REFUSED, "inside")
    call all%x%release(status)
    call expect(63, status == TW_REFUSED)
    call all%rt%submit("other", fails, [tw_in(all%x)], status=status)
    call expect(64, status == TW_REFUSED)
  end subroutine

  subroutine parent(task)
    type(tw_task), intent(inout) :: task
    integer :: i, status
    select type (x => task%argument)
    type is (tw_data)
      do i = 1, 3
        call task%submit("child", scale, [tw_inout(x%part(i, i))], argument=10*i)
      end do
    end select
    call task%wait(status)
    call expect(10, status == TW_OK .and. task%unit() >= 0 .and. .not. task%is_cancelled())
  end subroutine
end module

program features
  use bodies
  implicit none
  call sections("1:CPU:1")
  call sections("1:CPU:1,1:EMU:1")
  call tasks("2:CPU:1")
  call mistakes()
  call late()
  call absurd()
  print '(a)', 'ok'
contains

  ! Each section is negated in place, and nothing else.
  subroutine sections(units)
    character(*), intent(in) :: units
    real(real32), target :: a(12)
    integer(int32), target :: b(6, 5)
    complex(real64), target :: c(4, 5, 6)
    integer(int64), target :: d(3, 4, 5, 6)
    type(tw_runtime) :: rt
    type(tw_data) :: x
    integer :: i
    call rt%start(units)
    a = [(real(i, real32), i=1, 12)]
    call tw_borrow(rt, a(2:11:3), x)
    call rt%submit("negate", negate1, [tw_inout(x%part(2, 3))])
    call x%release()
    call expect(20, all(a(5:8:3) == [-5, -8]) .and. count(a < 0) == 2)
    call tw_borrow(rt, a, x)
    call rt%submit("negate", negate1, [tw_inout(x)])
    call x%release()
    call expect(21, count(a < 0) == 10)

    b = reshape([(i, i=1, 30)], [6, 5])
    call tw_borrow(rt, b, x)
    call rt%submit("negate", negate2, [tw_inout(x%part([2, 3], [4, 5]))])
    call rt%submit("negate", negate2, [tw_inout(x%part(1, 1))])
    call x%release()
    call expect(22, all(b(2:4, 3:5) < 0) .and. all(b(:, 1) < 0) .and. count(b < 0) == 15)
    b = abs(b)
    call tw_borrow(rt, b(2:6:2, 1:5:2), x) ! gaps in both dimensions
    call rt%submit("negate", negate2, [tw_inout(x%part([1, 2], [2, 3]))])
    call x%release()
    call expect(23, all(b(2:4:2, 3:5:2) < 0) .and. count(b < 0) == 4)
    b = abs(b)
    call tw_borrow(rt, b(3:3, :), x) ! a row
    call rt%submit("negate", negate2, [tw_inout(x)])
    call x%release()
    call expect(24, all(b(3, :) < 0) .and. count(b < 0) == 5)

    c = (1, 2)
    call tw_borrow(rt, c(1:4:3, 2:4, 1:6:2), x)
    call rt%submit("negate", negate3, [tw_inout(x%part([1, 2, 1], [2, 3, 2]))])
    call x%release()
    call expect(25, all(c(1:4:3, 3:4, 1:3:2) == (-1, -2)) .and. count(real(c) < 0) == 8)

    d = 1
    call tw_borrow(rt, d(2:3, :, 1:5:2, 2:5), x)
    call rt%submit("negate", negate4, [tw_inout(x%part([1, 2, 2, 3], [2, 4, 3, 4]))])
    call x%release()
    call expect(26, all(d(2:3, 2:4, 3:5:2, 4:5) == -1) .and. count(d < 0) == 24)
    call tw_borrow(rt, a(1:0), x)
    call rt%submit("negate", negate1, [tw_inout(x)])
    call x%release()
    call rt%finish()
  end subroutine

  subroutine tasks(units)
    character(*), intent(in) :: units
    real(real64), target :: x(4, 3)
    real(real64) :: found(4, 3), total(1), largest(1)
    type(tw_runtime) :: rt
    type(tw_data) :: data, whole, most
    type(tw_group) :: group
    type(tw_space) :: space
    type(tw_submitted) :: submitted
    type(tw_statistics) :: statistics
    integer :: i, step, status
    x = 1
    call rt%start(units, scheduler="eft")
    call tw_borrow(rt, x, data)
    call data%name("x")
    call tw_zeros(rt, TW_FLOAT64, [1], whole)
    call tw_zeros(rt, TW_FLOAT64, [1], most)
    call group%start(rt)
    do i = 1, 3
      call rt%submit("scale", scale, [tw_inout(data%part(i, i))], argument=real(i, real64), group=group, priority=1)
    end do
    call rt%submit("add", add, [tw_in(data), tw_sum(whole), tw_max(most)], cost=2d0)
    call group%wait(60d0)
    call group%wait()
    call group%finish()
    call tw_read(data, found)
    call expect(30, all(found(:, 3) == 3) .and. sum(found) == 24)
    call tw_read(whole, total)
    call tw_read(most, largest)
    call expect(31, total(1) == 24 .and. largest(1) == 3)

    ! A failure poisons what it should have written.
    call rt%submit("store", fails, [tw_out(whole)], submitted=submitted, file='a.f90', line=7)
    call submitted%wait(status=status)
    call refused(32, status, TW_FAILED, "the disk is full")
    call refused(37, status, TW_FAILED, "a.f90:7")
    call submitted%finish()
    call tw_read(whole, total, status)
    call refused(33, status, TW_FAILED, "`store`")
    call rt%submit("odd", scale, [tw_inout(data)], argument="text")
    call rt%wait(status=status)
    call refused(34, status, TW_FAILED, "unknown type")
    call data%release(status)
    call refused(35, status, TW_FAILED, "`odd`")

    ! Children and an iteration space.
    x = 0
    call tw_borrow(rt, x, data)
    call rt%submit("parent", parent, [tw_weak_inout(data)], argument=data, host_only=.true.)
    call space%start("columns", [1d0, 2d0, 3d0])
    do step = 1, 2
      call space%begin()
      do i = 1, 3
        call rt%submit("step", scale, [tw_commutative(data%part(i, i))], argument=1, space=space, index=i)
      end do
    end do
    call data%release()
    call expect(36, all([(all(x(:, i) == 10*i + 2), i=1, 3)]))
    call space%finish()
    call rt%wait(60d0)
    call rt%statistics(statistics)
    call expect(38, statistics%tasks >= 10)
    call whole%release()
    call most%release()
    call rt%finish()
  end subroutine

  subroutine mistakes()
    type(tw_runtime) :: rt
    type(tw_data) :: x, y, none
    real(real64), target :: a(4, 3), b(3, 3, 3, 3)
    real(real32) :: small(4, 3)
    real(real64) :: other(3, 3)
    integer :: status
    call rt%start("no units", status=status)
    call refused(40, status, TW_REFUSED, "no units")
    call rt%start("1:CPU:1")
    call tw_borrow(rt, a(4:1:-1, :), x, status)
    call refused(41, status, TW_REFUSED, "; try ")
    call tw_borrow(rt, b(1:3:2, :, :, :), x, status)
    call refused(42, status, TW_REFUSED, "gaps")
    call tw_borrow(rt, a, x)
    call tw_borrow(rt, a(:, 2:3), y, status)
    call refused(43, status, TW_REFUSED, "overlaps")
    call rt%submit("t", fails, [tw_in(x%part(1, 4))], status=status)
    call refused(44, status, TW_REFUSED, "bounds")
    call rt%submit("t", fails, [tw_in(x%part(0, 1))], status=status)
    call refused(45, status, TW_REFUSED, "bounds")
    call rt%submit("t", fails, [tw_in(x%part([1], [1]))], status=status)
    call refused(46, status, TW_INVALID, "dimensions")
    call rt%submit("t", fails, [tw_in(none)], status=status)
    call refused(47, status, TW_INVALID, "zero")
    call tw_read(x, small, status)
    call refused(48, status, TW_INVALID, "another type")
    call tw_read(x, other, status)
    call refused(49, status, TW_INVALID, "72 bytes")
    call rt%submit("wrong", wrong_views, [tw_inout(x), tw_after(x)], status=status)
    call refused(50, status, TW_REFUSED, "overlap")
    call tw_zeros(rt, TW_FLOAT64, [2], y)
    call rt%submit("wrong", wrong_views, [tw_inout(x), tw_after(y)])
    call rt%wait(status=status)
    call refused(51, status, TW_FAILED, "`tw_view`")
    call rt%wait(-1d0, status)
    call refused(52, status, TW_INVALID, "-1")
    call x%release(status)
    call x%release(status)
    call refused(53, status, TW_INVALID, "zero")
    call y%release()
    call rt%finish()
    call rt%wait(status=status)
    call refused(54, status, TW_INVALID, "zero")
  end subroutine

  ! A body that returns late, and one that calls back into the library.
  subroutine late()
    type(tw_runtime) :: rt
    type(tw_data) :: x
    type(tw_group) :: group
    type(tw_submitted) :: submitted
    real(real64), target :: a(4)
    integer :: status
    a = 1
    call rt%start("2:CPU:1")
    call group%start(rt)
    call rt%submit("late", until_cancelled, group=group, submitted=submitted)
    call submitted%wait(0.01d0, status)
    call refused(70, status, TW_TIMEOUT, "0.01 s")
    call group%wait(0.01d0, status)
    call refused(71, status, TW_TIMEOUT, "0.01 s")
    call group%cancel()
    call submitted%wait(60d0)
    call group%wait(60d0)
    call submitted%finish()
    call submitted%wait(1d0, status)
    call refused(72, status, TW_INVALID, "zero")
    call group%finish()
    call group%wait(1d0, status)
    call refused(73, status, TW_INVALID, "zero")
    call tw_borrow(rt, a, x)
    call rt%submit("back", calls_back, [tw_inout(x)], argument=objects(rt, x))
    call rt%wait()
    call x%release()
    call rt%finish()
  end subroutine

  subroutine absurd()
    type(tw_runtime) :: rt
    type(tw_data) :: x
    integer :: status
    call rt%start("1:CPU:1", max_pending_tasks=huge(1))
    call tw_zeros(rt, TW_FLOAT64, [huge(1), huge(1), huge(1)], x, status)
    call refused(80, status, TW_REFUSED, "; try ")
    call tw_zeros(rt, TW_FLOAT64, [-1], x, status)
    call refused(81, status, TW_REFUSED, "; try ")
    call tw_zeros(rt, TW_FLOAT64, [1, 1, 1, 1, 1], x, status)
    call refused(82, status, TW_INVALID, "dimensions")
    call tw_zeros(rt, 99, [1], x, status)
    call refused(83, status, TW_INVALID, "99")
    call tw_zeros(rt, TW_FLOAT64, [4], x)
    call rt%submit("t", fails, [tw_in(x%part(huge(1), huge(1)))], status=status)
    call refused(84, status, TW_REFUSED, "bounds")
    call rt%submit("t", fails, [tw_in(x%part(-huge(1), huge(1)))], status=status)
    call refused(85, status, TW_REFUSED, "bounds")
    call rt%wait(huge(1d0))
    call x%release()
    call rt%finish()
  end subroutine
end program
