//! Vectors: rounding, and accesses at the ends of slices.

use npb::mz::lanes::scratch::{HUGE_PAGE, LINE};
use npb::mz::lanes::{Choice, Lane, MAX_LANES, Scratch, dispatch};
use pulp::{Scalar, Simd, WithSimd};

/// Computes the largest relative errors of reciprocals, reciprocal roots and quotients, in units of 2⁻⁵².
struct Errors;

impl WithSimd for Errors {
    type Output = [f64; 3];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; 3] {
        let mut errors = [0.0f64; 3];
        for n in 0..40_000 {
            // Every exponent that reciprocals support, with various fractions.
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
fn reciprocals_are_accurate_within_two_units() {
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
fn partial_vectors_stay_within_slices() {
    let numbers: Vec<f64> = (1..30).map(f64::from).collect();
    for len in 0..numbers.len() {
        for most in [4, MAX_LANES] {
            let mut copy = vec![0.0; numbers.len()];
            dispatch(most, Parts(&numbers[..len], &mut copy[..len]));
            assert!(copy[..len] == numbers[..len] && copy[len..].iter().all(|number| *number == 0.0), "{len}");
        }
    }
}

/// Returns the sides of every number of a slice except the first and the last eight.
struct Sides<'a>(&'a [f64]);

impl WithSimd for Sides<'_> {
    type Output = Option<Vec<[f64; 4]>>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Option<Vec<[f64; 4]>> {
        let (numbers, lanes) = (self.0, S::F64_LANES);
        let mut all = Vec::new();
        for at in (8..numbers.len() - 8).step_by(lanes) {
            let sides = Lane::sides([at - lanes, at, at + lanes].map(|at| Lane::load(simd, numbers, at)))?;
            let sides = sides.map(|side| bytemuck::cast_slice::<S::f64s, f64>(&[side.value()]).to_vec());
            all.extend((0..lanes).map(|lane| [0, 1, 2, 3].map(|side: usize| sides[side][lane])));
        }
        Some(all)
    }
}

#[test]
fn sides_are_neighbouring_numbers() {
    let numbers: Vec<f64> = (0..40).map(f64::from).collect();
    for most in [4, MAX_LANES] {
        let Some(all) = dispatch(most, Sides(&numbers)) else { continue };
        assert_eq!(all.len(), 24);
        for (at, sides) in (8..).zip(all) {
            assert_eq!(sides, [-2, -1, 1, 2].map(|by| f64::from(at + by)), "up to {most} lanes");
        }
    }
}

/// Returns the numbers from 0 on, one per lane, moved up and down by a lane.
struct Moved;

impl WithSimd for Moved {
    type Output = [Vec<f64>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [Vec<f64>; 2] {
        let numbers: [f64; MAX_LANES] = std::array::from_fn(|lane| lane as f64);
        let own = Lane::load(simd, &numbers, 0);
        [own.up(), own.down()].map(|lanes| bytemuck::cast_slice::<S::f64s, f64>(&[lanes.value()]).to_vec())
    }
}

#[test]
fn lanes_rotate_up_and_down() {
    for [up, down] in [dispatch(4, Moved), dispatch(MAX_LANES, Moved), Moved.with_simd(Scalar)] {
        let lanes = up.len();
        let expected = |by: usize| (0..lanes).map(|lane| ((lane + by) % lanes) as f64).collect::<Vec<_>>();
        assert_eq!([up, down], [expected(lanes - 1), expected(1)], "{lanes} lanes");
    }
}

/// Returns the numbers one before and one after each number of a slice except the first and the last eight.
struct Shifted<'a>(&'a [f64]);

impl WithSimd for Shifted<'_> {
    type Output = Vec<[f64; 2]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<[f64; 2]> {
        let (numbers, lanes) = (self.0, S::F64_LANES);
        let mut all = Vec::new();
        for at in (8..numbers.len() - 8).step_by(lanes) {
            let [before, own, after] = [at - lanes, at, at + lanes].map(|at| Lane::load(simd, numbers, at));
            let shifted = [own.one_before(before), own.one_after(after)];
            let shifted = shifted.map(|lanes| bytemuck::cast_slice::<S::f64s, f64>(&[lanes.value()]).to_vec());
            all.extend((0..lanes).map(|lane| [0, 1].map(|side: usize| shifted[side][lane])));
        }
        all
    }
}

#[test]
fn lanes_shift_by_one_across_vectors() {
    let numbers: Vec<f64> = (0..40).map(f64::from).collect();
    for shifted in
        [dispatch(4, Shifted(&numbers)), dispatch(MAX_LANES, Shifted(&numbers)), Shifted(&numbers).with_simd(Scalar)]
    {
        assert_eq!(shifted.len(), 24);
        for (at, shifted) in (8..).zip(shifted) {
            assert_eq!(shifted, [-1, 1].map(|by| f64::from(at + by)));
        }
    }
}

/// Stores a vector of nines within a range.
struct Within<'a>(&'a mut [f64], usize, std::ops::Range<usize>);

impl WithSimd for Within<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let Self(numbers, at, range) = self;
        Lane::splat(simd, 9.0).store_within(numbers, at, &range);
        S::F64_LANES
    }
}

#[test]
fn store_within_changes_only_the_range() {
    for (most, at, first, end) in [4, MAX_LANES].into_iter().flat_map(|most| {
        let ranges = (0..24).flat_map(|first| (first..24).map(move |end| (first, end)));
        ranges.flat_map(move |(first, end)| [5, 8].map(|at| (most, at, first, end)))
    }) {
        let mut numbers = [1.0; 24];
        let lanes = dispatch(most, Within(&mut numbers, at, first..end));
        for (place, number) in numbers.into_iter().enumerate() {
            let stored = (first..end).contains(&place) && (at..at + lanes).contains(&place);
            let expected = if stored { 9.0 } else { 1.0 };
            assert_eq!(number, expected, "{place} of {first}..{end}, {lanes} lanes from {at}");
        }
    }
}

/// Replaces the first lanes of a NaN by negative zero, and vice versa.
struct Chosen(usize);

impl WithSimd for Chosen {
    type Output = [Vec<u64>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [Vec<u64>; 2] {
        let [one, other] = ODD.map(|number| Lane::splat(simd, number));
        let choice = Choice::new(simd, simd.mask_between_m64s(0, self.0 as u64).mask());
        [choice.of(one, other), choice.of(other, one)]
            .map(|lanes| bytemuck::cast_slice::<S::f64s, u64>(&[lanes.value()]).to_vec())
    }
}

const ODD: [f64; 2] = [f64::NAN, -0.0];

#[test]
fn choice_is_exact_to_the_last_bit() {
    for count in 0..=4 {
        for chosen in [dispatch(4, Chosen(count)), dispatch(MAX_LANES, Chosen(count))] {
            for (chosen, [new, old]) in chosen.into_iter().zip([ODD, [ODD[1], ODD[0]]]) {
                for (lane, bits) in chosen.into_iter().enumerate() {
                    assert_eq!(bits, if lane < count { new } else { old }.to_bits(), "lane {lane}, {count} chosen");
                }
            }
        }
    }
}

#[test]
fn scratch_of_any_size_is_line_aligned_and_keeps_contents() {
    let mut scratch = Scratch::new();
    let edge = HUGE_PAGE / size_of::<f64>();
    for len in [1, 7, edge - 1, edge, edge + 1, 5 * edge, edge, 3] {
        let numbers = scratch.numbers(len);
        assert_eq!((numbers.len(), numbers.as_ptr().addr() % LINE), (len, 0));
        numbers.fill(len as f64);
        assert!(scratch.numbers(len).iter().all(|number| *number == len as f64));
    }
}
