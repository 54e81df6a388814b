//! What a run of a program tells: what was seen of the data, how often bodies ran, what lives.

use crate::program::Machine;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use thalweg::prelude::*;

/// What an act has seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// Elements, as far as they are good.
    Elements(Vec<Option<u64>>),
    /// There was nothing to be taken.
    Nothing,
    /// There was no result, because this task has failed: `get` reports that, and `wait` does not repeat it.
    NoResult(usize),
    /// Somebody else has it still.
    Missing,
    /// The tasks that have failed.
    Failures(BTreeSet<usize>),
    /// The same of a scope, and what is in the memory that it was lent.
    Scope(BTreeSet<usize>, Vec<Vec<u64>>),
    /// Bodies may not wait there.
    Refused,
    Error(String),
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    seen: HashMap<usize, Seen>,
    runs: HashMap<usize, u32>,
    /// Tasks with a run that has come to its end.
    ended: HashSet<usize>,
    /// The failures that bodies were given instead of values.
    outcomes: HashMap<usize, BTreeSet<usize>>,
    refused: HashSet<usize>,
    errors: Vec<String>,
    /// How often each of those that live has died.
    lives: Vec<u32>,
    may_refuse: bool,
}

impl Log {
    pub(crate) fn seen(&self, n: usize) -> Option<&Seen> {
        self.seen.get(&n)
    }

    /// How often the body of a task has begun.
    pub(crate) fn runs(&self, n: usize) -> u32 {
        self.runs.get(&n).copied().unwrap_or(0)
    }

    /// Whether a run of the task's body has come to its end. A future may be dropped before.
    pub(crate) fn has_ended(&self, n: usize) -> bool {
        self.ended.contains(&n)
    }

    /// The failed tasks that left the body of a task without a value.
    pub(crate) fn outcomes(&self, n: usize) -> BTreeSet<usize> {
        self.outcomes.get(&n).cloned().unwrap_or_default()
    }

    /// Whether a task came too late for its group.
    pub(crate) fn is_refused(&self, n: usize) -> bool {
        self.refused.contains(&n)
    }

    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Who has not died once, and how often instead.
    pub(crate) fn lives(&self) -> Vec<(usize, u32)> {
        self.lives.iter().copied().enumerate().filter(|(_, deaths)| *deaths != 1).collect()
    }

    /// Whether there are units whose bodies may not wait.
    pub(crate) fn may_refuse(&self) -> bool {
        self.may_refuse
    }
}

/// Where a run writes its log.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Arc<Mutex<Log>>);

impl Recorder {
    pub(crate) fn new(machine: &Machine) -> Self {
        let may_refuse = machine.units.contains("EMU") || machine.units.contains(":2");
        Self(Arc::new(Mutex::new(Log { may_refuse, ..Log::default() })))
    }

    pub(crate) fn saw(&self, n: usize, seen: Seen) {
        self.0.lock().unwrap().seen.insert(n, seen);
    }

    /// A body begins.
    pub(crate) fn begin(&self, n: usize) {
        *self.0.lock().unwrap().runs.entry(n).or_default() += 1;
    }

    /// A body comes to its end.
    pub(crate) fn end(&self, n: usize) {
        self.0.lock().unwrap().ended.insert(n);
    }

    /// A body is given the failure of the task with this name.
    pub(crate) fn outcome(&self, n: usize, name: &str) {
        match name.parse() {
            Ok(name) => _ = self.0.lock().unwrap().outcomes.entry(n).or_default().insert(name),
            Err(_) => self.error(format!("{n} was given the failure of {name}")),
        }
    }

    pub(crate) fn refused(&self, n: usize) {
        self.0.lock().unwrap().refused.insert(n);
    }

    pub(crate) fn error(&self, what: String) {
        self.0.lock().unwrap().errors.push(what);
    }

    pub(crate) fn finish(self) -> Log {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Something whose end is looked for.
    pub(crate) fn living(&self) -> Living {
        let mut log = self.0.lock().unwrap();
        log.lives.push(0);
        Living(self.clone(), log.lives.len() - 1)
    }
}

/// Counts how often it is dropped.
#[derive(Debug)]
pub(crate) struct Living(Recorder, usize);

impl Drop for Living {
    fn drop(&mut self) {
        // After the run nobody counts.
        if let Some(deaths) = self.0.0.lock().unwrap().lives.get_mut(self.1) {
            *deaths += 1;
        }
    }
}

/// What a wait tells.
pub(crate) fn told(result: Result<(), RunError>) -> Seen {
    match result {
        Ok(()) => Seen::Failures(BTreeSet::new()),
        Err(RunError::Failed(failures)) => {
            let names = failures.iter().map(|failure| failure.name().parse());
            match names.collect::<Result<BTreeSet<usize>, _>>() {
                Ok(names) if names.len() == failures.len() => Seen::Failures(names),
                _ => Seen::Error(format!("{failures:?}")),
            }
        }
        Err(error) => missing(&error),
    }
}

/// What it means that something cannot be had.
pub(crate) fn missing(error: &RunError) -> Seen {
    match error {
        RunError::Poisoned(_) => Seen::Nothing,
        RunError::NoResult { failure, .. } => match failure.name().parse() {
            Ok(name) => Seen::NoResult(name),
            Err(_) => Seen::Error(error.to_string()),
        },
        RunError::Refused(SubmitError::InsideTask { .. } | SubmitError::Unsuspended { .. }) => Seen::Refused,
        other => Seen::Error(other.to_string()),
    }
}
