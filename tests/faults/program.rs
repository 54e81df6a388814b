//! Random programs: their steps, their machines, and their scripted faults.

use crate::random::Random;
use crate::steps::{Bodies, End, Kind, Part, Step};
use std::time::Duration;
use thalweg::prelude::*;

/// The next action of the submitting thread.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Task(Step),
    Parent(Parent),
    Prefetch(Part, u16),
    Read(Part),
    Wait,
    Drop(usize),
}

/// A task that only submits children.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    /// The parent's weak accesses for its children: one region of each data object.
    pub(crate) weak: Vec<Part>,
    /// A region that the parent itself reads.
    pub(crate) reads: Option<Part>,
    pub(crate) bodies: Bodies,
    /// The children, some of which may be parents themselves.
    pub(crate) children: Vec<Act>,
    pub(crate) waits: bool,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) dims: usize,
    pub(crate) extents: [usize; 3],
    pub(crate) data: usize,
    pub(crate) acts: Vec<Act>,
    pub(crate) units: &'static str,
    pub(crate) scheduler: &'static str,
    pub(crate) hosted: bool,
    pub(crate) devices: Vec<EmulatedDevice>,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let lot = &mut Random(seed);
        let dims = 1 + lot.below(3);
        let extents = [[1, 1, 32], [1, 6, 7], [3, 4, 5]][dims - 1];
        let data = 1 + lot.below(3);
        let units = lot.of(&["1:EMU:1", "2:EMU:1", "1:EMU:2", "1:CPU:1,1:EMU:1", "1:CPU:1,2:EMU:1", "1:CPU:1,1:EMU:2"]);
        let num_devices =
            if units.ends_with("1:EMU:1") && !units.starts_with('2') && !units.contains(",2") { 1 } else { 2 };
        let faulty = !lot.one_in(8);
        let devices = (0..num_devices).map(|_| {
            let mut device = EmulatedDevice::new().capacity_bytes(8 * (8 + lot.below(120) as u64));
            if faulty && lot.one_in(2) {
                device = device.failing_copy(lot.below(24) as u64);
            }
            if faulty && lot.one_in(5) {
                device = device.lost_after_tasks(lot.below(6) as u64);
            }
            // With a delay, the copy engine makes every copy, concurrently with other events.
            if lot.one_in(3) { device.copy_delay(Duration::from_nanos(1), f64::INFINITY) } else { device }
        });
        let devices: Vec<_> = devices.collect();
        let mut program = Self {
            dims,
            extents,
            data,
            acts: Vec::new(),
            units,
            scheduler: lot.of(&["stealing", "dynamic", "eft", "priority", "static"]),
            hosted: lot.one_in(2),
            devices,
        };
        let mut alive: Vec<usize> = (0..data).collect();
        for _ in 0..5 + lot.below(11) {
            let act = match lot.below(24) {
                0 if alive.len() > 1 => Act::Drop(alive.swap_remove(lot.below(alive.len()))),
                1 => Act::Read(program.part(lot, &alive)),
                2 => Act::Prefetch(program.part(lot, &alive), 1 + lot.below(num_devices) as u16),
                3 if lot.one_in(2) => Act::Wait,
                _ => Act::Task(program.step(lot, &alive)),
            };
            program.acts.push(act);
        }
        if seed.is_multiple_of(2) {
            // Use a separate random generator, so that all other programs remain unchanged.
            let acts = std::mem::take(&mut program.acts);
            program.acts = program.nested(&mut Random(!seed), acts, 0);
        }
        program
    }

    /// Returns the same acts with some sequences of tasks turned into children.
    fn nested(&self, lot: &mut Random, acts: Vec<Act>, depth: usize) -> Vec<Act> {
        let (mut all, mut acts) = (Vec::new(), acts.into_iter().peekable());
        while let Some(act) = acts.next() {
            if !matches!(act, Act::Task(_)) || lot.one_in(2) {
                all.push(act);
                continue;
            }
            let mut children = vec![act];
            let most = 1 + lot.below(4);
            while children.len() < most && matches!(acts.peek(), Some(Act::Task(_))) {
                children.extend(acts.next());
            }
            children.iter_mut().for_each(for_a_body);
            let children = if depth < 2 { self.nested(lot, children, depth + 1) } else { children };
            let weak = (0..self.data).filter_map(|data| bounds(&children, data)).collect::<Vec<_>>();
            let others: Vec<_> = (0..self.data).filter(|data| weak.iter().all(|part| part.data != *data)).collect();
            // Parents must not read data objects whose handles were dropped.
            let others =
                others.into_iter().filter(|data| !all.iter().any(|act| matches!(act, Act::Drop(it) if it == data)));
            let others: Vec<_> = if depth == 0 { others.collect() } else { vec![] };
            let reads = (!others.is_empty() && lot.one_in(3)).then(|| self.part(lot, &others));
            let bodies = lot.of(&[Bodies::Cores, Bodies::All, Bodies::Devices]);
            all.push(Act::Parent(Parent { weak, reads, bodies, children, waits: lot.one_in(2) }));
        }
        all
    }

    fn part(&self, lot: &mut Random, alive: &[usize]) -> Part {
        let data = lot.of(alive);
        let part = match lot.below(14) {
            0..2 => Part { data, ranges: self.extents.map(|extent| 0..extent) },
            _ => Part { data, ranges: self.extents.map(|extent| lot.range(extent)) },
        };
        if lot.one_in(14) { part.empty() } else { part }
    }

    fn step(&self, lot: &mut Random, alive: &[usize]) -> Step {
        let (target, update) = (self.part(lot, alive), self.part(lot, alive));
        // The accesses of one task must not overlap if one of them writes.
        let update = if lot.one_in(2) || update.overlaps(&target) { update.empty() } else { update };
        let mut read = || {
            let read = self.part(lot, alive);
            if read.overlaps(&target) || read.overlaps(&update) { read.empty() } else { read }
        };
        let reads = [read(), read()];
        let mut kind = lot.of(&[
            Kind::Out,
            Kind::Out,
            Kind::Inout,
            Kind::Inout,
            Kind::Inout,
            Kind::Commutative,
            Kind::Concurrent,
            Kind::Add,
            Kind::Accumulate,
            Kind::Max,
        ]);
        if kind == Kind::Concurrent && self.dims > 1 {
            kind = Kind::Commutative; // concurrent regions with gaps in memory would be refused
        }
        let bodies = match lot.below(8) {
            0 => Bodies::Cores,
            1 if kind != Kind::Concurrent => Bodies::Devices,
            _ => Bodies::All,
        };
        let end = match lot.below(24) {
            0 => End::Fails,
            1 => End::Panics,
            _ => End::Returns,
        };
        Step { reads, kind, target, update, bodies, end, seed: lot.below(1 << 30) as u64, meter: None }
    }
}

/// Replaces everything that a child is not allowed to do.
fn for_a_body(act: &mut Act) {
    if let Act::Task(step) = act {
        if step.kind == Kind::Accumulate {
            step.kind = Kind::Add;
        }
        // Such a child may be refused at submission, and whether it is refused cannot be predicted.
        if step.bodies == Bodies::Devices {
            step.bodies = Bodies::All;
        }
    }
}

/// Returns the bounding box of all elements of a data object that these acts access, or `None` if no act names the data
/// object. The box is empty if all parts are: around their positions, it could have elements in fewer dimensions.
fn bounds(acts: &[Act], data: usize) -> Option<Part> {
    let mut parts = Vec::new();
    for act in acts {
        match act {
            Act::Task(step) => parts.extend(step.reads.iter().chain([&step.target, &step.update])),
            Act::Parent(parent) => parts.extend(&parent.weak),
            _ => {}
        }
    }
    let together = |a: Part, b: &Part| {
        if a.volume() == 0 || b.volume() == 0 {
            return if a.volume() == 0 { b.clone() } else { a };
        }
        let ranges = [0, 1, 2].map(|d| {
            let (a, b) = (&a.ranges[d], &b.ranges[d]);
            a.start.min(b.start)..a.end.max(b.end)
        });
        Part { ranges, ..a }
    };
    let mut parts = parts.into_iter().filter(|part| part.data == data);
    parts.next().cloned().map(|first| parts.fold(first, together))
}

impl Act {
    /// Returns the number of tasks in this act.
    pub(crate) fn tasks(&self) -> usize {
        match self {
            Self::Task(_) => 1,
            Self::Parent(parent) => 1 + parent.children.iter().map(Self::tasks).sum::<usize>(),
            _ => 0,
        }
    }
}
