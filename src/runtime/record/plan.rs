//! The plan of a recording whose tasks the scheduler places. It states which tasks are submitted together because all
//! of them can run only on accelerators.
//!
//! A *run* is a list of recorded tasks that are submitted as a single task, and whose launches become a device graph
//! ([`super::run`]). This file decides which tasks make up runs, and what a run accesses.
//!
//! - Consecutive tasks of the recording with the same kinds of bodies may form a run if only accelerators can run them.
//!   A task that must be resolved again for each replay, or that concerns more than the device, ends a run
//!   ([`Step::graphable`]).
//! - If only one device can run these tasks, all of them form a run, and their indices in iteration spaces are ignored.
//!   If several devices can, a run is formed by tasks for the same device, such as iterations of a spread loop, or by
//!   tasks with the same index, which the scheduler puts where the index is. Such a run ends when a task of another
//!   destination comes after its tasks ([`by_destination`]). Tasks without a device or index form a run only if they
//!   are ordered one after the other anyway: a run executes on a single device, and tasks that could run in parallel on
//!   two devices must not be forced onto one.
//! - A reduction that the device combines is a part of a run if the run contains its whole group: a task of the run
//!   uses the region before the group, and another one after it. Members of a group do not fail with each other, which
//!   the run could not tell tasks outside of it.
//! - A run takes at most half of the device's memory; a larger run is cut in two.
//!
//! A run accesses the union of its tasks' regions, cut at all of their borders. Parts that are used in the same way
//! (read, overwritten first, or updated) are joined again. The run accesses only parts that some task names, and writes
//! only parts that some task writes. Overlapping blocks are in one piece of memory ([`PlannedAccess::hull`]), because a
//! body sees each block as one piece.

use super::batches::{Before, Destination, by_destination, connected, is_chain, open_groups, predecessors};
use super::explanation::Obstacle;
use super::run::{Member, MemberRegion, Order, PlannedAccess, Run, RunHints};
use super::step::{Graphable, RecordedRegion, Step};
use crate::depend::Mode;
use crate::ids::DataId;
use crate::machine::ComputeUnit;
use crate::region::{Block, MAX_DIMS, RegionMap};
use crate::runtime::door::Door;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The reciprocal of the fraction of a device's memory that a single run may take.
const PART_OF_MEMORY: u64 = 2;

/// The submissions of a recording, in submission order.
pub(super) struct Plan {
    pub(super) pieces: Vec<Piece>,
    /// The reason why the first task outside of any run is not in one; `None` if all tasks are in runs.
    pub(super) obstacle: Option<Obstacle>,
}

pub(super) enum Piece {
    /// A single step, by its index.
    Step(usize),
    Run(Arc<Run>),
}

/// The devices that can run the tasks of a run.
struct Candidates {
    /// The number of devices.
    devices: usize,
    /// The capacity of the smallest of these devices, and its largest single allocation.
    capacity_bytes: u64,
    buffer_bytes: u64,
}

impl Plan {
    pub(super) fn new(steps: &[Box<dyn Step>], door: &Door) -> Self {
        let mut plan = Self { pieces: Vec::new(), obstacle: None };
        let mut begin = 0;
        while begin < steps.len() {
            let first = candidates_of(&*steps[begin], door);
            let Ok((one, candidates)) = first else {
                plan.leave(begin, first.err().flatten());
                begin += 1;
                continue;
            };
            let is_like =
                |task: &Graphable<'_>| (task.kinds, task.device.is_some()) == (one.kinds, one.device.is_some());
            let tasks = steps[begin..].iter().map_while(|step| step.graphable().ok().filter(is_like));
            let tasks: Vec<_> = tasks.collect();
            let have_destinations = |task: &Graphable<'_>| Destination::task(task).is_some();
            let is_one = |a: &Graphable<'_>, b: &Graphable<'_>| {
                candidates.devices == 1 || have_destinations(a) == have_destinations(b)
            };
            for tasks in tasks.chunk_by(is_one) {
                plan.add(begin, tasks, &candidates);
                begin += tasks.len();
            }
        }
        plan
    }

    /// Adds a step that is not part of a run.
    fn leave(&mut self, step: usize, obstacle: Option<Obstacle>) {
        self.pieces.push(Piece::Step(step));
        self.obstacle = self.obstacle.take().or(obstacle);
    }

    /// Adds consecutive tasks, the first of which is step `first`.
    fn add(&mut self, first: usize, tasks: &[Graphable<'_>], candidates: &Candidates) {
        let before = predecessors(tasks);
        let destinations: Option<Vec<Destination>> = tasks.iter().map(Destination::task).collect();
        let (groups, is_decided) = match destinations {
            _ if candidates.devices == 1 => (vec![(0..tasks.len()).collect()], true),
            Some(destinations) => (by_destination(&destinations, &before), true),
            None => (connected(&before), false),
        };
        for group in groups {
            if is_decided || is_chain(&group, &before) {
                self.add_run(first, &group, tasks, &before, candidates);
            } else {
                let name = || tasks[group[0]].name.to_owned();
                group.iter().for_each(|task| self.leave(first + task, Some(Obstacle::Parallel { task: name() })));
            }
        }
    }

    /// Adds a run of these tasks, or several if it would be too large.
    fn add_run(
        &mut self,
        first: usize,
        group: &[usize],
        tasks: &[Graphable<'_>],
        before: &[Before],
        candidates: &Candidates,
    ) {
        let open = open_groups(group, tasks);
        if !open.is_empty() {
            for stretch in group.chunk_by(|a, b| open.contains(a) == open.contains(b)) {
                match open.contains(&stretch[0]) {
                    false => self.add_run(first, stretch, tasks, before, candidates),
                    true => stretch.iter().for_each(|task| self.leave(first + task, reduction_of(&tasks[*task]))),
                }
            }
            return;
        }
        let obstacle = match group {
            [] => return,
            [one] => Obstacle::Alone { task: tasks[*one].name.to_owned() },
            _ => {
                let run = run_of(first, group, tasks, before);
                let bytes = run.bytes();
                if bytes.total <= candidates.capacity_bytes / PART_OF_MEMORY && bytes.largest <= candidates.buffer_bytes
                {
                    return self.pieces.push(Piece::Run(Arc::new(run)));
                }
                let (half, rest) = group.split_at(group.len() / 2);
                if half.len() > 1 {
                    self.add_run(first, half, tasks, before, candidates);
                    return self.add_run(first, rest, tasks, before, candidates);
                }
                Obstacle::Memory { task: tasks[group[0]].name.to_owned() }
            }
        };
        group.iter().for_each(|task| self.leave(first + task, Some(obstacle.clone())));
    }
}

/// Returns the devices for a run that begins with this step, or the reason why the step cannot be in a run. For a step
/// that is not a task, there is no obstacle.
fn candidates_of<'s>(step: &'s dyn Step, door: &Door) -> Result<(Graphable<'s>, Candidates), Option<Obstacle>> {
    let task = step.graphable()?;
    let Graphable { name, kinds, device, .. } = task;
    let machine = &door.shared().machine;
    let mut candidates = Candidates { devices: 0, capacity_bytes: u64::MAX, buffer_bytes: u64::MAX };
    for unit in machine.units().iter().filter(|unit| kinds.has(unit.kind)) {
        if ComputeUnit::is_cpu(unit) && device.is_none() {
            return Err(Some(Obstacle::Units { task: name.to_owned() }));
        }
        for device in &unit.devices {
            if !door.driver.has_queues(*device) {
                return Err(Some(Obstacle::Emulated { task: name.to_owned() }));
            }
            candidates.devices += 1;
            candidates.capacity_bytes =
                candidates.capacity_bytes.min(door.driver.shared().machine.capacity_bytes(device.space()));
            candidates.buffer_bytes = candidates.buffer_bytes.min(door.capacities.buffer(device.space()));
        }
    }
    if candidates.devices == 0 { Err(Some(Obstacle::Placement)) } else { Ok((task, candidates)) }
}

/// Returns the reduction of a task as an obstacle.
fn reduction_of(task: &Graphable<'_>) -> Option<Obstacle> {
    let record = task.regions.iter().map(RecordedRegion::record).find(|record| record.is_reduced_in_place())?;
    Some(Obstacle::Access { task: task.name.to_owned(), mode: record.mode })
}

/// The combined use of a part by all tasks of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    is_read: bool,
    is_written: bool,
}

impl Use {
    fn mode(self) -> Mode {
        match (self.is_read, self.is_written) {
            (true, true) => Mode::Inout,
            (false, true) => Mode::Out,
            (_, false) => Mode::In,
        }
    }
}

/// Returns the run of a group of tasks; `first` is the index of the step of the first task in `tasks`.
fn run_of(first: usize, group: &[usize], tasks: &[Graphable<'_>], before: &[Before]) -> Run {
    // The regions of each data object, in the order of the data objects' first use.
    let mut by_data: FxHashMap<DataId, Vec<&RecordedRegion>> = FxHashMap::default();
    let mut order = Vec::new();
    for region in group.iter().flat_map(|task| tasks[*task].regions) {
        let id = region.record().datum.id;
        let of_data = by_data.entry(id).or_insert_with(|| {
            order.push(id);
            Vec::new()
        });
        of_data.push(region);
    }
    let mut accesses = Vec::new();
    // For each data object, the range of its accesses.
    let mut ranges: FxHashMap<DataId, std::ops::Range<usize>> = FxHashMap::default();
    for id in order {
        let begin = accesses.len();
        accesses.append(&mut accesses_to(&by_data[&id], |mode| mode));
        ranges.insert(id, begin..accesses.len());
    }
    let numbers: FxHashMap<usize, u32> = (0..).zip(group).map(|(number, task)| (*task, number)).collect();
    let member = |task: &usize| {
        let Graphable { name, location, iteration, regions, .. } = &tasks[*task];
        let region = |region: &RecordedRegion| {
            let record = region.record();
            let around = ranges[&record.datum.id].clone();
            let around = around.clone().find(|n| accesses[*n].hull.contains(record.block)).unwrap_or(around.start);
            let (data, block, mode) = (record.datum.id, *record.block, record.mode);
            let is_reduced = record.is_reduced_in_place() && !block.is_empty();
            MemberRegion { data, access: around, block, mode, is_reduced }
        };
        let regions = regions.iter().map(region).collect();
        Member { step: first + task, name: (*name).to_owned(), location: *location, iteration: *iteration, regions }
    };
    let members: Vec<Member> = group.iter().map(member).collect();
    // A member with reductions has two parts, of which others wait for the second.
    let mut last_parts: Vec<u32> = Vec::with_capacity(group.len());
    let order = |(task, member): (&usize, &Member)| {
        let Before { all, combination } = &before[*task];
        let parts = |tasks: &mut dyn Iterator<Item = &usize>| -> Box<[u32]> {
            tasks.filter_map(|other| numbers.get(other)).map(|number| last_parts[*number as usize]).collect()
        };
        let body = parts(&mut all.iter().filter(|other| !combination.contains(other)));
        let combination = member.reductions().next().map(|_| parts(&mut combination.iter()));
        let next = last_parts.last().map_or(0, |last| last + 1);
        last_parts.push(next + u32::from(combination.is_some()));
        Order { body, combination }
    };
    let orders = group.iter().zip(&members).map(order).collect();
    let priority = group.iter().map(|task| tasks[*task].priority).max().unwrap_or(0);
    let cost = group.iter().map(|task| tasks[*task].cost).sum();
    let one = &tasks[group[0]];
    let have_one_destination = group.iter().all(|task| Destination::task(&tasks[*task]) == Destination::task(one));
    let (index, device) = if have_one_destination { (one.index.cloned(), one.device) } else { (None, None) };
    let hints = RunHints { kinds: one.kinds, priority, cost, index, device };
    Run::new(members, accesses, orders, hints)
}

/// Returns the accesses of a run to one data object, where `regions` are the regions of the object that its tasks
/// declare, and `as_used` is the effect of a mode.
pub(super) fn accesses_to(regions: &[&RecordedRegion], as_used: impl Fn(Mode) -> Mode) -> Vec<PlannedAccess> {
    let datum = regions[0].record().datum;
    let hulls = hulls(regions.iter().map(|region| *region.record().block).filter(|block| !block.is_empty()).collect());
    let mut uses = RegionMap::new(datum.whole(), datum.ndim(), Use::default());
    for record in regions.iter().map(|region| region.record()) {
        uses.visit(record.block, |_, so_far| {
            let mode = as_used(record.mode);
            so_far.is_read |= mode.reads() && !so_far.is_written;
            so_far.is_written |= mode.writes();
        });
    }
    let mut parts = Vec::new();
    uses.peek(&datum.whole(), |block, used| {
        if used.is_read || used.is_written {
            let hull = hulls.iter().position(|hull| hull.contains(&block)).expect("every block has a hull");
            parts.push((*used, hull, block));
        }
    });
    let planned = |(used, hull, block): (Use, usize, Block)| PlannedAccess {
        kept: regions[0].kept(),
        block,
        mode: used.mode(),
        hull: hulls[hull],
    };
    let mut accesses: Vec<_> = join(parts).into_iter().map(planned).collect();
    if accesses.is_empty() {
        // The tasks name the data object but touch none of it, so the run does the same.
        let record = regions[0].record();
        let (block, kept) = (*record.block, regions[0].kept());
        accesses.push(PlannedAccess { kept, block, mode: Mode::In, hull: block });
    }
    accesses
}

/// Returns the smallest boxes around blocks such that overlapping blocks are in one box, and boxes do not overlap.
fn hulls(mut blocks: Vec<Block>) -> Vec<Block> {
    let around = |a: &Block, b: &Block| {
        let lo = std::array::from_fn(|d| a.lo()[d].min(b.lo()[d]));
        Block::from_corners(lo, std::array::from_fn(|d| a.hi()[d].max(b.hi()[d])))
    };
    blocks.sort_unstable_by_key(|block| (*block.lo(), *block.hi()));
    blocks.dedup();
    let mut hulls: Vec<Block> = Vec::new();
    for mut block in blocks {
        while let Some(other) = hulls.iter().position(|hull| hull.overlaps(&block)) {
            block = around(&hulls.swap_remove(other), &block);
        }
        hulls.push(block);
    }
    hulls
}

/// Joins parts that have the same use and hull and together form a box.
fn join(mut parts: Vec<(Use, usize, Block)>) -> Vec<(Use, usize, Block)> {
    loop {
        let before = parts.len();
        for d in (0..MAX_DIMS).rev() {
            let across = |block: &Block| {
                let (mut lo, mut hi) = (*block.lo(), *block.hi());
                (lo[d], hi[d]) = (0, 0);
                (lo, hi)
            };
            parts.sort_unstable_by_key(|(used, hull, block)| (*used, *hull, across(block), block.lo()[d]));
            parts.dedup_by(|next, first| {
                let is_next = (next.0, next.1, across(&next.2)) == (first.0, first.1, across(&first.2))
                    && first.2.hi()[d] == next.2.lo()[d];
                if is_next {
                    first.2 = Block::from_corners(*first.2.lo(), *next.2.hi());
                }
                is_next
            });
        }
        if parts.len() == before {
            return parts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_equal_use_are_joined_into_boxes() {
        let (read, written) = (Use { is_read: true, is_written: false }, Use { is_read: false, is_written: true });
        let cell = |i: usize, j: usize| Block::new(&[i..i + 1, j..j + 1]);
        let inside = |i: usize| (1..4).contains(&i);
        let used = |i, j| if inside(i) && inside(j) { written } else { read };
        let parts = (0..5).flat_map(|i| (0..5).map(move |j| (used(i, j), 0, cell(i, j)))).collect();
        let joined = join(parts);
        assert_eq!(joined.iter().map(|(_, _, block)| block.volume()).sum::<usize>(), 25);
        assert_eq!(joined.iter().filter(|(used, ..)| *used == written).count(), 1);
        assert_eq!(joined.len(), 5, "the inside, and four sides around it");
    }

    #[test]
    fn overlapping_blocks_share_a_hull_and_hulls_do_not_overlap() {
        let line = |range| Block::interval(range);
        assert_eq!(hulls(vec![line(0..4), line(8..12), line(3..6)]), [line(0..6), line(8..12)]);
        let corners = [Block::new(&[0..2, 0..2]), Block::new(&[1..9, 8..9]), Block::new(&[8..9, 0..9])];
        assert_eq!(hulls(corners.to_vec()), [Block::new(&[0..9, 0..9])], "the box around two contains the third");
    }
}
