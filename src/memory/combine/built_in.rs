//! [`Sum`], [`Min`] and [`Max`] of the built-in numbers.

use super::{MAX, MIN, Max, Min, OnDevices, Reducer, SUM, Sum};
use crate::depend::OpId;
use crate::kernel::Operation;
use crate::sealed::Internal;

/// The comparisons of [`Min`] and [`Max`], which give the same result in any order, bit for bit.
///
/// -0.0 is less than 0.0. A NaN replaces every number, and NaNs with different bits are compared by
/// [`f64::total_cmp`].
trait Ranked: Copy {
    /// Returns whether this value replaces `other` as the smallest.
    fn is_below(self, other: Self) -> bool;
    /// Returns whether this value replaces `other` as the largest.
    fn is_above(self, other: Self) -> bool;
}

macro_rules! ranked {
    (integers $($t:ty)*) => {$(
        impl Ranked for $t {
            fn is_below(self, other: Self) -> bool {
                self < other
            }
            fn is_above(self, other: Self) -> bool {
                self > other
            }
        }
    )*};
    (floats $($t:ty)*) => {$(
        impl Ranked for $t {
            fn is_below(self, other: Self) -> bool {
                match (self.is_nan(), other.is_nan()) {
                    (false, true) => false,
                    (true, false) => true,
                    _ => self.total_cmp(&other).is_lt(),
                }
            }
            fn is_above(self, other: Self) -> bool {
                match (self.is_nan(), other.is_nan()) {
                    (false, true) => false,
                    (true, false) => true,
                    _ => self.total_cmp(&other).is_gt(),
                }
            }
        }
    )*};
}

ranked! { integers u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize }
ranked! { floats f64 f32 }

macro_rules! built_in {
    (integers $($t:ty)*) => {
        built_in! { $($t, |a, b| a.wrapping_add(b), sums in any order: true, from <$t>::MIN, to <$t>::MAX;)* }
    };
    (floats $($t:ty)*) => {
        built_in! { $($t, |a, b| a + b, sums in any order: false, from <$t>::NEG_INFINITY, to <$t>::INFINITY;)* }
    };
    ($($t:ty, |$a:ident, $b:ident| $add:expr, sums in any order: $any:literal, from $least:expr, to $most:expr;)*) => {$(
        impl Reducer<$t> for Sum {
            #[inline]
            fn identity(&self) -> $t {
                <$t>::default()
            }
            #[inline]
            fn combine(&self, accumulator: &mut $t, contribution: $t) {
                let ($a, $b) = (*accumulator, contribution);
                *accumulator = $add;
            }
            fn id(&self) -> OpId {
                SUM
            }
            fn in_any_order(&self) -> bool {
                $any
            }
            fn on_devices(&self, _: Internal) -> Option<OnDevices> {
                OnDevices::of::<$t>(Operation::Sum, self.identity())
            }
        }
        built_in! { extremes Min $t, $most, is_below, MIN }
        built_in! { extremes Max $t, $least, is_above, MAX }
    )*};
    (extremes $name:ident $t:ty, $identity:expr, $replaces:ident, $id:ident) => {
        impl Reducer<$t> for $name {
            #[inline]
            fn identity(&self) -> $t {
                $identity
            }
            #[inline]
            fn combine(&self, accumulator: &mut $t, contribution: $t) {
                if contribution.$replaces(*accumulator) {
                    *accumulator = contribution;
                }
            }
            fn id(&self) -> OpId {
                $id
            }
            fn in_any_order(&self) -> bool {
                true
            }
            fn on_devices(&self, _: Internal) -> Option<OnDevices> {
                OnDevices::of::<$t>(Operation::$name, self.identity())
            }
        }
    };
}

built_in! { integers u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize }
built_in! { floats f64 f32 }
