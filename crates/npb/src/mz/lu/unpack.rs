//! Unpacking, which stores the numbers of a bundle at a turn's interior points or adds them to the numbers there.
//!
//! Whole vectors are read, partly changed, and stored. Invariant: all other points keep their values, no matter
//! which row they belong to.

use pulp::Simd;

use super::pack::load_near;
use super::wavefront::{Rows, Strip, Turn, turn_len};
use crate::mz::lanes::{Choice, Lane, get_square, is_avx512, splats};

impl Strip {
    /// Stores the fields starting at `first` of a bundle with `fields` fields per step at a turn's interior points
    /// in these components, which must have equal length.
    ///
    /// # Panics
    /// Panics if the components do not have these rows.
    #[inline(always)]
    pub fn unpack<S: Simd, const K: usize>(
        &self,
        simd: S,
        turn: Turn<Rows<[&mut [f64]; K]>>,
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        if S::F64_LANES == 4 {
            self.unpack_blocks::<S, 4, K>(simd, turn, bundle, (first, fields));
        } else if is_avx512::<S>() {
            self.unpack_blocks::<S, 8, K>(simd, turn, bundle, (first, fields));
        } else {
            self.each_point::<S, K>(turn, bundle, (first, fields), |number, new| *number = new);
        }
    }

    /// Adds `factor` times the fields starting at `first` of a bundle with `fields` fields per step to a turn's
    /// interior points in these components, which must have equal length. The fields must be 0 in lanes that are
    /// not at an interior point.
    ///
    /// # Panics
    /// Panics if the components do not have these rows.
    #[inline(always)]
    pub fn add<S: Simd, const K: usize>(
        &self,
        factor: Lane<S>,
        turn: Turn<Rows<[&mut [f64]; K]>>,
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        if S::F64_LANES == 4 {
            self.add_blocks::<S, 4, K>(factor, turn, bundle, (first, fields));
        } else if is_avx512::<S>() {
            self.add_blocks::<S, 8, K>(factor, turn, bundle, (first, fields));
        } else {
            let (simd, one) = (factor.simd(), factor.first());
            let add = {
                #[inline(always)]
                |number: &mut f64, new| {
                    let [one, new, old] = splats(simd, [one, new, *number]);
                    *number = one.mul_add(new, old).first();
                }
            };
            self.each_point::<S, K>(turn, bundle, (first, fields), add);
        }
    }

    /// Calls `put` with the numbers at a turn's interior points and the bundle's fields starting at `first`.
    #[inline(always)]
    fn each_point<S: Simd, const K: usize>(
        &self,
        Turn { mut ends, mut begins }: Turn<Rows<[&mut [f64]; K]>>,
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
        put: impl Fn(&mut f64, f64),
    ) {
        for (step, point) in bundle.chunks_exact(fields).enumerate() {
            for (m, field) in point[first..first + K].iter().enumerate() {
                let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(field));
                for (lane, &new) in lanes.iter().enumerate() {
                    let turn = Turn { ends: ends.as_mut(), begins: begins.as_mut() };
                    let Some((rows, point)) = self.point::<S, _>(turn, step, lane) else { continue };
                    put(&mut rows.numbers[m][rows.first + point], new);
                }
            }
        }
    }

    /// Implementation of [`Strip::unpack`] that handles `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn unpack_blocks<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        Turn { mut ends, mut begins }: Turn<Rows<[&mut [f64]; K]>>,
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        for (number, block) in bundle.chunks_exact(N * fields).enumerate() {
            let rows_of = {
                #[inline(always)]
                |m: usize| -> [Lane<S>; N] { get_square(simd, block, (first + m, fields)) }
            };
            if let Some(ends) = ends.as_mut().filter(|_| number == 0) {
                let steps = turn_len::<S>(self.nx);
                self.merge(simd, ends, steps, rows_of, self.at_interior::<S, N>(simd, steps));
            }
            let steps = number * N;
            match &mut begins {
                Some(begins) if self.count == N && number > 0 && steps + N < self.nx - 1 => self.merge(
                    simd,
                    begins,
                    steps,
                    rows_of,
                    #[inline(always)]
                    |_, _, new| new,
                ),
                Some(begins) => self.merge(simd, begins, steps, rows_of, self.at_interior::<S, N>(simd, steps)),
                None => {}
            }
        }
    }

    /// Returns a function for the `N` steps that follow the first `steps` steps of a lane's row. It chooses the new
    /// numbers at interior points and the old numbers elsewhere.
    #[inline(always)]
    fn at_interior<S: Simd, const N: usize>(
        &self,
        simd: S,
        steps: usize,
    ) -> impl Fn(usize, Lane<S>, Lane<S>) -> Lane<S> + Copy {
        let interior: [Choice<S>; N] = tabulate!(|lane| {
            let begin = lane.saturating_sub(steps);
            let end = if lane < self.count { (self.nx - 2 + lane).saturating_sub(steps) } else { 0 };
            Choice::new(simd, simd.mask_between_m64s(begin as u64, end as u64).mask())
        });
        #[inline(always)]
        move |lane, old, new| interior[lane].of(new, old)
    }

    /// Implementation of [`Strip::add`] that handles `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn add_blocks<S: Simd, const N: usize, const K: usize>(
        &self,
        factor: Lane<S>,
        Turn { mut ends, mut begins }: Turn<Rows<[&mut [f64]; K]>>,
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        let simd = factor.simd();
        let zero = Lane::splat(simd, 0.0);
        for (number, block) in bundle.chunks_exact(N * fields).enumerate() {
            let rows_of = {
                #[inline(always)]
                |m: usize| -> [Lane<S>; N] { get_square(simd, block, (first + m, fields)) }
            };
            // Only the first block contains points of two planes.
            if let Some(ends) = ends.as_mut().filter(|_| number == 0) {
                self.merge(
                    simd,
                    ends,
                    turn_len::<S>(self.nx),
                    rows_of,
                    #[inline(always)]
                    |lane, old, new| factor.mul_add(zero.joined(lane, new), old),
                );
            }
            match &mut begins {
                Some(begins) if number > 0 => self.merge(
                    simd,
                    begins,
                    number * N,
                    rows_of,
                    #[inline(always)]
                    |_, old, new| factor.mul_add(new, old),
                ),
                Some(begins) => self.merge(
                    simd,
                    begins,
                    0,
                    rows_of,
                    #[inline(always)]
                    |lane, old, new| factor.mul_add(new.joined(lane, zero), old),
                ),
                None => {}
            }
        }
    }

    /// Replaces each lane's numbers by the result of `put`, for the `N` steps that follow the first `steps` steps
    /// of the lane's row. `put` receives the lane, the old numbers, and the component's numbers from `rows_of`. For
    /// a lane without a row, it must return the old numbers.
    #[inline(always)]
    fn merge<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        Rows { numbers, first }: &mut Rows<[&mut [f64]; K]>,
        steps: usize,
        rows_of: impl Fn(usize) -> [Lane<S>; N],
        put: impl Fn(usize, Lane<S>, Lane<S>) -> Lane<S>,
    ) {
        let points = numbers[0].len();
        unroll!(K, |m| numbers[m] = &mut std::mem::take(&mut numbers[m])[..points]);
        let places: [usize; N] = tabulate!(|lane| *first + self.place(lane, steps));
        // A single branch covers all components, so the compiler knows that the places are within bounds in each
        // component.
        if places[N - 1] + N <= points {
            unroll!(K, |m| {
                let rows = rows_of(m);
                unroll!(N, |lane| {
                    let old = Lane::load(simd, numbers[m], places[lane]);
                    put(lane, old, rows[lane]).store(numbers[m], places[lane]);
                });
            });
        } else {
            unroll!(K, |m| {
                let rows = rows_of(m);
                unroll!(N, |lane| if lane < self.count {
                    let old = load_near(simd, numbers[m], places[lane]);
                    store_near(put(lane, old, rows[lane]), numbers[m], places[lane]);
                });
            });
        }
    }
}

/// Stores lanes starting at `place`, as far as `to` reaches.
#[inline(always)]
fn store_near<S: Simd>(numbers: Lane<S>, to: &mut [f64], place: usize) {
    if place + S::F64_LANES <= to.len() {
        numbers.store(to, place);
    } else {
        let numbers = [numbers.value()];
        store_end(bytemuck::cast_slice(&numbers), to, place);
    }
}

/// The slow path of [`store_near`] at the end of the numbers.
#[cold]
#[inline(never)]
fn store_end(numbers: &[f64], to: &mut [f64], place: usize) {
    to.iter_mut().skip(place).zip(numbers).for_each(|(to, number)| *to = *number);
}
