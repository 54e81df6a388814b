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

#[cfg(target_arch = "x86_64")]
use std::any::TypeId;
use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
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
    let work = Framed(work);
    match Arch::new() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) if (4..8).contains(&most) => Simd::vectorize(*simd, work),
        _ if most < NARROWEST => Simd::vectorize(Scalar, work),
        arch => arch.dispatch(work),
    }
}

/// Runs `work`, which is to be a function of its own, with vectors of `simd`.
#[inline(always)]
pub(crate) fn vectorize<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
    simd.vectorize(Framed(work))
}

/// Work in a stack frame that begins at a cache line.
///
/// The compiler keeps vectors that registers have no room for where the stack happens to be, aligned as the platform wants
/// it, to 16 bytes: three times of four each of AVX-512 would lie across two lines, and some across two pages. One local
/// variable that has to be aligned aligns the whole frame.
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

    /// The numbers that begin at `at`, or as many as there are, and zeros.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    #[inline(always)]
    pub(crate) fn load_some(simd: S, from: &[f64], at: usize) -> Self {
        let from = &from[at..];
        if from.len() >= S::F64_LANES {
            Self::load(simd, from, 0)
        } else {
            Self { simd, value: simd.partial_load_f64s(from) }
        }
    }

    /// Stores the lanes from `at` on, or as many of them as there is room for.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    #[inline(always)]
    pub(crate) fn store_some(self, to: &mut [f64], at: usize) {
        let to = &mut to[at..];
        if to.len() >= S::F64_LANES {
            self.store(to, 0);
        } else {
            self.simd.partial_store_f64s(to, self.value);
        }
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

    /// The number in the first lane.
    #[inline(always)]
    pub(crate) fn first(self) -> f64 {
        bytemuck::cast_slice::<S::f64s, f64>(&[self.value])[0]
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

    /// 1 / self. On AVX-512 by Newton's method from an estimate, in an eighth of a division's time: off by a unit or two in the
    /// last place, and NaN where self is 0, infinite or not normal.
    #[inline(always)]
    pub(crate) fn recip(self) -> Self {
        let one = Self::splat(self.simd, 1.0);
        match estimates::reciprocal(self) {
            // With x = (1 − e)/d: 1/d = x / (1 − e) = x (1 + e)(1 + e²)(1 + e⁴) …, and e < 2⁻¹⁴.
            Some(x) => {
                let e = self.mul_sub_from(x, one);
                let better = e.mul_add(x, x);
                (e * e).mul_add(better, better)
            }
            None => self.exact_recip(),
        }
    }

    /// 1 / self, correctly rounded, so that it is the same at every width: for BT, whose stages take other widths in narrow
    /// zones than its step in one, and agree with it to the last bit.
    #[inline(always)]
    pub(crate) fn exact_recip(self) -> Self {
        Self { value: self.simd.div_f64s(self.simd.splat_f64s(1.0), self.value), ..self }
    }

    /// 1 / √self, as exact as [`Lane::recip`].
    #[inline(always)]
    pub(crate) fn recip_sqrt(self) -> Self {
        let [one, half, second, third] = splats(self.simd, [1.0, 1.0 / 2.0, 3.0 / 8.0, 5.0 / 16.0]);
        match estimates::reciprocal_root(self) {
            // With x² = (1 − e)/d: 1/√d = x (1 − e)^(−½) = x (1 + e/2 + 3e²/8 + 5e³/16 + …), and e < 2⁻¹³.
            Some(x) => {
                let e = (self * x).mul_sub_from(x, one);
                (e * x).mul_add(e.mul_add(e.mul_add(third, second), half), x)
            }
            None => self.sqrt().recip(),
        }
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

/// As exact as [`Lane::recip`].
impl<S: Simd> Div for Lane<S> {
    type Output = Self;
    #[expect(clippy::suspicious_arithmetic_impl, reason = "a quotient is a product with a reciprocal")]
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        if is_avx512::<S>() {
            return self * other.recip();
        }
        Self { value: self.simd.div_f64s(self.value, other.value), ..self }
    }
}

/// Whether vectors are those of AVX-512.
#[inline(always)]
pub(crate) fn is_avx512<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return TypeId::of::<S>() == TypeId::of::<pulp::x86::V4>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// What AVX-512 has for a first guess: within 2⁻¹⁴ of the value, the same on every processor of a kind. Nothing elsewhere.
mod estimates {
    use super::{Lane, Simd};

    #[inline(always)]
    pub(super) fn reciprocal<S: Simd>(of: Lane<S>) -> Option<Lane<S>> {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = avx512(of.simd) {
            let guess = simd.avx512f._mm512_rcp14_pd(bytemuck::cast(of.value));
            return Some(Lane { value: bytemuck::cast(guess), ..of });
        }
        None
    }

    #[inline(always)]
    pub(super) fn reciprocal_root<S: Simd>(of: Lane<S>) -> Option<Lane<S>> {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = avx512(of.simd) {
            let guess = simd.avx512f._mm512_rsqrt14_pd(bytemuck::cast(of.value));
            return Some(Lane { value: bytemuck::cast(guess), ..of });
        }
        None
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx512<S: Simd>(simd: S) -> Option<pulp::x86::V4> {
        (&simd as &dyn std::any::Any).downcast_ref().copied()
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
    thread_local!(static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) });
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
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self { numbers: Vec::new() }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest relative errors of reciprocals, their roots and quotients, in units of 2⁻⁵².
    struct Errors;

    impl WithSimd for Errors {
        type Output = [f64; 3];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> [f64; 3] {
            let mut errors = [0.0f64; 3];
            for n in 0..40_000 {
                // Every exponent that reciprocals stand, and fractions all over.
                let number = (1.0 + f64::from(n) * 0.618_033_988_749_895 % 1.0) * 2f64.powi(n % 2000 - 1000);
                let lane = Lane::splat(simd, number);
                let third = Lane::splat(simd, 1.0 / 3.0);
                let exact = [1.0 / number, 1.0 / number.sqrt(), 1.0 / 3.0 / number];
                let found = [lane.recip(), lane.recip_sqrt(), third / lane];
                for ((error, exact), found) in errors.iter_mut().zip(exact).zip(found) {
                    for &found in bytemuck::cast_slice::<S::f64s, f64>(&[found.value()]) {
                        *error = error.max(((found - exact) / exact).abs() / f64::EPSILON);
                    }
                }
            }
            errors
        }
    }

    #[test]
    fn reciprocals_are_good_to_the_last_places() {
        for most in [4, MAX_LANES] {
            let errors = dispatch(most, Errors);
            assert!(errors.iter().all(|error| *error <= 2.0), "{errors:?} with up to {most} lanes");
        }
    }

    /// Writes and reads parts of vectors.
    struct Parts<'a>(&'a [f64], &'a mut [f64]);

    impl WithSimd for Parts<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for at in (0..self.0.len()).step_by(S::F64_LANES) {
                Lane::load_some(simd, self.0, at).store_some(self.1, at);
            }
        }
    }

    #[test]
    fn parts_of_vectors_end_where_slices_do() {
        let numbers: Vec<f64> = (1..30).map(f64::from).collect();
        for len in 0..numbers.len() {
            for most in [4, MAX_LANES] {
                let mut copy = vec![0.0; numbers.len()];
                dispatch(most, Parts(&numbers[..len], &mut copy[..len]));
                assert!(copy[..len] == numbers[..len] && copy[len..].iter().all(|number| *number == 0.0), "{len}");
            }
        }
    }
}
