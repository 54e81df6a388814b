! A pipeline: frames are made, filtered and logged. Several frames are in flight, while the log stays in order, because
! each `log` task updates it.
module stages
  use thalweg
  implicit none
  integer, parameter :: pixels = 1000
contains
  pure subroutine make(frame, number)
    integer, intent(out) :: frame(:)
    integer, intent(in) :: number
    integer :: i
    frame = [(number*7919 + i, i=1, size(frame))]
  end subroutine

  pure subroutine filter(from, to)
    integer, intent(in) :: from(:)
    integer, intent(out) :: to(:)
    to = ieor(from, cshift(from, 1)/2)
  end subroutine

  ! The log begins with the number of its entries.
  pure subroutine note(frame, log)
    integer, intent(in) :: frame(:)
    integer, intent(inout) :: log(:)
    log(1) = log(1) + 1
    log(log(1) + 1) = iparity(frame) + maxval(frame)
  end subroutine

  subroutine make_task(task)
    type(tw_task), intent(inout) :: task
    integer, pointer :: frame(:)
    call tw_view(task, 1, frame)
    select type (number => task%argument)
    type is (integer)
      call make(frame, number)
    end select
  end subroutine

  subroutine filter_task(task)
    type(tw_task), intent(inout) :: task
    integer, pointer :: from(:), to(:)
    call tw_view(task, 1, from)
    call tw_view(task, 2, to)
    call filter(from, to)
  end subroutine

  subroutine note_task(task)
    type(tw_task), intent(inout) :: task
    integer, pointer :: frame(:), log(:)
    call tw_view(task, 1, frame)
    call tw_view(task, 2, log)
    call note(frame, log)
  end subroutine
end module

program pipeline
  use stages
  implicit none
  integer, parameter :: frames = 40, slots = 4
  integer, target :: log(frames + 1)
  integer :: expected(frames + 1), raw(pixels), filtered(pixels), k, n
  type(tw_runtime) :: rt
  type(tw_data) :: data, from(slots), to(slots)
  log = 0
  expected = 0
  do n = 1, frames
    call make(raw, n)
    call filter(raw, filtered)
    call note(filtered, expected)
  end do

  call rt%start("2:CPU:1")
  call tw_borrow(rt, log, data)
  do k = 1, slots
    call tw_zeros(rt, TW_INT32, [pixels], from(k))
    call tw_zeros(rt, TW_INT32, [pixels], to(k))
  end do
  do n = 1, frames
    k = mod(n, slots) + 1
    call rt%submit("make", make_task, [tw_out(from(k))], argument=n)
    call rt%submit("filter", filter_task, [tw_in(from(k)), tw_out(to(k))])
    call rt%submit("log", note_task, [tw_in(to(k)), tw_inout(data)])
  end do
  call data%release()
  do k = 1, slots
    call from(k)%release()
    call to(k)%release()
  end do
  call rt%finish()
  print '(a)', trim(merge('VERIFIED', 'WRONG   ', all(log == expected)))
end program
