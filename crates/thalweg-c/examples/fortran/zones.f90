! The step loop of a multi-zone solver, in the style of the NAS Parallel Benchmarks: zones that meet at faces, five
! unknowns per point. Per step, a task per face copies it to the neighbour, and a task per zone advances the zone, by a
! factored implicit scheme of our own. Zones differ in size, so the runtime balances them.
module solver
  use thalweg
  implicit none
  integer, parameter :: unknowns = 5
  double precision, parameter :: rate = 0.1d0
contains
  ! Solves a tridiagonal system with the constant coefficients of diffusion, in place, along a line.
  pure subroutine line(x)
    double precision, intent(inout) :: x(:, :)
    double precision :: upper(size(x, 2)), pivot
    integer :: i
    upper(1) = -rate/(1 + 2*rate)
    x(:, 1) = x(:, 1)/(1 + 2*rate)
    do i = 2, size(x, 2)
      pivot = 1 + 2*rate + rate*upper(i - 1)
      upper(i) = -rate/pivot
      x(:, i) = (x(:, i) + rate*x(:, i - 1))/pivot
    end do
    do i = size(x, 2) - 1, 1, -1
      x(:, i) = x(:, i) - upper(i)*x(:, i + 1)
    end do
  end subroutine

  ! Advances a zone by a step. Its outermost planes are the boundary, of which the first dimension's come from the
  ! neighbours. Returns the square of the change.
  pure subroutine advance(q, west, east, change)
    double precision, intent(inout) :: q(:, :, :, :)
    double precision, intent(in) :: west(:, :, :), east(:, :, :)
    double precision, intent(out) :: change
    double precision :: r(unknowns, 2:size(q, 2) - 1, 2:size(q, 3) - 1, 2:size(q, 4) - 1)
    integer :: i, j, k, n(4)
    n = shape(q)
    q(:, 1, :, :) = west
    q(:, n(2), :, :) = east
    do k = 2, n(4) - 1
      do j = 2, n(3) - 1
        do i = 2, n(2) - 1
          r(:, i, j, k) = rate*(q(:, i - 1, j, k) + q(:, i + 1, j, k) + q(:, i, j - 1, k) + q(:, i, j + 1, k) &
                                + q(:, i, j, k - 1) + q(:, i, j, k + 1) - 6*q(:, i, j, k)) &
                          + 0.01d0*(cshift(q(:, i, j, k), 1) - q(:, i, j, k))
        end do
      end do
    end do
    do k = 2, n(4) - 1
      do j = 2, n(3) - 1
        call line(r(:, :, j, k))
      end do
    end do
    do k = 2, n(4) - 1
      do i = 2, n(2) - 1
        call line(r(:, i, :, k))
      end do
    end do
    do j = 2, n(3) - 1
      do i = 2, n(2) - 1
        call line(r(:, i, j, :))
      end do
    end do
    q(:, 2:n(2) - 1, 2:n(3) - 1, 2:n(4) - 1) = q(:, 2:n(2) - 1, 2:n(3) - 1, 2:n(4) - 1) + r
    change = sum(r**2)
  end subroutine

  subroutine copy_task(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: plane(:, :, :, :), face(:, :, :)
    call tw_view(task, 1, plane)
    call tw_view(task, 2, face)
    face = plane(:, 1, :, :)
  end subroutine

  subroutine advance_task(task)
    type(tw_task), intent(inout) :: task
    double precision, pointer :: q(:, :, :, :), west(:, :, :), east(:, :, :), total(:)
    double precision :: change
    call tw_view(task, 1, q)
    call tw_view(task, 2, west)
    call tw_view(task, 3, east)
    call tw_view(task, 4, total)
    call advance(q, west, east, change)
    total(1) = total(1) + change
  end subroutine

  ! The wave that a zone begins with.
  pure subroutine begin(q, zone)
    double precision, intent(out) :: q(:, :, :, :)
    integer, intent(in) :: zone
    integer :: m, i, j, k
    do k = 1, size(q, 4)
      do j = 1, size(q, 3)
        do i = 1, size(q, 2)
          q(:, i, j, k) = [(sin(0.1d0*(m*i + zone) + 0.2d0*j*k), m=1, unknowns)]
        end do
      end do
    end do
  end subroutine
end module

program zones
  use solver
  implicit none
  integer, parameter :: count = 6, steps = 20, ny = 10, nz = 8
  type :: zone_type
    double precision, allocatable :: q(:, :, :, :), west(:, :, :), east(:, :, :)
  end type
  type(zone_type), target :: zone(count), plain(count)
  double precision, target :: total(steps)
  double precision :: expected(steps), change
  type(tw_runtime) :: rt
  type(tw_space) :: space
  type(tw_data) :: q(count), west(count), east(count), sums
  integer :: nx(count), z, next, step
  logical :: agrees

  nx = [(8 + 2*z, z=1, count)]
  do z = 1, count
    allocate (zone(z)%q(unknowns, nx(z), ny, nz), zone(z)%west(unknowns, ny, nz), zone(z)%east(unknowns, ny, nz))
    call begin(zone(z)%q, z)
    plain(z) = zone(z)
  end do

  ! The plain loop.
  expected = 0
  do step = 1, steps
    do z = 1, count
      next = mod(z, count) + 1
      plain(next)%west = plain(z)%q(:, nx(z) - 1, :, :)
      plain(z)%east = plain(next)%q(:, 2, :, :)
    end do
    do z = 1, count
      call advance(plain(z)%q, plain(z)%west, plain(z)%east, change)
      expected(step) = expected(step) + change
    end do
  end do

  ! The same with tasks.
  total = 0
  call rt%start("2:CPU:1", scheduler="static")
  call space%start("zones", dble(nx))
  do z = 1, count
    call tw_borrow(rt, zone(z)%q, q(z))
    call tw_borrow(rt, zone(z)%west, west(z))
    call tw_borrow(rt, zone(z)%east, east(z))
  end do
  call tw_borrow(rt, total, sums)
  do step = 1, steps
    call space%begin()
    do z = 1, count
      next = mod(z, count) + 1
      call rt%submit("west", copy_task, [tw_in(plane(q(z), nx(z) - 1)), tw_out(west(next))])
      call rt%submit("east", copy_task, [tw_in(plane(q(next), 2)), tw_out(east(z))])
    end do
    do z = 1, count
      call rt%submit("advance", advance_task, space=space, index=z, &
                     accesses=[tw_inout(q(z)), tw_in(west(z)), tw_in(east(z)), tw_sum(sums%part(step, step))])
    end do
  end do
  call sums%release()
  do z = 1, count
    call q(z)%release()
    call west(z)%release()
    call east(z)%release()
  end do
  call space%finish()
  call rt%finish()

  agrees = all(total == expected) .and. expected(steps) > 0
  do z = 1, count
    agrees = agrees .and. all(zone(z)%q == plain(z)%q)
  end do
  print '(a)', trim(merge('VERIFIED', 'WRONG   ', agrees))
contains
  ! The plane of a zone with this index of the first dimension.
  type(tw_region) function plane(q, i)
    type(tw_data), intent(in) :: q
    integer, intent(in) :: i
    plane = q%part([1, i, 1, 1], [unknowns, i, ny, nz])
  end function
end program
