//! Wavefronts in the lanes of a vector: neighbouring rows of all planes, each a point behind the one before.
//!
//! In LU's sweeps a point waits for the ones before it in x, y and z. Step t of a strip of rows takes point t of the
//! first row, point t − 1 of the second and so on: points of one diagonal i + j, which do not wait for each other.
//! What a lane hands on in x stays in its lane, what it hands on in y moves to the next lane; both are in
//! registers when the next step wants them. A lane whose row has ended goes on with the same row of the next plane, so lanes wait
//! for one another at the two ends of a slab of planes, not in each plane. The backward sweep walks the very same steps in reverse.
//!
//! The steps go in turns. In turn m the first lane is in plane m all the time; each other one ends its row in plane m − 1
//! before it begins the one in plane m. A turn has at least one step more than a row has interior points, so that nothing is handed on
//! from one row's end to another's begin, and as many more as make whole blocks of as many steps as there are lanes. So only a
//! turn's first block has points of two planes. The last turn, in which no row begins, is that block alone.
//!
//! A bundle holds vectors in the order `[step][field]`. Invariant: lanes that are not at an interior point of the
//! slab — between two rows, before the first plane's, after the last one's, or without a row — hold numbers of points nearby (so
//! that a formula stays finite there), and the mask is 0.

use std::ops::Range;

use pulp::Simd;

use crate::mz::components::cut;
use crate::mz::lanes::{Choice, Lane, MAX_LANES, get_square, is_avx512, set_square, splats};

/// What belongs to the planes in which a turn's rows end, and to those in which they begin; none at the ends of a slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<T> {
    pub(crate) ends: Option<T>,
    pub(crate) begins: Option<T>,
}

impl Turn<usize> {
    /// The planes of the `number`-th turn through a slab of `planes`; there is one turn more than planes.
    #[inline(always)]
    pub(crate) fn new(planes: &Range<usize>, number: usize) -> Self {
        let plane = planes.start + number;
        Self { ends: (number > 0).then(|| plane - 1), begins: (plane < planes.end).then_some(plane) }
    }

    /// How many steps it takes, if rows have `nx` points.
    #[inline(always)]
    pub(crate) fn steps<S: Simd>(&self, nx: usize) -> usize {
        if self.begins.is_some() { turn_len::<S>(nx) } else { S::F64_LANES }
    }
}

impl<T> Turn<T> {
    /// The same of what belongs to these.
    #[inline(always)]
    pub(crate) fn map<U>(self, mut of: impl FnMut(T) -> U) -> Turn<U> {
        Turn { ends: self.ends.map(&mut of), begins: self.begins.map(&mut of) }
    }
}

impl<T: Copy> Turn<T> {
    /// Both, one for the other where there is none.
    #[inline(always)]
    fn both(self) -> Option<[T; 2]> {
        Some([self.ends.or(self.begins)?, self.begins.or(self.ends)?])
    }
}

/// How many steps a turn takes that is not a slab's last one, if rows have `nx` points.
#[inline(always)]
pub(crate) fn turn_len<S: Simd>(nx: usize) -> usize {
    (nx - 1).next_multiple_of(S::F64_LANES)
}

/// One plane or more: their numbers, of a component or of several, and where among them a strip's first row begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<T> {
    pub(crate) numbers: T,
    pub(crate) first: usize,
}

/// Up to as many neighbouring rows as there are lanes, the same ones in all planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strip {
    /// The first row within a plane.
    row: usize,
    /// How many rows there are.
    count: usize,
    /// Points of a row, its two boundary points included.
    nx: usize,
}

impl Strip {
    /// The rows `rows` of planes with rows of `nx` points.
    #[inline(always)]
    pub(crate) fn new(rows: Range<usize>, nx: usize) -> Self {
        Self { row: rows.start, count: rows.len(), nx }
    }

    /// The point that the first row begins with, in a plane whose first row is `first`.
    #[inline(always)]
    pub(crate) fn begin(&self, first: usize) -> usize {
        (self.row - first) * self.nx
    }

    /// 1 where a lane is at an interior point, else 0, per step of a turn.
    #[inline(always)]
    pub(crate) fn mask<S: Simd>(&self, turn: Turn<()>, mask: &mut [S::f64s]) {
        for (step, lanes) in mask.iter_mut().enumerate() {
            let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(lanes));
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = f64::from(self.point::<S, ()>(turn, step, lane).is_some());
            }
        }
    }

    /// The plane that a lane is in at a step of a turn, and its point, counted from the strip's first one; none if that is not an
    /// interior point.
    #[inline(always)]
    fn point<S: Simd, T>(&self, turn: Turn<T>, step: usize, lane: usize) -> Option<(T, usize)> {
        let (rows, along) = match step.checked_sub(lane) {
            Some(along) => (turn.begins, along),
            None => (turn.ends, step + turn_len::<S>(self.nx) - lane),
        };
        let rows = rows.filter(|_| lane < self.count && along < self.nx - 2)?;
        Some((rows, lane * self.nx + along + 1))
    }

    /// The point, counted from the strip's first one, at which a lane is after so many steps of its row, or where the last row's lane
    /// is if it has none. Rows go on beyond their ends here.
    #[inline(always)]
    fn place(&self, lane: usize, steps: usize) -> usize {
        lane.min(self.count - 1) * (self.nx - 1) + steps + 1
    }

    /// Copies a turn's rows of these components, which are equally long, into field `first` and those after it of a bundle of `fields`
    /// fields per step.
    ///
    /// # Panics
    /// If there are no such rows.
    #[inline(always)]
    pub(crate) fn pack<S: Simd, const K: usize>(
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

    /// [`Strip::pack`], `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn pack_blocks<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        planes: [Rows<[&[f64]; K]>; 2],
        bundle: &mut [S::f64s],
        (first, fields): (usize, usize),
    ) {
        // All are as long, so that one comparison for each lane is enough.
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
            // One choice for all components, so that what it says of places is known in all of them.
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

    /// Where each lane is during `N` steps, after so many steps of its row.
    #[inline(always)]
    fn window<const N: usize, const K: usize>(&self, rows: &Rows<[&[f64]; K]>, steps: usize) -> Window<N> {
        let places: [usize; N] = tabulate!(|lane| rows.first + self.place(lane, steps));
        Window { places, whole: places[N - 1] + N <= rows.numbers[0].len() }
    }

    /// Stores the fields from `first` on of a bundle of `fields` fields per step at a turn's interior points of these components, which
    /// are equally long.
    ///
    /// # Panics
    /// If there are no such rows.
    #[inline(always)]
    pub(crate) fn unpack<S: Simd, const K: usize>(
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

    /// Adds `factor` times the fields from `first` on of a bundle of `fields` fields per step to a turn's interior points of these
    /// components, which are equally long. The fields have to be 0 in lanes that are at no interior point.
    ///
    /// # Panics
    /// If there are no such rows.
    #[inline(always)]
    pub(crate) fn add<S: Simd, const K: usize>(
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

    /// Calls `put` with the numbers of a turn's interior points and those of the fields from `first` on of a bundle.
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

    /// [`Strip::unpack`], `N` steps of `N` lanes at a time.
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

    /// What is new of a lane's `N` steps, after so many steps of its row, where they are interior points, else what is old.
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

    /// [`Strip::add`], `N` steps of `N` lanes at a time.
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
            // Only the first block has points of two planes.
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

    /// Has each lane's numbers of `N` steps, after so many steps of its row, become what `put` makes of the lane, of them and of
    /// `rows_of` their component. Of lanes without a row it has to make what is there already.
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
        // One choice for all components, so that what it says of places is known in all of them.
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

/// Where each of `N` lanes is during `N` steps.
struct Window<const N: usize> {
    /// The first step's points.
    places: [usize; N],
    /// Whether all of it lies within the array.
    whole: bool,
}

impl<const N: usize> Window<N> {
    /// The numbers that each lane is at, if it is whole.
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, from: &[f64]) -> [Lane<S>; N] {
        tabulate!(|lane| Lane::load(simd, from, self.places[lane]))
    }

    /// The numbers that each lane is at: [`load_near`].
    #[inline(always)]
    fn load_near<S: Simd>(&self, simd: S, from: &[f64]) -> [Lane<S>; N] {
        tabulate!(|lane| load_near(simd, from, self.places[lane]))
    }
}

/// The numbers that begin at `place`, and after the last one, that again.
#[inline(always)]
fn load_near<S: Simd>(simd: S, from: &[f64], place: usize) -> Lane<S> {
    if place + S::F64_LANES <= from.len() {
        return Lane::load(simd, from, place);
    }
    Lane::load(simd, &at_end(from, place), 0)
}

/// [`load_near`] where the numbers end, out of the way of all other loads.
#[cold]
#[inline(never)]
fn at_end(from: &[f64], place: usize) -> [f64; MAX_LANES] {
    std::array::from_fn(|i| from[(place + i).min(from.len() - 1)])
}

/// Stores lanes from `place` on as far as there are numbers.
#[inline(always)]
fn store_near<S: Simd>(numbers: Lane<S>, to: &mut [f64], place: usize) {
    if place + S::F64_LANES <= to.len() {
        numbers.store(to, place);
    } else {
        let numbers = [numbers.value()];
        store_end(bytemuck::cast_slice(&numbers), to, place);
    }
}

/// [`store_near`] where the numbers end.
#[cold]
#[inline(never)]
fn store_end(numbers: &[f64], to: &mut [f64], place: usize) {
    to.iter_mut().skip(place).zip(numbers).for_each(|(to, number)| *to = *number);
}

/// How numbers move from lane to lane between two steps.
#[derive(Clone, Copy)]
pub(crate) struct Shift<S: Simd> {
    simd: S,
    first: S::m64s,
    last: S::m64s,
}

impl<S: Simd> Shift<S> {
    /// For vectors of `simd`.
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        let lanes = S::F64_LANES as u64;
        Self { simd, first: simd.mask_between_m64s(0, 1).mask(), last: simd.mask_between_m64s(lanes - 1, lanes).mask() }
    }

    /// `number` in the first lane.
    #[inline(always)]
    pub(crate) fn enter_first(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.first, self.simd.splat_f64s(number), value.value()))
    }

    /// `number` in the last lane.
    #[inline(always)]
    pub(crate) fn enter_last(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.last, self.simd.splat_f64s(number), value.value()))
    }
}
