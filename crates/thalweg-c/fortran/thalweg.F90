! Thalweg's Fortran 2008 interface, over the C interface. The guide's chapter on Fortran shows how to use it.
!
! Indices are those of Fortran: they begin at 1, the last one is included, and the first dimension is the contiguous
! one. The library has its dimensions in C's order, so this module reverses them. A section whose first dimension has a
! stride becomes a data object with one more dimension, of extent 1, because rows of data objects have no gaps.
!
! Every procedure that can fail has an optional `status`. Without it, a failure ends the program with its text.
!
! A program compiles this file alone, which includes the others. It needs the preprocessor, because one text declares
! the arrays of each element type.

#include "thalweg_c.f90"
#include "thalweg_core.f90"

#define MODULE thalweg_real32
#define ELEMENT real(c_float)
#define NUMBER TW_FLOAT32
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

#define MODULE thalweg_real64
#define ELEMENT real(c_double)
#define NUMBER TW_FLOAT64
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

#define MODULE thalweg_int32
#define ELEMENT integer(c_int32_t)
#define NUMBER TW_INT32
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

#define MODULE thalweg_int64
#define ELEMENT integer(c_int64_t)
#define NUMBER TW_INT64
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

#define MODULE thalweg_complex32
#define ELEMENT complex(c_float_complex)
#define NUMBER TW_COMPLEX64
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

#define MODULE thalweg_complex64
#define ELEMENT complex(c_double_complex)
#define NUMBER TW_COMPLEX128
#include "thalweg_arrays.inc"
#undef MODULE
#undef ELEMENT
#undef NUMBER

module thalweg
  use thalweg_core
  use thalweg_real32
  use thalweg_real64
  use thalweg_int32
  use thalweg_int64
  use thalweg_complex32
  use thalweg_complex64
  implicit none
  private
  public :: tw_runtime, tw_data, tw_region, tw_access, tw_task, tw_body, tw_group, tw_space, tw_submitted, &
    tw_statistics, tw_kernel, tw_launch, tw_argument
  public :: tw_borrow, tw_zeros, tw_read, tw_view, tw_message, tw_number, tw_nth
  public :: tw_in, tw_out, tw_inout, tw_commutative, tw_after, tw_weak_in, tw_weak_inout, tw_sum, tw_min, tw_max
  public :: TW_OK, TW_REFUSED, TW_FAILED, TW_TIMEOUT, TW_INVALID, TW_PANICKED
  public :: TW_INT32, TW_INT64, TW_FLOAT32, TW_FLOAT64, TW_COMPLEX64, TW_COMPLEX128
end module
