//! Selection of the dependences that are drawn as arrows.
//!
//! An arrow begins at the slice of a predecessor and ends at the slice of its successor. The viewer gives the arrow
//! to the slice that begins first, so a dependence gets an arrow only if its predecessor began first. Every arrow
//! has its own ID, because the viewer would draw arrows with a common ID as one chain through all successors.

use super::Arrows;
use crate::{Dependence, Trace};

/// The chosen dependences, indexed by predecessor and by successor.
pub(super) struct Chosen {
    /// Predecessor and successor of each arrow.
    ends: Vec<(u32, u32)>,
    out_of: ByTask,
    into: ByTask,
    /// Whether the slice of a task has begun.
    begun: Vec<bool>,
}

impl Chosen {
    /// Chooses among the dependences whose predecessor and successor both ran.
    pub(super) fn new(trace: &Trace, arrows: Arrows) -> Self {
        let tasks = trace.tasks.len();
        let ran = |task: usize| trace.tasks[task].start.is_some() && trace.tasks[task].end.is_some();
        let both_ran = |dependence: &&Dependence| ran(dependence.from) && ran(dependence.to);
        let groups = trace.dependences.chunk_by(|one, other| one.to == other.to);
        let pair = |dependence: &Dependence| (dependence.from as u32, dependence.to as u32);
        let ends: Vec<(u32, u32)> = match arrows {
            Arrows::None => Vec::new(),
            Arrows::All => trace.dependences.iter().filter(both_ran).map(pair).collect(),
            Arrows::Last => {
                let ended = |dependence: &&Dependence| trace.tasks[dependence.from].finished;
                groups.filter_map(|group| group.iter().filter(both_ran).max_by_key(ended)).map(pair).collect()
            }
        };
        let out_of = ByTask::new(tasks, ends.iter().map(|(from, _)| *from));
        let into = ByTask::new(tasks, ends.iter().map(|(_, to)| *to));
        Self { ends, out_of, into, begun: vec![false; tasks] }
    }

    /// Returns the number of chosen dependences.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Marks a task's slice as begun. Returns the arrows that start at the slice, and the arrows that end at it.
    pub(super) fn begin(&mut self, task: usize) -> (Vec<u32>, Vec<u32>) {
        self.begun[task] = true;
        let ends_later = |arrow: &u32| !self.begun[self.ends[*arrow as usize].1 as usize];
        let began_earlier = |arrow: &u32| {
            let from = self.ends[*arrow as usize].0 as usize;
            from != task && self.begun[from]
        };
        let out = self.out_of.of(task).iter().copied().filter(ends_later).collect();
        let into = self.into.of(task).iter().copied().filter(began_earlier).collect();
        (out, into)
    }
}

/// The numbers `0..n`, grouped by a key (a task).
struct ByTask {
    /// The numbers of key `k` are `members[first[k]..first[k + 1]]`.
    first: Vec<u32>,
    members: Vec<u32>,
}

impl ByTask {
    fn new(keys: usize, of: impl Iterator<Item = u32> + Clone) -> Self {
        let mut first = vec![0; keys + 1];
        for key in of.clone() {
            first[key as usize + 1] += 1;
        }
        for key in 0..keys {
            first[key + 1] += first[key];
        }
        let mut next = first.clone();
        let mut members = vec![0; first[keys] as usize];
        for (member, key) in of.enumerate() {
            let next = &mut next[key as usize];
            members[*next as usize] = member as u32;
            *next += 1;
        }
        Self { first, members }
    }

    fn of(&self, key: usize) -> &[u32] {
        &self.members[self.first[key] as usize..self.first[key + 1] as usize]
    }
}
