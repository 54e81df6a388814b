//! Arrays that are written in tiles and read in tiles, with halos, by faces and as a whole, with occasional writes of
//! regions that are not tiles. The result must equal that of a sequential run.

use crate::common::for_each_mix;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use std::ops::Range;
use thalweg::prelude::*;

const SHAPE: (usize, usize) = (23, 30);
const TILE: (usize, usize) = (4, 5);

type Rectangle = (Range<usize>, Range<usize>);

/// Random number generator with a fixed seed (Knuth's linear congruential generator, high bits).
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn range(&mut self, end: usize) -> Range<usize> {
        let start = self.below(end);
        start..start + 1 + self.below(end - start)
    }

    /// Draws one or a few tiles.
    fn tiles(&mut self) -> Rectangle {
        let along = |drawn: &mut Self, tile: usize, end: usize| {
            let start = drawn.below(end.div_ceil(tile)) * tile;
            start..(start + tile * (1 + drawn.below(4) / 3)).min(end)
        };
        (along(self, TILE.0, SHAPE.0), along(self, TILE.1, SHAPE.1))
    }

    /// Usually draws tiles. One draw in `rarely` is an arbitrary block, and one in `rarely` is the whole array.
    fn written(&mut self, rarely: usize) -> Rectangle {
        match self.below(rarely) {
            0 => (self.range(SHAPE.0), self.range(SHAPE.1)),
            1 => (0..SHAPE.0, 0..SHAPE.1),
            _ => self.tiles(),
        }
    }

    /// Draws tiles, with their halo or one of their faces, or an arbitrary block.
    fn read(&mut self) -> Rectangle {
        let (rows, columns) = self.tiles();
        match self.below(8) {
            0 => (rows, columns),
            1 => (rows.start..rows.start + 1, columns),
            2 => (rows, columns.end - 1..columns.end),
            3 => (self.range(SHAPE.0), self.range(SHAPE.1)),
            _ => {
                let grown = |range: Range<usize>, end| range.start.saturating_sub(1)..(range.end + 1).min(end);
                (grown(rows, SHAPE.0), grown(columns, SHAPE.1))
            }
        }
    }
}

fn digest(seen: ArrayView2<'_, u64>) -> u64 {
    seen.iter().fold(7, |digest: u64, x| digest.wrapping_mul(31).wrapping_add(*x))
}

fn change(mut target: ArrayViewMut2<'_, u64>, by: u64) {
    target.indexed_iter_mut().for_each(|((i, j), x)| *x = x.wrapping_mul(3).wrapping_add(by ^ (i * 64 + j) as u64));
}

/// The region that a task reads in one array and the region that it changes in the other. If `adds` is true, the change
/// is a commutative addition.
struct Step {
    from: usize,
    seen: Rectangle,
    changed: Rectangle,
    adds: bool,
}

fn program(seed: u64, rarely: usize) -> Vec<Step> {
    let mut drawn = Drawn(seed);
    let step = |_| Step {
        from: drawn.below(2),
        seen: drawn.read(),
        changed: drawn.written(rarely),
        adds: drawn.below(10) == 0,
    };
    (0..250).map(step).collect()
}

fn one_after_the_other(program: &[Step]) -> [Array2<u64>; 2] {
    let mut arrays = [Array2::zeros(SHAPE), Array2::zeros(SHAPE)];
    for Step { from, seen, changed, adds } in program {
        let by = digest(arrays[*from].slice(s![seen.0.clone(), seen.1.clone()]));
        let mut target = arrays[1 - from].slice_mut(s![changed.0.clone(), changed.1.clone()]);
        if *adds { target += by >> 40 } else { change(target, by) }
    }
    arrays
}

#[test]
fn tiles_and_other_blocks_match_sequential_execution() {
    for rarely in [40, 400] {
        let expected: Vec<_> = (1..3).map(|seed| one_after_the_other(&program(seed, rarely))).collect();
        for_each_mix(move |rt| {
            for (seed, expected) in (1..).zip(&expected) {
                let arrays: [Data<u64, Ix2>; 2] = [rt.zeros(SHAPE), rt.zeros(SHAPE)];
                for Step { from, seen, changed, adds } in program(seed, rarely) {
                    let (seen, target) = (arrays[from].block(seen).input(), arrays[1 - from].block(changed));
                    match adds {
                        true => rt
                            .task("add", (seen, target.commutative()))
                            .cpu(|_, (seen, mut target)| target += digest(seen) >> 40)
                            .submit(),
                        false => rt
                            .task("change", (seen, target.inout()))
                            .cpu(|_, (seen, target)| change(target, digest(seen)))
                            .submit(),
                    }
                    .unwrap();
                }
                let found = arrays.map(|array| rt.take(array).unwrap());
                assert!(found == *expected, "seed {seed}, one write in {rarely} is an arbitrary block");
            }
        });
    }
}

#[test]
fn replayed_stencil_sweeps_match_sequential_execution() {
    const SWEEPS: usize = 6;
    let around = |i: usize, end: usize| i.saturating_sub(1)..(i + 2).min(end);
    let sweep = move |from: &Array2<u64>| {
        Array2::from_shape_fn(SHAPE, |(i, j)| digest(from.slice(s![around(i, SHAPE.0), around(j, SHAPE.1)])))
    };
    let begin = Array2::from_shape_fn(SHAPE, |(i, j)| (i * 100 + j) as u64);
    let expected = (0..2 * SWEEPS).fold(begin.clone(), |array, _| sweep(&array));
    for_each_mix(move |rt| {
        let [a, b] = [rt.array(begin.clone()), rt.zeros(SHAPE)];
        let mut both = rt
            .record(|r| {
                for (from, to) in [(&a, &b), (&b, &a)] {
                    for tile in to.tiles(TILE) {
                        let (rows, columns) = (tile.range(0), tile.range(1));
                        let grown = |range: &Range<usize>, end| range.start.saturating_sub(1)..(range.end + 1).min(end);
                        let (seen_rows, seen_columns) = (grown(&rows, SHAPE.0), grown(&columns, SHAPE.1));
                        let seen = from.block((seen_rows.clone(), seen_columns.clone()));
                        r.task("relax", (seen.input(), tile.output()))
                            .cpu(move |_, (seen, mut tile)| {
                                let inside = |range: Range<usize>, of: &Range<usize>| {
                                    range.start - of.start..range.end - of.start
                                };
                                for ((i, j), x) in tile.indexed_iter_mut() {
                                    let rows = inside(around(rows.start + i, SHAPE.0), &seen_rows);
                                    let columns = inside(around(columns.start + j, SHAPE.1), &seen_columns);
                                    *x = digest(seen.slice(s![rows, columns]));
                                }
                            })
                            .submit()?;
                    }
                }
                Ok(())
            })
            .unwrap();
        for _ in 0..SWEEPS {
            both.replay().unwrap();
        }
        assert_eq!(rt.take(a).unwrap(), expected);
    });
}
