//! Collective calls, which rank 0 collects: it compares the programs and merges the failures.

use super::Link;
use crate::error::{Broken, Failure};
use crate::shared::lock;
use crate::transport::Transport;
use crate::uniform::first_difference;
use crate::wire::{Entry, Record};
use std::collections::BTreeMap;

/// Marks a rank that skips tasks that are not local, whose submissions cannot be compared.
pub(crate) const PRUNED: (u64, u64) = (0, 0);

/// The state of collective calls. All but `result_expected` is used by rank 0 only.
pub(super) struct Collectives {
    size: usize,
    result_expected: bool,
    /// By call, the number of ranks that have reached it, and what the first of them has submitted.
    entered: BTreeMap<u64, (usize, (u64, u64))>,
    /// By call, the failures of each rank whose tasks have ended.
    done: BTreeMap<u64, Vec<Option<Vec<Failure>>>>,
    /// Why the programs differ, while the logs of all ranks are collected.
    asking: Option<(String, Vec<Option<Vec<Entry>>>)>,
}

impl Collectives {
    pub(super) fn new(size: usize) -> Self {
        Self { size, result_expected: false, entered: BTreeMap::new(), done: BTreeMap::new(), asking: None }
    }

    pub(super) fn expect_result(&mut self, yes: bool) {
        self.result_expected = yes;
    }

    pub(super) fn waits(&self) -> bool {
        self.result_expected || self.asking.is_some()
    }

    /// Returns whether `rank` waits for a collective call of `other`.
    pub(super) fn waits_for(&self, rank: usize, other: usize) -> bool {
        match rank {
            0 => self.done.values().any(|done| done[other].is_none()),
            _ => other == 0 && self.result_expected,
        }
    }
}

impl<T: Transport> Link<T> {
    /// Handles a record for rank 0.
    pub(super) fn collect(&mut self, from: usize, record: Record) {
        let size = self.collectives.size;
        match record {
            Record::Enter { collective, index, hash, place } => {
                let now = (index, hash);
                let (count, first) = self.collectives.entered.entry(collective).or_insert((0, now));
                *count += 1;
                let differs = *first != now && *first != PRUNED && now != PRUNED;
                if *count == size {
                    self.collectives.entered.remove(&collective);
                }
                if differs {
                    self.ask(format!("when rank {from} calls {place}, it has not submitted the same tasks"));
                }
            }
            Record::Done { collective, failures } => {
                let done = self.collectives.done.entry(collective).or_insert_with(|| vec![None; size]);
                done[from] = Some(failures);
                if self.collectives.asking.is_some() {
                    return; // the call ends when the logs have shown the difference
                }
                if done.iter().all(Option::is_some) {
                    let done = self.collectives.done.remove(&collective).unwrap_or_default();
                    let mut failures: Vec<Failure> = done.into_iter().flatten().flatten().collect();
                    failures.sort_unstable();
                    failures.dedup();
                    (0..size).for_each(|to| self.post(to, Record::Result { collective, failures: failures.clone() }));
                } else {
                    self.others().for_each(|rank| self.check_gone(rank));
                }
            }
            Record::Mismatch { text } => self.ask(text),
            Record::Log { entries } => {
                let Some((text, logs)) = &mut self.collectives.asking else { return };
                logs[from] = Some(entries);
                if logs.iter().all(Option::is_some) {
                    let text = first_difference(logs).unwrap_or_else(|| std::mem::take(text));
                    self.collectives.asking = None;
                    self.break_all(Broken::Diverged(text));
                }
            }
            _ => unreachable!("other records are for every rank"),
        }
    }

    /// Asks all ranks for their logs, since their programs differ.
    fn ask(&mut self, text: String) {
        if self.collectives.asking.is_some() || self.shared.broken().is_some() {
            return;
        }
        let mut logs = vec![None; self.collectives.size];
        logs[self.rank] = Some(lock(&self.shared.log).entries());
        self.collectives.asking = Some((text, logs));
        self.others().for_each(|to| self.post(to, Record::Ask));
    }
}
