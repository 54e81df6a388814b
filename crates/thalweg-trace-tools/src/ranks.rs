//! The ranks of a merged trace: the units, threads and sites of each.
//!
//! [`merge`](crate::merge::merge) appends the tables of one rank after those of the others and writes their lengths
//! into facts of the trace. A trace that was not merged is that of a single rank without a number.
//!
//! Invariant: each unit, thread and site belongs to exactly one rank, even if the trace does not list it.

use crate::Trace;

/// See the module documentation. Ranks are denoted by their positions in the trace.
pub(crate) struct Ranks {
    numbers: Vec<String>,
    units: Vec<usize>,
    threads: Vec<usize>,
    sites: Vec<usize>,
}

/// Returns the name of the fact with the lengths of a table.
fn fact(table: &str) -> String {
    format!("{table} of ranks")
}

/// Writes the lengths of the tables of all ranks, each with the rank's number, into the facts of the merged trace.
pub(crate) fn note(trace: &mut Trace, table: &str, lengths: impl Iterator<Item = (usize, usize)>) {
    let lengths: Vec<String> = lengths.map(|(rank, length)| format!("{rank}:{length}")).collect();
    trace.facts.insert(fact(table), lengths.join(" "));
}

impl Ranks {
    pub(crate) fn of(trace: &Trace) -> Self {
        let entries = |table| {
            let entries = trace.facts.get(&fact(table)).map_or("", String::as_str).split(' ');
            entries.filter_map(|entry| entry.split_once(':'))
        };
        let firsts = |table| {
            let mut next = 0;
            let first = |(_, length): (&str, &str)| {
                let first = next;
                next += length.parse().unwrap_or(0);
                first
            };
            entries(table).map(first).collect()
        };
        let numbers = entries("units").map(|(number, _)| number.to_owned()).collect();
        Self { numbers, units: firsts("units"), threads: firsts("threads"), sites: firsts("sites") }
    }

    /// Returns the number of ranks, at least 1.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len().max(1)
    }

    /// Returns the number of a rank, as its program counts; `None` if the trace was not merged.
    pub(crate) fn number(&self, rank: usize) -> Option<&str> {
        self.numbers.get(rank).map(String::as_str)
    }

    /// Returns a rank's first unit.
    pub(crate) fn first_unit(&self, rank: usize) -> usize {
        self.units.get(rank).copied().unwrap_or(0)
    }

    /// Returns the rank of a unit.
    pub(crate) fn of_unit(&self, unit: usize) -> usize {
        self.owner(&self.units, unit)
    }

    /// Returns the rank of a thread.
    pub(crate) fn of_thread(&self, thread: usize) -> usize {
        self.owner(&self.threads, thread)
    }

    /// Returns the rank of the tasks of a site.
    pub(crate) fn of_site(&self, site: usize) -> usize {
        self.owner(&self.sites, site)
    }

    fn owner(&self, firsts: &[usize], index: usize) -> usize {
        firsts.partition_point(|first| *first <= index).saturating_sub(1).min(self.count() - 1)
    }
}
