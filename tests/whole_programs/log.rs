//! Log of a run: the data that was read, how often each body ran, and which objects were dropped.

use crate::program::Machine;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use thalweg::prelude::*;

/// What an act observed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// The elements that were read; `None` for poisoned elements.
    Elements(Vec<Option<u64>>),
    /// There was nothing to take.
    Nothing,
    /// There was no result, because this task has failed. `get` has reported the failure, so `wait` does not report it
    /// again.
    NoResult(usize),
    /// Another owner still has the object.
    Missing,
    /// The tasks that have failed.
    Failures(BTreeSet<usize>),
    /// The failed tasks of a scope, and the content of the memory lent to it.
    Scope(BTreeSet<usize>, Vec<Vec<u64>>),
    /// The wait was refused, because bodies are not allowed to wait on this unit.
    Refused,
    Error(String),
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    seen: HashMap<usize, Seen>,
    runs: HashMap<usize, u32>,
    /// Tasks whose body has run to its end at least once.
    ended: HashSet<usize>,
    /// The failures that each task's body was given instead of values.
    outcomes: HashMap<usize, BTreeSet<usize>>,
    refused: HashSet<usize>,
    errors: Vec<String>,
    /// How often each counted object was dropped.
    lives: Vec<u32>,
    may_refuse: bool,
}

impl Log {
    pub(crate) fn seen(&self, n: usize) -> Option<&Seen> {
        self.seen.get(&n)
    }

    /// Returns how often the body of a task has begun.
    pub(crate) fn runs(&self, n: usize) -> u32 {
        self.runs.get(&n).copied().unwrap_or(0)
    }

    /// Returns whether the task's body has run to its end. A future may be dropped before that.
    pub(crate) fn has_ended(&self, n: usize) -> bool {
        self.ended.contains(&n)
    }

    /// Returns the failed tasks because of which the body of task `n` lacked a value.
    pub(crate) fn outcomes(&self, n: usize) -> BTreeSet<usize> {
        self.outcomes.get(&n).cloned().unwrap_or_default()
    }

    /// Returns whether a task was submitted after its group was cancelled.
    pub(crate) fn is_refused(&self, n: usize) -> bool {
        self.refused.contains(&n)
    }

    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Returns the objects that were not dropped exactly once, and how often they were dropped.
    pub(crate) fn lives(&self) -> Vec<(usize, u32)> {
        self.lives.iter().copied().enumerate().filter(|(_, deaths)| *deaths != 1).collect()
    }

    /// Returns whether the machine has units whose bodies are not allowed to wait.
    pub(crate) fn may_refuse(&self) -> bool {
        self.may_refuse
    }
}

/// Recorder of the log of a run.
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

    /// Records that a body begins.
    pub(crate) fn begin(&self, n: usize) {
        *self.0.lock().unwrap().runs.entry(n).or_default() += 1;
    }

    /// Records that a body reaches its end.
    pub(crate) fn end(&self, n: usize) {
        self.0.lock().unwrap().ended.insert(n);
    }

    /// Records that a body is given the failure of the task with this name.
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

    /// Returns a new object whose drops are counted.
    pub(crate) fn living(&self) -> Living {
        let mut log = self.0.lock().unwrap();
        log.lives.push(0);
        Living(self.clone(), log.lives.len() - 1)
    }
}

/// An object that counts how often it is dropped.
#[derive(Debug)]
pub(crate) struct Living(Recorder, usize);

impl Drop for Living {
    fn drop(&mut self) {
        // Drops after the end of the run are not counted.
        if let Some(deaths) = self.0.0.lock().unwrap().lives.get_mut(self.1) {
            *deaths += 1;
        }
    }
}

/// Returns the observation for the result of a wait.
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

/// Returns the observation for an error that replaces a value.
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
