! Jacobi's method for Laplace's equation on a square: a task per block of columns and step. The blocks next to it are
! read as part of its region, so no step waits for all blocks of the one before.
module sweeps
  use thalweg
  implicit none
contains
  ! Averages the neighbours of the columns between the first and the last one.
  pure subroutine sweep(u, v)
    double precision, intent(in) :: u(:, :)
    double precision, intent(inout) :: v(:, :)
    integer :: i, j
    do j = 2, size(u, 2) - 1
      do i = 2, size(u, 1) - 1
        v(i, j - 1) = 0.25d0*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1))
      end do
    end do
  end subroutine

  subroutine sweep_task(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: u(:, :), v(:, :)
    call tw_view(task, 1, u)
    call tw_view(task, 2, v)
    call sweep(u, v)
  end subroutine
end module

program jacobi
  use sweeps
  implicit none
  integer, parameter :: n = 200, width = 33, steps = 50
  double precision, target :: a(n, n), b(n, n)
  double precision :: plain(n, n), next(n, n)
  type(tw_runtime) :: rt
  type(tw_data) :: x(0:1)
  integer :: step, lo, hi, from

  a = 0
  a(1, :) = 1
  b = a
  plain = a
  next = a
  do step = 1, steps
    call sweep(plain, next(:, 2:n - 1))
    plain = next
  end do

  call rt%start("2:CPU:1")
  call tw_borrow(rt, a, x(0))
  call tw_borrow(rt, b, x(1))
  do step = 1, steps
    from = mod(step - 1, 2)
    do lo = 2, n - 1, width
      hi = min(lo + width - 1, n - 1)
      call rt%submit("sweep", sweep_task, [tw_in(x(from)%part(lo - 1, hi + 1)), tw_inout(x(1 - from)%part(lo, hi))])
    end do
  end do
  call x(0)%release()
  call x(1)%release()
  call rt%finish()
  print '(a)', trim(merge('VERIFIED', 'WRONG   ', all(a == plain)))
end program
