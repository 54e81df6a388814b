! Factors a positive definite matrix by tiles, in place. Each tile is a region of one data object; the order of the
! tasks follows from the tiles that they read and write.
module tiles
  use thalweg
  implicit none
contains
  ! Factors a tile: a = l l'. A pivot that is not positive fails the task.
  subroutine factor(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: a(:, :)
    integer :: j
    call tw_view(task, 1, a)
    do j = 1, size(a, 2)
      a(j:, j) = a(j:, j) - matmul(a(j:, :j - 1), a(j, :j - 1))
      if (.not. a(j, j) > 0) then
        call task%fail("the matrix is not positive definite")
        return
      end if
      a(j:, j) = a(j:, j)/sqrt(a(j, j))
    end do
  end subroutine

  ! Solves x l' = b in place of b.
  subroutine solve(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: l(:, :), b(:, :)
    integer :: j
    call tw_view(task, 1, l)
    call tw_view(task, 2, b)
    do j = 1, size(l, 2)
      b(:, j) = (b(:, j) - matmul(b(:, :j - 1), l(j, :j - 1)))/l(j, j)
    end do
  end subroutine

  ! Subtracts a b' from c.
  subroutine update(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: a(:, :), b(:, :), c(:, :)
    call tw_view(task, 1, a)
    call tw_view(task, 2, b)
    call tw_view(task, 3, c)
    c = c - matmul(a, transpose(b))
  end subroutine

  ! Subtracts a a' from c.
  subroutine update_diagonal(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: a(:, :), c(:, :)
    call tw_view(task, 1, a)
    call tw_view(task, 2, c)
    c = c - matmul(a, transpose(a))
  end subroutine
end module

program cholesky
  use tiles
  implicit none
  integer, parameter :: n = 240, width = 48, count = n/width
  double precision, target :: a(n, n)
  double precision :: given(n, n)
  type(tw_runtime) :: rt
  type(tw_data) :: data
  integer :: i, j, k
  do j = 1, n
    given(:, j) = [(1d0/(1 + abs(i - j)), i=1, n)]
    given(j, j) = n
  end do
  a = given

  call rt%start("2:CPU:1")
  call tw_borrow(rt, a, data)
  do k = 1, count
    call rt%submit("factor", factor, [tw_inout(tile(k, k))], priority=2)
    do i = k + 1, count
      call rt%submit("solve", solve, [tw_in(tile(k, k)), tw_inout(tile(i, k))], priority=1)
    end do
    do i = k + 1, count
      do j = k + 1, i - 1
        call rt%submit("update", update, [tw_in(tile(i, k)), tw_in(tile(j, k)), tw_inout(tile(i, j))])
      end do
      call rt%submit("update", update_diagonal, [tw_in(tile(i, k)), tw_inout(tile(i, i))])
    end do
  end do
  call data%release()
  call rt%finish()

  do j = 2, n
    a(:j - 1, j) = 0
  end do
  print '(a)', trim(merge('VERIFIED', 'WRONG   ', maxval(abs(matmul(a, transpose(a)) - given)) < 1d-9))
contains
  type(tw_region) function tile(i, j)
    integer, intent(in) :: i, j
    tile = data%part([(i - 1)*width + 1, (j - 1)*width + 1], [i*width, j*width])
  end function
end program
