//! What a random program does: a tree of tasks on a line of elements and a square of them.

use std::ops::Range;

pub(crate) const LINE: usize = 24;
pub(crate) const SIDE: usize = 6;

/// A region of the line.
pub(crate) type Part = Range<usize>;
/// A region of the square.
pub(crate) type Tile = [Range<usize>; 2];

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
}

/// One task. Each has a number, which its body computes with.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Writes a part of the line, and reads a tile.
    Line { n: u64, writes: Part, how: How, reads: Tile, fails: bool },
    /// Writes a tile, and reads a part of the line.
    Square { n: u64, writes: Tile, how: How, reads: Part, fails: bool },
    /// Has children on these regions.
    Parent {
        line: Part,
        writes_line: bool,
        square: Tile,
        writes_square: bool,
        children: Vec<Step>,
        waits_after: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum How {
    Out,
    Inout,
    Commutative,
    Sum,
}

/// A generator of numbers (Steele, Lea & Flood 2014: SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn within(&mut self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() || self.one_in(3) {
            return range.clone();
        }
        let (a, b) = (self.below(range.len() + 1), self.below(range.len() + 1));
        range.start + a.min(b)..range.start + a.max(b)
    }

    fn tile(&mut self, tile: &Tile) -> Tile {
        [self.within(&tile[0]), self.within(&tile[1])]
    }

    /// If one of a group fails, what the others leave elsewhere is good: the oracle does not know groups.
    fn how(&mut self, fails: bool) -> How {
        let all = [How::Out, How::Inout, How::Inout, How::Inout, How::Commutative, How::Sum];
        all[self.below(if fails { 4 } else { 6 })]
    }
}

/// What a task may do to what.
struct Bounds {
    line: Part,
    writes_line: bool,
    square: Tile,
    writes_square: bool,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let all = Bounds { line: 0..LINE, writes_line: true, square: [0..SIDE, 0..SIDE], writes_square: true };
        let fails = seed % 4 == 3;
        let (mut n, count) = (0, 2 + random.below(9));
        Self { steps: (0..count).map(|_| step(&mut random, &all, 0, fails, &mut n)).collect() }
    }
}

fn step(random: &mut Random, bounds: &Bounds, depth: usize, fails: bool, n: &mut u64) -> Step {
    *n += 1;
    let n_own = *n;
    if depth < 4 && !random.one_in(depth + 2) {
        let both = random.one_in(2);
        let writes_line = bounds.writes_line && (both || !bounds.writes_square || random.one_in(2));
        let inner = Bounds {
            line: random.within(&bounds.line),
            writes_line,
            square: random.tile(&bounds.square),
            writes_square: bounds.writes_square && (both || !writes_line),
        };
        let count = random.below(6);
        let children: Vec<_> = (0..count).map(|_| step(random, &inner, depth + 1, fails, n)).collect();
        let waits_after = random.one_in(3).then(|| random.below(count + 1));
        let Bounds { line, writes_line, square, writes_square } = inner;
        return Step::Parent { line, writes_line, square, writes_square, children, waits_after };
    }
    let on_line = bounds.writes_line && (!bounds.writes_square || random.one_in(2));
    let (part, tile, how) = (random.within(&bounds.line), random.tile(&bounds.square), random.how(fails));
    let fails = fails && random.one_in(8);
    match on_line {
        true => Step::Line { n: n_own, writes: part, how, reads: tile, fails },
        false => Step::Square { n: n_own, writes: tile, how, reads: part, fails },
    }
}

impl Program {
    /// Programs with a task less, or a parent's children in its place.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        smaller(&self.steps).into_iter().map(|steps| Self { steps }).collect()
    }
}

fn smaller(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let with = |instead: Vec<Step>| {
            let mut steps = steps.to_vec();
            steps.splice(at..=at, instead);
            steps
        };
        all.push(with(vec![]));
        if let Step::Parent { line, writes_line, square, writes_square, children, waits_after } = step {
            all.push(with(children.clone()));
            let (line, square, writes_line, writes_square) =
                (line.clone(), square.clone(), *writes_line, *writes_square);
            all.extend(smaller(children).into_iter().map(|children| {
                let waits_after = waits_after.map(|after| after.min(children.len()));
                let (line, square) = (line.clone(), square.clone());
                with(vec![Step::Parent { line, writes_line, square, writes_square, children, waits_after }])
            }));
        }
    }
    all
}
