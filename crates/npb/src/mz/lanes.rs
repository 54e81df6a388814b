//! Formulas over as many numbers at once as the processor has lanes.
//!
//! [`Lane`] is one `f64` vector of whatever width `pulp` found at run time (AVX-512, AVX2, NEON, or one number
//! at a time), with the operators of a number: what is written once as a formula runs at every width. There is no
//! contraction behind the scenes: a fused multiply-add is written [`Lane::mul_add`].
//!
//! Everything here has to be inlined into a function that `pulp` entered: only there may the instructions be used, and
//! a call that is left costs more than the arithmetic. Hence `inline(always)` on every function and closure below
//! [`dispatch`], and the macros [`tabulate!`], [`unroll!`] and [`for_vectors!`], which write it on theirs, in the place
//! of the standard library's array functions and of loops.

use std::cell::Cell;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::{Arch, Scalar, Simd, WithSimd};

/// The most lanes of any instruction set.
pub(crate) const MAX_LANES: usize = 8;

/// The fewest lanes of this architecture's instruction sets, apart from the portable code's one.
const NARROWEST: usize = if cfg!(target_arch = "x86_64") { 4 } else { 2 };

/// No vector has more lanes; see [`limit_lanes`].
static LIMIT: AtomicUsize = AtomicUsize::new(MAX_LANES);

/// Lets vectors have no more than `most` numbers from now on, in this process: 8 is AVX-512, 4 AVX2, 2 NEON, 1 the portable
/// code, which needs no vectors. Processors have several of these; without a limit the widest is taken.
///
/// Results at different widths differ by rounding alone, which is within what the benchmarks allow, and are the same from
/// run to run at each. To be called before a run, not during one.
///
/// ```
/// npb::mz::limit_lanes(1);
/// assert_eq!(npb::mz::lanes(), 1);
/// ```
///
/// # Panics
/// If `most` is 0.
pub fn limit_lanes(most: usize) {
    assert!(most > 0, "cannot compute with vectors of no numbers; try 1");
    LIMIT.store(most, Ordering::Relaxed);
}

/// How many numbers a vector has: as many as this processor's widest within [`limit_lanes`].
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

/// Runs `work` with the most lanes the processor has, but with no more than `most` and than [`limit_lanes`] allows.
///
/// # Panics
/// If `most` is less than 4, which no row of a zone is.
pub(crate) fn dispatch<W: WithSimd>(most: usize, work: W) -> W::Output {
    assert!(most >= 4, "{most} numbers are not worth a vector");
    let most = most.min(LIMIT.load(Ordering::Relaxed));
    match Arch::new() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) if (4..8).contains(&most) => Simd::vectorize(*simd, work),
        _ if most < NARROWEST => Simd::vectorize(Scalar, work),
        arch => arch.dispatch(work),
    }
}

/// [`tabulate`] with a closure that is inlined for certain: `tabulate!(|index| element)`.
macro_rules! tabulate {
    (|$index:pat_param| $element:expr $(,)?) => {
        $crate::mz::lanes::tabulate(
            #[inline(always)]
            |$index| $element,
        )
    };
}

/// [`unroll`] with a closure that is inlined for certain: `unroll!(5, |index| work)`.
macro_rules! unroll {
    ($times:expr, |$index:pat_param| $work:expr $(,)?) => {
        $crate::mz::lanes::unroll::<{ $times }>(
            #[inline(always)]
            |$index| $work,
        )
    };
}

/// [`for_vectors`] with a closure that is inlined for certain: `for_vectors!(S, length, |at| work)`.
macro_rules! for_vectors {
    ($simd:ty, $length:expr, |$at:pat_param| $work:expr $(,)?) => {
        $crate::mz::lanes::for_vectors::<$simd>(
            $length,
            #[inline(always)]
            |$at| $work,
        )
    };
}

/// One number per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<S: Simd> {
    simd: S,
    value: S::f64s,
}

impl<S: Simd> Lane<S> {
    /// The lanes of a vector.
    #[inline(always)]
    pub(crate) fn new(simd: S, value: S::f64s) -> Self {
        Self { simd, value }
    }

    /// The same number in every lane.
    #[inline(always)]
    pub(crate) fn splat(simd: S, value: f64) -> Self {
        Self { simd, value: simd.splat_f64s(value) }
    }

    /// The numbers that begin at `at`, one per lane.
    ///
    /// # Panics
    /// If fewer than the number of lanes follow.
    #[inline(always)]
    pub(crate) fn load(simd: S, from: &[f64], at: usize) -> Self {
        Self { simd, value: S::as_simd_f64s(&from[at..at + S::F64_LANES]).0[0] }
    }

    /// Stores the lanes from `at` on.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline(always)]
    pub(crate) fn store(self, to: &mut [f64], at: usize) {
        S::as_mut_simd_f64s(&mut to[at..at + S::F64_LANES]).0[0] = self.value;
    }

    /// The instruction set.
    #[inline(always)]
    pub(crate) fn simd(self) -> S {
        self.simd
    }

    /// The lanes as a vector.
    #[inline(always)]
    pub(crate) fn value(self) -> S::f64s {
        self.value
    }

    /// `self * factor + summand`, rounded once where the processor can.
    #[inline(always)]
    pub(crate) fn mul_add(self, factor: Self, summand: Self) -> Self {
        Self { value: self.simd.mul_add_e_f64s(self.value, factor.value, summand.value), ..self }
    }

    /// `minuend - self * factor`, rounded once where the processor can.
    #[inline(always)]
    pub(crate) fn mul_sub_from(self, factor: Self, minuend: Self) -> Self {
        Self { value: self.simd.negate_mul_add_e_f64s(self.value, factor.value, minuend.value), ..self }
    }

    /// 1 / self.
    #[inline(always)]
    pub(crate) fn recip(self) -> Self {
        Self::splat(self.simd, 1.0) / self
    }

    /// √self.
    #[inline(always)]
    pub(crate) fn sqrt(self) -> Self {
        Self { value: self.simd.sqrt_f64s(self.value), ..self }
    }
}

impl<S: Simd> Add for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { value: self.simd.add_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Sub for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { value: self.simd.sub_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Mul for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self { value: self.simd.mul_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Div for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self { value: self.simd.div_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Neg for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { value: self.simd.neg_f64s(self.value), ..self }
    }
}

/// Calls `work` with the beginnings of vectors that cover 0 .. `length`. The last one overlaps the one before where
/// the length is no multiple of the lanes, so `work` must not mind being done twice.
///
/// # Panics
/// If the length is less than one vector.
#[inline(always)]
pub(crate) fn for_vectors<S: Simd>(length: usize, mut work: impl FnMut(usize)) {
    assert!(length >= S::F64_LANES, "{length} numbers are not a vector");
    let last = length - S::F64_LANES;
    let mut at = 0;
    while at < last {
        work(at);
        at += S::F64_LANES;
    }
    work(last);
}

/// The array of what `element` says of each index: `std::array::from_fn`, but inlined and unrolled for certain, so
/// that the index is a constant wherever it is used.
#[inline(always)]
pub(crate) fn tabulate<T: Copy, const N: usize>(mut element: impl FnMut(usize) -> T) -> [T; N] {
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

/// Calls `work` with 0 .. `N`: a loop, but unrolled for certain.
#[inline(always)]
pub(crate) fn unroll<const N: usize>(work: impl FnMut(usize)) {
    let _: [(); N] = tabulate(work);
}

/// Each number in every lane of a vector of its own.
#[inline(always)]
pub(crate) fn splats<S: Simd, const N: usize>(simd: S, numbers: [f64; N]) -> [Lane<S>; N] {
    tabulate!(|index| Lane::splat(simd, numbers[index]))
}

/// Runs `work` with this thread's scratch memory.
#[inline(always)]
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { numbers: Vec::new() }) });
    let mut scratch = SCRATCH.take();
    let result = work(&mut scratch);
    SCRATCH.set(scratch);
    result
}

/// Scratch memory for vectors, which grows as needed and is reused from call to call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    numbers: Vec<f64>,
}

impl Scratch {
    /// `len` vectors that begin at a cache line, holding whatever they held before.
    pub(crate) fn vectors<S: Simd>(&mut self, len: usize) -> &mut [S::f64s] {
        bytemuck::cast_slice_mut(self.numbers(len * S::F64_LANES))
    }

    /// `len` numbers that begin at a cache line, holding whatever they held before.
    pub(crate) fn numbers(&mut self, len: usize) -> &mut [f64] {
        const LINE: usize = 64;
        let most = len + LINE / size_of::<f64>();
        if self.numbers.len() < most {
            self.numbers.resize(most, 0.0);
        }
        let skip = self.numbers.as_ptr().align_offset(LINE);
        &mut self.numbers[skip..skip + len]
    }
}
