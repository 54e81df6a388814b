//! Moves and swaps of single indices: first to shorten the time, then to reduce the exchange.

use super::times::Estimates;
use crate::sched::adjacency::graph::Graph;
use crate::sched::{Neighbour, Team};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::ops::Range;

/// Maximum number of moves per unit. In practice few are needed; the limit guarantees termination.
const MOVES_A_UNIT: usize = 8;
/// Number of passes over the border between memories.
const PASSES: usize = 4;

/// Total time of each unit.
pub(super) struct Loads<'a> {
    team: Team,
    estimates: &'a Estimates<'a>,
    loads: Vec<f64>,
}

impl<'a> Loads<'a> {
    /// Creates the loads with all units idle.
    pub(super) fn new(estimates: &'a Estimates<'a>) -> Self {
        Self { team: estimates.team, estimates, loads: vec![0.0; estimates.team.len()] }
    }

    fn takes(&self, index: usize, slot: usize) -> f64 {
        self.estimates.on_kind(index, slot)
    }

    /// Returns when the unit would end if it also got this index.
    pub(super) fn end(&self, index: usize, slot: usize) -> f64 {
        self.loads[slot] + self.takes(index, slot)
    }

    /// Gives an index to a unit.
    pub(super) fn give(&mut self, index: usize, slot: usize) -> usize {
        self.loads[slot] += self.takes(index, slot);
        slot
    }

    fn take(&mut self, index: usize, slot: usize) {
        self.loads[slot] -= self.takes(index, slot);
    }

    fn least_busy(&self, slots: Range<usize>) -> Option<usize> {
        slots.min_by(|one, other| self.loads[*one].total_cmp(&self.loads[*other]))
    }

    /// Returns the one of these units that would end first if it also got this index.
    pub(super) fn first_to_end(&self, index: usize, slots: Range<usize>) -> Option<usize> {
        slots.min_by(|one, other| self.end(index, *one).total_cmp(&self.end(index, *other)))
    }

    /// Gives an index to the one of these units that would end first, and returns that unit.
    pub(super) fn give_to_first(&mut self, index: usize, slots: Range<usize>) -> usize {
        self.first_to_end(index, slots).map_or(0, |slot| self.give(index, slot))
    }

    fn longest(&self) -> (usize, f64) {
        let longest = self.loads.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
        longest.unwrap_or((0, 0.0))
    }
}

/// A change that shortens the longest unit. Changes are ordered by the later end of the two units after the change,
/// then by the order of the candidates: the other unit, the index, and the index returned in exchange, if any.
type Change = (f64, (usize, usize, Option<usize>));

/// Candidates for the index returned in exchange: the indices of one unit, sorted by their time on the other unit.
struct Returns {
    /// Time on the other unit, time on this unit, and the index's position.
    indices: Vec<(f64, f64, usize)>,
    /// Running maximum of the indices' times on this unit.
    most_here: Vec<f64>,
}

impl Returns {
    fn new(loads: &Loads<'_>, of: &[usize], here: usize, there: usize) -> Self {
        let takes = |(at, index): (usize, &usize)| (loads.takes(*index, there), loads.takes(*index, here), at);
        let mut indices: Vec<_> = of.iter().enumerate().map(takes).collect();
        indices.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.2.cmp(&other.2)));
        let most = |most: &mut f64, (_, here, _): &(f64, f64, usize)| {
            *most = most.max(*here);
            Some(*most)
        };
        let most_here = indices.iter().scan(0.0, most).collect();
        Self { indices, most_here }
    }

    /// Offers each candidate that may leave both units below `limit`, which the offer may lower. `gives` is the first
    /// unit's load without the index that it gives away; `gets` is the other unit's load with that index.
    fn offer(&self, gives: f64, gets: f64, mut limit: f64, mut offer: impl FnMut(f64, usize) -> f64) {
        let even = self.indices.partition_point(|(there, here, _)| gives + there < gets - here);
        for (there, here, at) in &self.indices[even..] {
            if gives + there > limit {
                break;
            }
            limit = offer((gives + there).max(gets - here), *at);
        }
        for ((there, here, at), most_here) in self.indices[..even].iter().zip(&self.most_here).rev() {
            if gets - most_here > limit {
                break;
            }
            limit = offer((gives + there).max(gets - here), *at);
        }
    }
}

/// Shortens the longest unit by moves to and swaps with the least busy unit of each kind, as long as that helps.
pub(super) fn shorten(slots: &mut [usize], loads: &mut Loads<'_>) {
    let mut of = vec![Vec::new(); loads.team.len()];
    slots.iter().enumerate().for_each(|(index, slot)| of[*slot].push(index));
    for _ in 0..MOVES_A_UNIT * loads.team.len() {
        let (from, longest) = loads.longest();
        let shorter = longest * (1.0 - 1e-9);
        let kinds = [0..loads.team.cpus, loads.team.cpus..loads.team.len()];
        let mut best: Option<Change> = None;
        for to in kinds.into_iter().filter_map(|slots| loads.least_busy(slots)).filter(|to| *to != from) {
            let returns = Returns::new(loads, &of[to], to, from);
            for (at, &index) in of[from].iter().enumerate() {
                let gives = loads.loads[from] - loads.takes(index, from);
                let gets = loads.loads[to] + loads.takes(index, to);
                let mut offer = |after: f64, back: Option<usize>| {
                    let change = (after, (to, at, back));
                    if after < shorter && best.is_none_or(|best| change < best) {
                        best = Some(change);
                    }
                    best.map_or(shorter, |(after, _)| after)
                };
                let limit = offer(gives.max(gets), None);
                returns.offer(gives, gets, limit, |after, back| offer(after, Some(back)));
            }
        }
        let Some((_, (to, at, back))) = best else { return };
        let index = of[from].swap_remove(at);
        loads.take(index, from);
        if let Some(back_at) = back {
            let back = of[to].swap_remove(back_at);
            loads.take(back, to);
            slots[back] = loads.give(back, from);
            of[from].push(back);
        }
        slots[index] = loads.give(index, to);
        of[to].push(index);
    }
}

/// Moves indices to the memory with which they exchange most data, while every unit stays within `slack` of the
/// longest.
pub(super) fn join(slots: &mut [usize], loads: &mut Loads<'_>, neighbours: &[Vec<Neighbour>], slack: f64) {
    let (graph, team) = (Graph::new(neighbours, slots.len()), loads.team);
    let limit = loads.longest().1 * (1.0 + slack);
    for _ in 0..PASSES {
        let mut moved = false;
        for index in 0..slots.len() {
            let (own, from) = (team.memory(slots[index]), slots[index]);
            let there = |memory: usize| graph.in_memory(index, slots, team, memory);
            if graph.of(index).iter().all(|edge| team.memory(slots[edge.to]) == own) {
                continue;
            }
            let mut memories: SmallVec<[usize; 8]> =
                graph.of(index).iter().map(|edge| team.memory(slots[edge.to])).collect();
            memories.sort_unstable();
            memories.dedup();
            let stays = there(own);
            let best = memories.into_iter().filter(|memory| *memory != own && there(*memory) > stays);
            let Some(memory) = best.max_by_key(|memory| (there(*memory), Reverse(*memory))) else { continue };
            let candidates = if memory == 0 { 0..team.cpus } else { team.cpus + memory - 1..team.cpus + memory };
            let Some(to) = loads.least_busy(candidates) else { continue };
            if loads.loads[to] + loads.takes(index, to) <= limit {
                loads.take(index, from);
                slots[index] = loads.give(index, to);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}
