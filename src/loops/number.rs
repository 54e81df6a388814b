//! Properties of numeric types that reductions need.

/// A number that reductions can combine.
pub trait Number: Copy + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    #[must_use]
    fn sum(self, other: Self) -> Self;
    #[must_use]
    fn product(self, other: Self) -> Self;
    #[must_use]
    fn larger(self, other: Self) -> Self;
    #[must_use]
    fn smaller(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ident $zero:literal $one:literal $lowest:ident $highest:ident $sum:ident $product:ident $larger:path, $smaller:path;)*) => {$(
        impl Number for $t {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LOWEST: Self = $t::$lowest;
            const HIGHEST: Self = $t::$highest;
            #[inline]
            fn sum(self, other: Self) -> Self {
                $sum!(self + other, wrapping_add)
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                $product!(self * other, wrapping_mul)
            }
            #[inline]
            fn larger(self, other: Self) -> Self {
                $larger(self, other)
            }
            #[inline]
            fn smaller(self, other: Self) -> Self {
                $smaller(self, other)
            }
        }
    )*};
}

macro_rules! plain {
    ($a:ident $op:tt $b:ident, $wrapping:ident) => {
        $a $op $b
    };
}

macro_rules! wrapped {
    ($a:ident $op:tt $b:ident, $wrapping:ident) => {
        $a.$wrapping($b)
    };
}

numbers! {
    f64 0.0 1.0 NEG_INFINITY INFINITY plain plain f64::max, f64::min;
    f32 0.0 1.0 NEG_INFINITY INFINITY plain plain f32::max, f32::min;
    i32 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
    u32 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
    i64 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
    u64 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
    isize 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
    usize 0 1 MIN MAX wrapped wrapped Ord::max, Ord::min;
}
