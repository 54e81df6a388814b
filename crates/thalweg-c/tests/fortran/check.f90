! Checks of the test programs: a check that fails ends the program with its number.
module check
  use, intrinsic :: iso_fortran_env, only: error_unit
  use thalweg
  implicit none
contains
  subroutine expect(number, is_met)
    integer, intent(in) :: number
    logical, intent(in) :: is_met
    if (is_met) return
    write (error_unit, '(a, i0, 2a)') 'check ', number, ' fails; the last error: ', tw_message()
    error stop 1
  end subroutine

  ! Checks that a call has failed with a text that contains a part.
  subroutine refused(number, status, expected, part)
    integer, intent(in) :: number, status, expected
    character(*), intent(in) :: part
    call expect(number, status == expected .and. index(tw_message(), part) > 0)
  end subroutine
end module
