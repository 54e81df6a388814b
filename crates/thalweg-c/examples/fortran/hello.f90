! Doubles an array in parts. The order of tasks follows from their data.
module bodies
  use thalweg
  implicit none
contains
  subroutine twice(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: x(:)
    call tw_view(task, 1, x)
    x = 2*x
  end subroutine
end module

program hello
  use bodies
  implicit none
  double precision, target :: x(1000) = 1
  type(tw_runtime) :: rt
  type(tw_data) :: data
  integer :: lo
  call rt%start("2:CPU:1")
  call tw_borrow(rt, x, data)
  do lo = 1, 1000, 100
    call rt%submit("twice", twice, [tw_inout(data%part(lo, lo + 99))])
  end do
  call data%release() ! waits; from here on, the array is ours again
  call rt%finish()
  print '(f3.1)', x(1000)
end program
