//! Random programs: their text, what a plain loop computes, and their run on a cluster.

use std::ops::Range;
use thalweg::memory::Sum;
use thalweg::{Context, Runtime};
use thalweg_mpi::owners::TileAt;
use thalweg_mpi::{Cluster, ClusterData, ClusterError, Network, Options, Steps};

/// The number of tiles, their length, and the last one's.
const TILES: usize = 5;
const LEN: usize = 24;
const LAST: usize = 7;
const RECORDINGS: usize = 2;

/// A box in a tile.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    tile: usize,
    range: Range<usize>,
}

/// One statement of a program.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    /// Adds a number that depends on the parts read to each element of a part; the first part read may be overwritten.
    Task {
        reads: Vec<Part>,
        writes: Vec<(Part, bool)>,
        on: Option<usize>,
        fails: bool,
    },
    /// Adds the sum of a part, and a number, to the scalar.
    Reduce {
        read: Part,
        on: Option<usize>,
    },
    Migrate {
        tile: usize,
        owner: usize,
    },
    Release {
        tile: usize,
    },
    Read {
        part: Part,
    },
    ReadScalar,
    Wait,
    /// Replays the recording with this number.
    Replay(usize),
}

#[derive(Debug)]
pub(crate) struct Program {
    seed: u64,
    prune: bool,
    statements: Vec<Statement>,
    /// The tasks and reductions of each recording.
    recordings: Vec<Vec<Statement>>,
}

/// The number of a statement of a recording, which is the same in each replay.
fn number_of(recording: usize, statement: usize) -> usize {
    1000 * (1 + recording) + statement
}

/// The visible results of a program: values read, and failures by their texts. If several failures left a value
/// missing, any of them may be its cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shown {
    Value(Vec<f64>),
    Missing,
    Failures(Vec<String>),
}

/// The views of a task's reads, outputs and updates.
type Views<'a> = (Vec<&'a [f64]>, Vec<&'a mut [f64]>, Vec<&'a mut [f64]>);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn part(&mut self, whole: bool) -> Part {
        let tile = self.below(TILES);
        let len = if tile + 1 == TILES { LAST } else { LEN };
        if whole || self.below(3) == 0 {
            return Part { tile, range: 0..len };
        }
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        Part { tile, range: a.min(b)..a.max(b) }
    }
}

/// Accesses of any type.
trait Local {
    fn is_local(&self, cluster: &Cluster) -> bool;
}

impl<A: Steps> Local for A {
    fn is_local(&self, cluster: &Cluster) -> bool {
        cluster.is_local(self)
    }
}

/// Submits a task or a reduction to a cluster or to a recorder, whose tasks have different types, if it `concerns` this
/// rank.
macro_rules! submit {
    ($to:expr, $ranks:expr, $number:expr, $statement:expr, $tiles:expr, $scalar:expr, $concerns:expr) => {{
        let (to, number, concerns) = ($to, $number, $concerns);
        let part = |part: &Part| $tiles.nth(part.tile).block(part.range.clone());
        // Tasks without accesses but `on` are never pruned; those with `on` are not drawn with pruning.
        match $statement {
            Statement::Task { reads, writes, on, fails } if !writes.is_empty() || on.is_some() => {
                let of = |overwriting: bool| writes.iter().filter(move |(_, overwrites)| *overwrites == overwriting);
                let reads: Vec<_> = reads.iter().map(|read| part(read).input()).collect();
                let outputs: Vec<_> = of(true).map(|(write, _)| part(write).output()).collect();
                let updates: Vec<_> = of(false).map(|(write, _)| part(write).inout()).collect();
                let (accesses, fails) = ((reads, outputs, updates), *fails);
                if concerns(&accesses) {
                    let mut task = to.task(format!("task {number}"), accesses);
                    if let Some(on) = on {
                        task = task.on(*on % $ranks);
                    }
                    let body = move |_: &Context, (reads, outputs, updates): Views<'_>| {
                        if fails {
                            return Err(format!("{number}"));
                        }
                        let add = mixed(number, &reads);
                        outputs.into_iter().for_each(|part| change(part, true, add));
                        updates.into_iter().for_each(|part| change(part, false, add));
                        Ok(())
                    };
                    let submitted = match number % 2 {
                        0 => task.cpu(body).submit(),
                        _ => task.local(move |task| task.cpu(body).cost(1.0).submit()),
                    };
                    submitted.unwrap();
                }
            }
            Statement::Reduce { read, on } => {
                let accesses = (part(read).input(), $scalar.reduction(Sum));
                if concerns(&accesses) {
                    let mut task = to.task("reduce", accesses);
                    if let Some(on) = on {
                        task = task.on(*on % $ranks);
                    }
                    task.cpu(move |_, (read, to)| to[0] += contribution(number, read)).submit().unwrap();
                }
            }
            _ => {}
        }
    }};
}

impl Program {
    /// Draws a program. If it `fails`, some tasks do, and parts are whole tiles, since a message carries one failure.
    pub(crate) fn random(seed: u64, ranks: usize, fails: bool) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 77);
        let prune = random.below(3) == 0;
        let len = 1 + random.below(30);
        let statements = (0..len).map(|_| Self::statement(&mut random, ranks, fails, prune)).collect();
        let recordings = (0..RECORDINGS)
            .map(|_| {
                let drawn = (0..5).map(|_| Self::statement(&mut random, ranks, fails, prune));
                drawn.filter(|it| matches!(it, Statement::Task { .. } | Statement::Reduce { .. })).collect()
            })
            .collect();
        Self { seed, prune, statements, recordings }
    }

    fn statement(random: &mut Random, ranks: usize, fails: bool, prune: bool) -> Statement {
        match random.below(24) {
            0..12 => {
                let mut used: Vec<Part> = Vec::new();
                let mut fresh = |random: &mut Random| {
                    let part = random.part(fails);
                    let free = used.iter().all(|other| {
                        other.tile != part.tile
                            || other.range.end <= part.range.start
                            || part.range.end <= other.range.start
                    });
                    free.then(|| used.push(part.clone()))?;
                    Some(part)
                };
                let mut writes = Vec::new();
                for _ in 0..1 + random.below(2) {
                    writes.extend(fresh(random).map(|part| (part, random.below(2) == 0)));
                }
                let reads = (0..random.below(3)).filter_map(|_| fresh(random)).collect();
                let on = (!prune && random.below(4) == 0).then(|| random.below(ranks));
                Statement::Task { reads, writes, on, fails: fails && random.below(6) == 0 }
            }
            12..15 => {
                let on = (!prune && random.below(4) == 0).then(|| random.below(ranks));
                Statement::Reduce { read: random.part(fails), on }
            }
            15 => Statement::Migrate { tile: random.below(TILES), owner: random.below(ranks) },
            16 => Statement::Release { tile: random.below(TILES) },
            17 => Statement::Read { part: random.part(fails) },
            18 => Statement::ReadScalar,
            19 => Statement::Wait,
            _ => Statement::Replay(random.below(RECORDINGS)),
        }
    }

    /// The results that the program shows if its statements are executed one after the other. For programs that do not
    /// fail.
    pub(crate) fn oracle(&self) -> Vec<Shown> {
        let mut tiles: Vec<Vec<f64>> =
            (0..TILES).map(|tile| vec![0.0; if tile + 1 == TILES { LAST } else { LEN }]).collect();
        let (mut scalar, mut shown) = (self.seed as f64, Vec::new());
        let mut compute = |number, statement: &Statement, tiles: &mut Vec<Vec<f64>>, scalar: &mut f64| match statement {
            Statement::Task { reads, writes, .. } => {
                let views: Vec<&[f64]> = reads.iter().map(|part| &tiles[part.tile][part.range.clone()]).collect();
                let add = mixed(number, &views);
                for (part, overwrites) in writes {
                    change(&mut tiles[part.tile][part.range.clone()], *overwrites, add);
                }
            }
            Statement::Reduce { read, .. } => {
                *scalar += contribution(number, &tiles[read.tile][read.range.clone()]);
            }
            Statement::Read { part } => shown.push(Shown::Value(tiles[part.tile][part.range.clone()].to_vec())),
            Statement::ReadScalar => shown.push(Shown::Value(vec![*scalar])),
            Statement::Wait => shown.push(Shown::Failures(Vec::new())),
            Statement::Migrate { .. } | Statement::Release { .. } | Statement::Replay(_) => {}
        };
        for (number, statement) in self.statements.iter().enumerate() {
            compute(number, statement, &mut tiles, &mut scalar);
            if let Statement::Replay(recording) = statement {
                for (at, statement) in self.recordings[*recording].iter().enumerate() {
                    compute(number_of(*recording, at), statement, &mut tiles, &mut scalar);
                }
            }
        }
        shown.push(Shown::Failures(Vec::new()));
        shown.extend(tiles.into_iter().map(Shown::Value));
        shown.push(Shown::Value(vec![scalar]));
        shown
    }

    fn on(&self, cluster: &Cluster) -> Vec<Shown> {
        let seed = self.seed as usize;
        let owner = |at: TileAt<'_>| (at.tile[0] * 7 + seed) % at.ranks;
        let tiles: ClusterData<f64> = cluster.distributed((TILES - 1) * LEN + LAST, LEN, owner);
        let scalar = cluster.data(seed % cluster.ranks(), vec![self.seed as f64]);
        let mut shown = Vec::new();
        let record = |(recording, statements): (usize, &Vec<Statement>)| {
            let recorded = cluster.record(|r| {
                for (at, statement) in statements.iter().enumerate() {
                    submit!(r, cluster.ranks(), number_of(recording, at), statement, tiles, scalar, |_: &dyn Local| {
                        true
                    });
                }
                Ok(())
            });
            recorded.unwrap()
        };
        let mut recordings: Vec<_> = self.recordings.iter().enumerate().map(record).collect();
        for (number, statement) in self.statements.iter().enumerate() {
            match statement {
                Statement::Replay(recording) => recordings[*recording].replay().unwrap(),
                _ => self.execute(number, statement, cluster, &tiles, &scalar, &mut shown),
            }
        }
        drop(recordings);
        shown.push(failures(cluster.wait()));
        for tile in tiles.tiles() {
            shown.push(value(cluster.read(tile)));
        }
        shown.push(value(cluster.read(&scalar)));
        // Failures of the receives above are those that have been reported.
        assert_eq!(failures(cluster.wait()), Shown::Failures(Vec::new()));
        shown
    }

    fn execute(
        &self,
        number: usize,
        statement: &Statement,
        cluster: &Cluster,
        tiles: &ClusterData<f64>,
        scalar: &ClusterData<f64>,
        shown: &mut Vec<Shown>,
    ) {
        match statement {
            Statement::Task { .. } | Statement::Reduce { .. } => {
                let concerns = |accesses: &dyn Local| !self.prune || accesses.is_local(cluster);
                submit!(cluster, cluster.ranks(), number, statement, tiles, scalar, concerns);
            }
            Statement::Migrate { tile, owner } => cluster.migrate(tiles.nth(*tile), owner % cluster.ranks()).unwrap(),
            Statement::Release { tile } => cluster.release(tiles.nth(*tile)).unwrap(),
            Statement::Read { part } => {
                shown.push(value(cluster.read(tiles.nth(part.tile).block(part.range.clone()))));
            }
            Statement::ReadScalar => shown.push(value(cluster.read(scalar))),
            Statement::Wait => shown.push(failures(cluster.wait())),
            Statement::Replay(_) => unreachable!("the caller has the recordings"),
        }
    }
}

fn mixed(number: usize, reads: &[&[f64]]) -> f64 {
    let sum: f64 = reads.iter().map(|read| read.iter().sum::<f64>()).sum();
    0.3 * sum + (number as f64).sin()
}

fn change(part: &mut [f64], overwrites: bool, add: f64) {
    for (at, x) in part.iter_mut().enumerate() {
        *x = if overwrites { add + at as f64 } else { 0.7 * *x + add };
    }
}

fn contribution(number: usize, read: &[f64]) -> f64 {
    read.iter().sum::<f64>() / 3.0 + (number as f64).cos()
}

fn value(read: Result<Vec<f64>, ClusterError>) -> Shown {
    match read {
        Ok(value) => Shown::Value(value),
        Err(ClusterError::Poisoned(_)) => Shown::Missing,
        Err(other) => panic!("{other}"),
    }
}

fn failures(waited: Result<(), ClusterError>) -> Shown {
    match waited {
        Ok(()) => Shown::Failures(Vec::new()),
        Err(ClusterError::Failed(failures)) => {
            Shown::Failures(failures.iter().map(|failure| format!("{} {}", failure.name(), failure.reason())).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

/// Runs programs on a cluster whose runtimes have these units, little memory on devices, and at most `window` pending
/// tasks, and returns what each has shown on each rank.
pub(crate) fn run(
    network: &Network,
    options: &Options,
    (units, window): (&str, usize),
    programs: &[Program],
) -> Vec<Vec<Vec<Shown>>> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = network
            .endpoints()
            .into_iter()
            .map(|end| {
                scope.spawn(move || {
                    let builder = Runtime::builder().compute_units(units).device_memory_bytes(2000);
                    let builder = builder.pin_threads(false).max_pending_tasks(window);
                    let cluster = options.clone().over(end, builder).unwrap();
                    programs.iter().map(|program| program.on(&cluster)).collect()
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
