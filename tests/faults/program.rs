//! The random programs: what they do, on which machine, and what fails there.

use crate::steps::{Bodies, End, Kind, Part, Step};
use std::ops::Range;
use std::time::Duration;
use thalweg::prelude::*;

/// What the submitting thread does next.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Task(Step),
    Prefetch(Part, u16),
    Read(Part),
    Wait,
    Drop(usize),
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

/// A small generator of numbers: programs are many and short.
struct Lot(u64);

impl Lot {
    /// Below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % n as u64) as usize
    }

    /// Once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    fn range(&mut self, extent: usize) -> Range<usize> {
        let (a, b) = (self.below(extent), self.below(extent));
        a.min(b)..a.max(b) + 1
    }
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let lot = &mut Lot(seed);
        let dims = 1 + lot.below(3);
        let extents = [[1, 1, 32], [1, 6, 7], [3, 4, 5]][dims - 1];
        let data = 1 + lot.below(3);
        let units = lot.of(&["1:EMU:1", "2:EMU:1", "1:EMU:2", "1:CPU:1,1:EMU:1", "1:CPU:1,2:EMU:1", "1:CPU:1,1:EMU:2"]);
        let num_devices =
            if units.ends_with("1:EMU:1") && !units.starts_with('2') && !units.contains(",2") { 1 } else { 2 };
        let faulty = !lot.once_in(8);
        let devices = (0..num_devices).map(|_| {
            let mut device = EmulatedDevice::new().capacity_bytes(8 * (8 + lot.below(120) as u64));
            if faulty && lot.once_in(2) {
                device = device.failing_copy(lot.below(24) as u64);
            }
            if faulty && lot.once_in(5) {
                device = device.lost_after_tasks(lot.below(6) as u64);
            }
            // Each copy made by the copy engine, while other things happen.
            if lot.once_in(3) { device.copy_delay(Duration::from_nanos(1), f64::INFINITY) } else { device }
        });
        let devices: Vec<_> = devices.collect();
        let mut program = Self {
            dims,
            extents,
            data,
            acts: Vec::new(),
            units,
            scheduler: lot.of(&["stealing", "dynamic", "eft", "priority", "static"]),
            hosted: lot.once_in(2),
            devices,
        };
        let mut alive: Vec<usize> = (0..data).collect();
        for _ in 0..5 + lot.below(11) {
            let act = match lot.below(24) {
                0 if alive.len() > 1 => Act::Drop(alive.swap_remove(lot.below(alive.len()))),
                1 => Act::Read(program.part(lot, &alive)),
                2 => Act::Prefetch(program.part(lot, &alive), 1 + lot.below(num_devices) as u16),
                3 if lot.once_in(2) => Act::Wait,
                _ => Act::Task(program.step(lot, &alive)),
            };
            program.acts.push(act);
        }
        program
    }

    fn part(&self, lot: &mut Lot, alive: &[usize]) -> Part {
        let data = lot.of(alive);
        let part = match lot.below(14) {
            0..2 => Part { data, ranges: self.extents.map(|extent| 0..extent) },
            _ => Part { data, ranges: self.extents.map(|extent| lot.range(extent)) },
        };
        if lot.once_in(14) { part.empty() } else { part }
    }

    fn step(&self, lot: &mut Lot, alive: &[usize]) -> Step {
        let (target, update) = (self.part(lot, alive), self.part(lot, alive));
        // One task's accesses must not overlap where one of them writes.
        let update = if lot.once_in(2) || update.overlaps(&target) { update.empty() } else { update };
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
            kind = Kind::Commutative; // what has gaps in memory is refused
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
        Step { reads, kind, target, update, bodies, end, seed: lot.below(1 << 30) as u64 }
    }
}
