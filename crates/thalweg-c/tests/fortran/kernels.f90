! Kernels from text through Fortran, on a core and a device of OpenCL.
module bodies
  use check
  implicit none
contains
  subroutine add(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: x(:, :), y(:, :)
    call tw_view(task, 1, x)
    call tw_view(task, 2, y)
    y = y + x
  end subroutine
end module

program kernels
  use bodies
  implicit none
  integer, parameter :: n = 50, m = 20
  ! The last dimension of an array is the first one of the kernel's region.
  character(*), parameter :: text = &
    "KERNEL(16, 4, 1) axpy(double a, IN(double, x, [m][n]), INOUT(double, y, [m][n]), float b, int m, int n, INT64 c) "// &
    "{ REGION(x); REGION(y); int j = GLOBAL_ID(0), i = GLOBAL_ID(1); "// &
    "if (i < m && j < n) y[i*n + j] += a*x[i*n + j] + b + c; }"
  double precision, target :: x(n, m) = 1
  double precision :: found(n, m)
  type(tw_runtime) :: rt
  type(tw_kernel) :: axpy, none
  type(tw_data) :: dx, dy
  integer :: i, status
  call axpy%start("axpy.cl", "KERNEL(64, 1, 1) axpy(double)", "other", status)
  call refused(1, status, TW_REFUSED, "axpy.cl")
  call axpy%start("axpy.cl", text, "axpy")
  call rt%start("1:CPU:1,1:OPENCL:1")
  call tw_borrow(rt, x, dx)
  call tw_zeros(rt, TW_FLOAT64, [n, m], dy)
  do i = 1, 3
    call rt%submit("axpy", accesses=[tw_in(dx), tw_inout(dy)], launch=launch(axpy))
    ! Whichever unit runs it, the result is the same.
    call rt%submit("either", add, [tw_in(dx), tw_inout(dy)], launch=axpy%launch([n, m], &
      [tw_number(1d0), tw_nth(1), tw_nth(2), tw_number(0.0), tw_number(m), tw_number(n), tw_number(0_8)]))
  end do
  call tw_read(dy, found)
  call expect(2, all(found == 3*(2 + 0.5d0 + 7 + 1)))
  call rt%submit("axpy", accesses=[tw_in(dx)], launch=axpy%launch([n, m], [tw_nth(1)]), priority=1)
  call rt%wait(status=status)
  call refused(3, status, TW_FAILED, "7 parameters")
  call rt%submit("axpy", accesses=[tw_in(dx)], launch=axpy%launch([n], [tw_nth(2)]), status=status)
  call refused(4, status, TW_INVALID, "no access")
  call rt%submit("nothing", accesses=[tw_in(dx)], status=status)
  call refused(5, status, TW_INVALID, "no body")
  call rt%submit("none", launch=none%launch([1], [tw_number(1)]), status=status)
  call refused(6, status, TW_INVALID, "kernel is zero")
  call axpy%finish()
  call axpy%finish(status)
  call refused(7, status, TW_INVALID, "zero")
  call dx%release()
  call dy%release()
  call rt%finish()
  print '(a)', 'ok'
contains
  type(tw_launch) function launch(kernel)
    type(tw_kernel), intent(in) :: kernel
    launch = kernel%launch([n, m], [tw_number(2d0), tw_nth(1), tw_nth(2), tw_number(0.5), tw_number(m), tw_number(n), &
                                    tw_number(7_8)])
  end function
end program
