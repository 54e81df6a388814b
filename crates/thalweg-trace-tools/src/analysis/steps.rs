//! The flags common to all units over time: waiting and ready tasks for each kind of unit, the program's state, and
//! copies in progress.
//!
//! A kind of unit counts as able to run a task if some task of the same name ran on that kind. A kind that ran nothing
//! counts as able to run all tasks. Units of different ranks are of different kinds: a rank's units run only its own
//! tasks, and wait only for its own program.

use super::prepare::Prepared;
use super::spans::union;
use super::timeline::Activity;
use std::collections::HashMap;

/// The program waits for tasks.
pub(super) const WAIT: u8 = 1;
/// The program is throttled.
pub(super) const THROTTLE: u8 = 2;
/// Copies are in progress.
pub(super) const COPYING: u8 = 4;
/// Tasks wait for predecessors.
pub(super) const DEPENDENT: u8 = 8;
/// Tasks are ready, and wait neither for memory nor for copies.
pub(super) const READY: u8 = 16;
/// Tasks wait for memory.
pub(super) const FOR_MEMORY: u8 = 32;
/// Tasks wait for copies.
pub(super) const FOR_COPIES: u8 = 64;
/// The program has submitted its last task.
pub(super) const ALL_SUBMITTED: u8 = 128;

/// Returns the activity of an idle unit that no task is placed on.
pub(super) fn idle(flags: u8) -> Activity {
    match () {
        () if flags & (READY | FOR_MEMORY | FOR_COPIES) != 0 => Activity::Unit,
        () if flags & DEPENDENT != 0 => Activity::Dependence,
        () => Activity::Submission,
    }
}

/// The flags from a point in time on, as seen by one kind of unit. Only tasks that this kind can run count.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) flags: u8,
}

/// The kinds of units, indexed by numbers below 64 so that a set of kinds fits into one word. Further kinds count as
/// one.
pub(super) struct Kinds {
    of_units: Vec<usize>,
    /// Per kind, its rank: of several ranks, the first. The last kind is that of units that the trace does not list.
    ranks: Vec<usize>,
    /// Per site, a bit for each kind that can run its tasks.
    of_sites: Vec<u64>,
}

impl Kinds {
    pub(super) fn new(prepared: &Prepared<'_>) -> Self {
        let (trace, ranks) = (prepared.trace, &prepared.ranks);
        let mut numbers: HashMap<(usize, &str), usize> = HashMap::new();
        let mut of_kinds = Vec::new();
        // Per rank, a bit for each of its kinds.
        let mut of_ranks = vec![0_u64; ranks.count()];
        let number = |unit: usize| {
            let (rank, next) = (ranks.of_unit(unit), numbers.len().min(62));
            let number = *numbers.entry((rank, trace.units[unit].kind.as_str())).or_insert(next);
            if number == of_kinds.len() {
                of_kinds.push(rank);
            }
            of_ranks[rank] |= 1 << number;
            number
        };
        let of_units: Vec<usize> = (0..trace.units.len()).map(number).collect();
        of_kinds.push(0);
        let unlisted = 1 << (of_kinds.len() - 1);
        let mut kinds = Self { of_units, ranks: of_kinds, of_sites: vec![0; trace.sites.len()] };
        for task in &trace.tasks {
            if let (Some(_), Some(unit)) = (task.start, task.unit) {
                kinds.of_sites[task.site] |= 1 << kinds.of_unit(unit);
            }
        }
        let used = kinds.of_sites.iter().fold(0, |used, kinds| used | kinds);
        for (site, ran) in kinds.of_sites.iter_mut().enumerate() {
            let of_rank = of_ranks[ranks.of_site(site)] | unlisted;
            *ran = if *ran == 0 { of_rank } else { *ran | of_rank & !used };
        }
        kinds
    }

    /// Returns the index of a unit's kind.
    pub(super) fn of_unit(&self, unit: usize) -> usize {
        self.of_units.get(unit).copied().unwrap_or(self.ranks.len() - 1)
    }

    /// Returns the rank of a kind.
    pub(super) fn rank_of(&self, kind: usize) -> usize {
        self.ranks[kind]
    }
}

/// A change of state.
#[derive(Clone, Copy)]
enum Change {
    /// Toggles a flag that all kinds of units of a rank share.
    Turn(u8, usize),
    /// A task of a group moves from one flag to another, where 0 means no flag.
    Task(u16, u8, u8),
}

/// Returns the flags over time for each kind of unit. The first step is at time 0, and each later step changes at
/// least one flag.
pub(super) fn by_kind(prepared: &Prepared<'_>, kinds: &Kinds) -> Vec<Vec<Step>> {
    let mut groups: Vec<u64> = kinds.of_sites.clone();
    groups.sort_unstable();
    groups.dedup();
    let group = |mask: &u64| groups.binary_search(mask).expect("every mask has a group").min(u16::MAX.into()) as u16;
    let group_of: Vec<u16> = kinds.of_sites.iter().map(group).collect();
    let mut changes: Vec<(u64, Change)> = Vec::new();
    let copying = union(prepared.trace.copies.iter().map(|copy| (copy.start, copy.end)).collect());
    for rank in 0..prepared.ranks.count() {
        let of_rank = [(&prepared.waits[rank], WAIT), (&prepared.throttles[rank], THROTTLE), (&copying, COPYING)];
        for (spans, flag) in of_rank {
            let times = spans.iter().flat_map(|(start, end)| [*start, *end]);
            changes.extend(times.map(|at| (at, Change::Turn(flag, rank))));
        }
        let last = prepared.submissions[rank].last().copied().unwrap_or(0);
        changes.push((last, Change::Turn(ALL_SUBMITTED, rank)));
    }
    for (number, task) in prepared.trace.tasks.iter().enumerate() {
        let gone = prepared.gone[number];
        let ready = prepared.ready[number].min(gone);
        let [placed, reserved, launched, _] = prepared.stages(number).unwrap_or([gone; 4]);
        let flags = [DEPENDENT, READY, FOR_MEMORY, FOR_COPIES, READY, 0];
        let times = [task.submitted.min(ready), ready, placed, reserved, launched, gone];
        let mut before = 0;
        for (at, (flag, until)) in times.into_iter().zip(flags.into_iter().zip(times[1..].iter().chain([&u64::MAX]))) {
            if at < *until && flag != before {
                changes.push((at, Change::Task(group_of[task.site], before, flag)));
                before = flag;
            }
        }
    }
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut steps = vec![vec![Step { at: 0, flags: 0 }]; kinds.ranks.len()];
    // The flags that the kinds of each rank share. For each other flag, the number of tasks per group, and a bit for
    // each kind that has such tasks.
    let mut common = vec![0; prepared.ranks.count()];
    let (mut numbers, mut some) = ([(); 4].map(|()| vec![0_i64; groups.len()]), [0_u64; 4]);
    let mut changes = changes.into_iter().peekable();
    while let Some((at, change)) = changes.next() {
        match change {
            Change::Turn(flag, rank) => common[rank] ^= flag,
            Change::Task(group, before, after) => {
                for (flag, change) in [(before, -1), (after, 1)].into_iter().filter(|(flag, _)| *flag != 0) {
                    let which = (flag / DEPENDENT).ilog2() as usize;
                    numbers[which][usize::from(group)] += change;
                    let with_tasks = numbers[which].iter().zip(&groups).filter(|(number, _)| **number > 0);
                    some[which] = with_tasks.fold(0, |kinds, (_, mask)| kinds | mask);
                }
            }
        }
        if changes.peek().is_some_and(|(next, _)| *next == at) {
            continue;
        }
        for (kind, steps) in steps.iter_mut().enumerate() {
            let flag = |which: usize| ((some[which] >> kind & 1) as u8) << (which + 3);
            let flags = common[kinds.rank_of(kind)] | flag(0) | flag(1) | flag(2) | flag(3);
            match steps.last_mut() {
                Some(last) if last.flags == flags => {}
                Some(last) if last.at == at => last.flags = flags,
                _ => steps.push(Step { at, flags }),
            }
        }
    }
    steps
}
