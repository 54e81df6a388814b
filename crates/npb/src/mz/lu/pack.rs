//! Packing, which copies a turn's rows into a bundle of vectors in the order of the turn's steps.

use pulp::Simd;

use super::wavefront::{Rows, Strip, Turn, turn_len};
use crate::mz::components::cut;
use crate::mz::lanes::{Lane, MAX_LANES, is_avx512, set_square};

impl Strip {
    /// Copies a turn's rows of these components, which must have equal length, into a bundle with `fields` fields
    /// per step, starting at field `first`.
    ///
    /// # Panics
    /// Panics if the components do not have these rows.
    #[inline(always)]
    pub fn pack<S: Simd, const K: usize>(
        &self,
        simd: S,
        turn: Turn<Rows<[&[f64]; K]>>,
        bundle: &mut [S::f64s],
        (first, fields): (usize, usize),
    ) {
        let Some(planes) = turn.both() else { return };
        if S::F64_LANES == 4 {
            self.pack_blocks::<S, 4, K>(simd, planes, bundle, (first, fields));
        } else if is_avx512::<S>() {
            self.pack_blocks::<S, 8, K>(simd, planes, bundle, (first, fields));
        } else {
            let [_, begins] = planes;
            for (step, point) in bundle.chunks_exact_mut(fields).enumerate() {
                for (m, field) in point[first..first + K].iter_mut().enumerate() {
                    let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(field));
                    for (lane, value) in lanes.iter_mut().enumerate() {
                        let (rows, point) = self.point::<S, _>(turn, step, lane).unwrap_or((begins, 1));
                        *value = rows.numbers[m][rows.first + point];
                    }
                }
            }
        }
    }

    /// Implementation of [`Strip::pack`] that handles `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn pack_blocks<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        planes: [Rows<[&[f64]; K]>; 2],
        bundle: &mut [S::f64s],
        (first, fields): (usize, usize),
    ) {
        // All components have the same length, so one bounds check per lane is enough.
        let [ends, begins] = tabulate!(|which| {
            let Rows { numbers, first } = planes[which];
            Rows { numbers: cut(numbers, numbers[0].len()), first }
        });
        let ended = self.window::<N, K>(&ends, turn_len::<S>(self.nx));
        for (number, block) in bundle.chunks_exact_mut(N * fields).enumerate() {
            let window = self.window::<N, K>(&begins, number * N);
            let join = {
                #[inline(always)]
                |rows: [Lane<S>; N], ending: [Lane<S>; N]| tabulate!(|lane| rows[lane].joined(lane, ending[lane]))
            };
            // A single branch covers all components, so the compiler knows that the places are within bounds in
            // each component.
            if number > 0 && window.whole {
                set_square::<S, N, K>(
                    simd,
                    block,
                    (first, fields),
                    #[inline(always)]
                    |m| window.load(simd, begins.numbers[m]),
                );
            } else if window.whole && ended.whole {
                set_square::<S, N, K>(
                    simd,
                    block,
                    (first, fields),
                    #[inline(always)]
                    |m| join(window.load(simd, begins.numbers[m]), ended.load(simd, ends.numbers[m])),
                );
            } else {
                set_square::<S, N, K>(
                    simd,
                    block,
                    (first, fields),
                    #[inline(always)]
                    |m| {
                        let rows = window.load_near(simd, begins.numbers[m]);
                        if number > 0 { rows } else { join(rows, ended.load_near(simd, ends.numbers[m])) }
                    },
                );
            }
        }
    }

    /// Returns the places of each lane during `N` steps that follow the first `steps` steps of the lane's row.
    #[inline(always)]
    fn window<const N: usize, const K: usize>(&self, rows: &Rows<[&[f64]; K]>, steps: usize) -> Window<N> {
        let places: [usize; N] = tabulate!(|lane| rows.first + self.place(lane, steps));
        Window { places, whole: places[N - 1] + N <= rows.numbers[0].len() }
    }
}

/// The places of `N` lanes during `N` steps.
struct Window<const N: usize> {
    /// For each lane, the point at the first step.
    places: [usize; N],
    /// Whether all places are within the array.
    whole: bool,
}

impl<const N: usize> Window<N> {
    /// Loads the numbers of each lane from a whole window.
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, from: &[f64]) -> [Lane<S>; N] {
        tabulate!(|lane| Lane::load(simd, from, self.places[lane]))
    }

    /// Loads the numbers of each lane using [`load_near`].
    #[inline(always)]
    fn load_near<S: Simd>(&self, simd: S, from: &[f64]) -> [Lane<S>; N] {
        tabulate!(|lane| load_near(simd, from, self.places[lane]))
    }
}

/// Loads the numbers that begin at `place`. Beyond the end, the last number is repeated.
#[inline(always)]
pub(super) fn load_near<S: Simd>(simd: S, from: &[f64], place: usize) -> Lane<S> {
    if place + S::F64_LANES <= from.len() {
        return Lane::load(simd, from, place);
    }
    Lane::load(simd, &at_end(from, place), 0)
}

/// The slow path of [`load_near`] at the end of the numbers, kept out of line so that it does not bloat the fast
/// path.
#[cold]
#[inline(never)]
fn at_end(from: &[f64], place: usize) -> [f64; MAX_LANES] {
    std::array::from_fn(|i| from[(place + i).min(from.len() - 1)])
}
