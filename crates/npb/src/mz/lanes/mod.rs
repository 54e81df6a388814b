//! Vectorized formulas, which process as many numbers at once as the processor has lanes.
//!
//! [`Lane`] is an `f64` vector whose width `pulp` detects at run time (AVX-512, AVX2, NEON, or one number at a
//! time). It supports the operators of a number, so a formula is written once and runs at every width. Operations
//! are never contracted implicitly: a fused multiply-add must be written as [`Lane::mul_add`].
//!
//! All functions here must be inlined into a function that `pulp` has entered, because only there may the vector
//! instructions be used; besides, a call that remains would cost more than the arithmetic. Hence every function and
//! closure below [`dispatch`] is `inline(always)`. The macros `tabulate!` and `unroll!`, which replace the standard
//! library's array functions and loops, add this attribute to their closures.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::{Arch, Scalar, Simd, WithSimd};

/// Largest number of lanes of any instruction set.
pub const MAX_LANES: usize = 8;

/// Smallest number of lanes among this architecture's instruction sets, not counting the single lane of the
/// portable code.
const NARROWEST: usize = if cfg!(target_arch = "x86_64") { 4 } else { 2 };

/// Upper limit on a vector's lanes; see [`limit_lanes`].
static LIMIT: AtomicUsize = AtomicUsize::new(MAX_LANES);

/// Limits vectors in this process to at most `most` numbers from now on: 8 selects AVX-512, 4 AVX2, 2 NEON, and 1
/// the portable code without vectors. If a processor supports several of these widths, the widest one within the
/// limit is used.
///
/// Results at different widths differ only by rounding, within the tolerance of the benchmarks. At a given width,
/// they are the same from run to run. Call this function before a run, not during a run.
///
/// ```
/// npb::mz::limit_lanes(1);
/// assert_eq!(npb::mz::lanes(), 1);
/// ```
///
/// # Panics
/// Panics if `most` is 0.
pub fn limit_lanes(most: usize) {
    assert!(most > 0, "cannot compute with vectors of no numbers; try 1");
    LIMIT.store(most, Ordering::Relaxed);
}

/// Returns the number of lanes of a vector: the widest that the processor supports within the limit set by
/// [`limit_lanes`].
pub fn lanes() -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F64_LANES
        }
    }
    dispatch(MAX_LANES, Lanes)
}

/// Runs `work` with the most lanes that the processor has, but with no more than `most` and no more than
/// [`limit_lanes`] allows.
///
/// # Panics
/// Panics if `most` is less than 4. This is no restriction, because every row of a zone is longer.
pub fn dispatch<W: WithSimd>(most: usize, work: W) -> W::Output {
    assert!(most >= 4, "{most} numbers are not worth a vector");
    let most = most.min(LIMIT.load(Ordering::Relaxed));
    let work = Framed(work);
    match Arch::new() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) if (4..8).contains(&most) => Simd::vectorize(*simd, work),
        _ if most < NARROWEST => Simd::vectorize(Scalar, work),
        arch => arch.dispatch(work),
    }
}

/// Runs `work` as a separate function with vectors of `simd`.
#[inline(always)]
pub(crate) fn vectorize<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
    simd.vectorize(Framed(work))
}

/// Wrapper that runs work in a stack frame aligned to a cache line.
///
/// The compiler spills vectors to the stack, which the platform aligns to 16 bytes. So three of four AVX-512
/// vectors would cross a cache line, and some a page. A single local variable with a larger alignment aligns the
/// whole frame.
struct Framed<W>(W);

impl<W: WithSimd> WithSimd for Framed<W> {
    type Output = W::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> W::Output {
        #[repr(align(64))]
        struct Line;
        let mut line = MaybeUninit::<(Line, u8)>::uninit();
        black_box(&mut line);
        self.0.with_simd(simd)
    }
}

/// [`tabulate`] with a closure that is always inlined: `tabulate!(|index| element)`.
macro_rules! tabulate {
    (|$index:pat_param| $element:expr $(,)?) => {
        $crate::mz::lanes::tabulate(
            #[inline(always)]
            |$index| $element,
        )
    };
}

/// [`unroll`] with a closure that is always inlined: `unroll!(5, |index| work)`.
macro_rules! unroll {
    ($times:expr, |$index:pat_param| $work:expr $(,)?) => {
        $crate::mz::lanes::unroll::<{ $times }>(
            #[inline(always)]
            |$index| $work,
        )
    };
}

mod choice;
mod lane;
mod native;
pub mod scratch;
mod transpose;

pub use choice::Choice;
pub use lane::Lane;
pub(crate) use native::is_avx512;
pub use scratch::Scratch;
pub(crate) use scratch::with_scratch;
pub(crate) use transpose::{get_square, set_square};

/// Returns an array whose elements are `element(index)`. Unlike `std::array::from_fn`, this function is always
/// inlined and unrolled, so the index is a constant wherever it is used.
#[inline(always)]
pub fn tabulate<T: Copy, const N: usize>(mut element: impl FnMut(usize) -> T) -> [T; N] {
    const { assert!(1 <= N && N <= MAX_LANES) };
    let mut all = [element(0); N];
    if N > 1 {
        all[1] = element(1);
    }
    if N > 2 {
        all[2] = element(2);
    }
    if N > 3 {
        all[3] = element(3);
    }
    if N > 4 {
        all[4] = element(4);
    }
    if N > 5 {
        all[5] = element(5);
    }
    if N > 6 {
        all[6] = element(6);
    }
    if N > 7 {
        all[7] = element(7);
    }
    all
}

/// Calls `work` with each index in 0 .. `N`, in a loop that is always unrolled.
#[inline(always)]
pub(crate) fn unroll<const N: usize>(work: impl FnMut(usize)) {
    let _: [(); N] = tabulate(work);
}

/// Returns a vector for each number, with that number in every lane.
#[inline(always)]
pub(crate) fn splats<S: Simd, const N: usize>(simd: S, numbers: [f64; N]) -> [Lane<S>; N] {
    tabulate!(|index| Lane::splat(simd, numbers[index]))
}
