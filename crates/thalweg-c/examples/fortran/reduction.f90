! Sums an array by tasks that each add to a private replica. The replicas are combined in the order of submission, so
! the sum has the same bits on any number of cores: those of a plain loop over the same parts.
module bodies
  use thalweg
  implicit none
contains
  subroutine add(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: x(:), total(:)
    call tw_view(task, 1, x)
    call tw_view(task, 2, total)
    total(1) = total(1) + sum(x)
  end subroutine
end module

program reduction
  use bodies
  implicit none
  integer, parameter :: n = 100000, part = 4096
  double precision, target :: x(n)
  double precision :: expected, found(1)
  type(tw_runtime) :: rt
  type(tw_data) :: data, total
  integer :: i, lo
  x = [(1d0/i, i=1, n)]
  expected = 0
  do lo = 1, n, part
    expected = expected + sum(x(lo:min(lo + part - 1, n)))
  end do

  call rt%start("2:CPU:1")
  call tw_borrow(rt, x, data)
  call tw_zeros(rt, TW_FLOAT64, [1], total)
  do lo = 1, n, part
    call rt%submit("add", add, [tw_in(data%part(lo, min(lo + part - 1, n))), tw_sum(total)])
  end do
  call tw_read(total, found)
  call total%release()
  call data%release()
  call rt%finish()
  print '(a)', trim(merge('VERIFIED', 'WRONG   ', found(1) == expected))
end program
