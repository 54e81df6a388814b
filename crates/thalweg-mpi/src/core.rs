//! The state of one rank: its runtime, its communication thread, and the numbers that all ranks count alike.

use crate::bound::BoundData;
use crate::error::{Broken, ClusterError, Failure};
use crate::link::PRUNED;
use crate::shared::{Command, Shared, lock};
use crate::uniform::hash;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg::error::SubmitError;
use thalweg::{Runtime, TaskGroup};

/// Time between looks at whether the cluster is broken, in a call that waits.
const LOOK: Duration = Duration::from_millis(20);

/// A submission: the task of the program for which local tasks are made.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    pub(crate) index: u64,
    pub(crate) hash: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
}

impl Submission {
    pub(crate) fn failure(&self, rank: u32, reason: String) -> Failure {
        Failure { index: self.index, rank, name: self.name.to_string(), place: self.place.to_string(), reason }
    }
}

/// See the module documentation. Ends the rank when the last handle of the cluster and its data is dropped.
pub(crate) struct Core {
    /// Present until the rank ends.
    runtime: Option<Runtime>,
    thread: Option<JoinHandle<()>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    checks: bool,
    pub(crate) pruned: Cell<bool>,
    index: Cell<u64>,
    rolling: Cell<u64>,
    collectives: Cell<u64>,
    /// The number of submissions at the last wait. Failures of older ones have been reported.
    reported: Cell<u64>,
    /// The number of messages to and from each rank.
    numbers: RefCell<Vec<[u64; 2]>>,
    objects: Cell<u64>,
    /// The actions for a submission, while a plan is made.
    noted: RefCell<Option<Vec<Op>>>,
    channels: Cell<u32>,
    /// The number of times that plans have become invalid.
    plans_ended: Cell<u64>,
    pub(crate) bound: BoundData,
}

/// An action of this rank for a submission, as a plan of a recording repeats it.
pub(crate) enum Op {
    /// Sends or receives a region.
    Message(Box<dyn Fn(&Submission) -> Result<(), SubmitError>>),
    /// Submits the local task.
    Body,
    /// Combines the contribution of the next reduction among the accesses.
    Combine,
}

/// The direction of a message, seen from this rank.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    To,
    From,
}

impl Core {
    pub(crate) fn new(
        runtime: Runtime,
        thread: JoinHandle<()>,
        shared: Arc<Shared>,
        (rank, size): (u32, u32),
        checks: bool,
    ) -> Self {
        Self {
            runtime: Some(runtime),
            thread: Some(thread),
            shared,
            rank,
            size,
            checks,
            pruned: Cell::new(false),
            index: Cell::new(0),
            rolling: Cell::new(0),
            collectives: Cell::new(0),
            reported: Cell::new(0),
            numbers: RefCell::new(vec![[0; 2]; size as usize]),
            objects: Cell::new(0),
            noted: RefCell::default(),
            channels: Cell::new(0),
            plans_ended: Cell::new(0),
            bound: BoundData::default(),
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is present until the rank ends")
    }

    /// Returns why the cluster cannot continue, if so.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        self.shared.broken().map_or(Ok(()), |broken| Err(broken.clone()))
    }

    /// Returns the number of the next message to or from a rank, and its check.
    pub(crate) fn message(&self, rank: u32, way: Way, cause: &Submission, what: impl Hash) -> (u64, u64) {
        let numbers = &mut self.numbers.borrow_mut()[rank as usize];
        let number = &mut numbers[way as usize];
        *number += 1;
        (*number, if self.checks { hash((cause.hash, what)) } else { 0 })
    }

    pub(crate) fn next_object(&self) -> u64 {
        self.objects.replace(self.objects.get() + 1)
    }

    /// Counts a submission. `content` is whatever must be the same on every rank.
    pub(crate) fn submission(
        &self,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        content: impl Hash,
    ) -> Submission {
        let of = || hash((&name, place.file(), place.line(), place.column(), content));
        let own = if self.checks { of() } else { 0 };
        self.count(name, place, own)
    }

    /// Counts a submission whose own hash is known.
    pub(crate) fn count(&self, name: Cow<'static, str>, place: &'static Location<'static>, own: u64) -> Submission {
        let index = self.index.replace(self.index.get() + 1);
        if self.checks {
            let rolling = hash((self.rolling.get(), own));
            self.rolling.set(rolling);
            lock(&self.shared.log).push(index, rolling, name.clone(), place);
        }
        Submission { index, hash: own, name, place }
    }

    /// Counts submissions that this rank leaves out.
    pub(crate) fn skip(&self, submissions: u64) {
        self.index.set(self.index.get() + submissions);
    }

    /// Returns whether every rank counts every submission, to compare programs.
    pub(crate) fn checks(&self) -> bool {
        self.checks
    }

    /// Notes an action if a plan is made, and returns the number of a new channel for it.
    pub(crate) fn note(&self, op: impl FnOnce(u32) -> Op) -> Option<u32> {
        let mut noted = self.noted.borrow_mut();
        let channel = self.channels.get();
        noted.as_mut()?.push(op(channel));
        self.channels.set(channel.saturating_add(1));
        Some(channel)
    }

    /// Notes the actions of a submission, and returns them with its result.
    pub(crate) fn noting<R>(&self, submit: impl FnOnce() -> R) -> (R, Vec<Op>) {
        *self.noted.borrow_mut() = Some(Vec::new());
        let result = submit();
        (result, self.noted.borrow_mut().take().unwrap_or_default())
    }

    /// Makes all plans invalid: the memory of a copy is released, or a tile gets another owner.
    pub(crate) fn end_plans(&self) {
        self.plans_ended.set(self.plans_ended.get() + 1);
    }

    /// The number of times that plans have become invalid.
    pub(crate) fn plans_ended(&self) -> u64 {
        self.plans_ended.get()
    }

    /// Tells rank 0 that this rank has reached a collective call.
    pub(crate) fn enter(&self, call: &str, place: &'static Location<'static>) -> u64 {
        let collective = self.collectives.get() + 1;
        self.collectives.set(collective);
        if self.checks {
            let now = (self.index.get(), hash((self.rolling.get(), call)));
            let (index, hash) = if self.pruned.get() { PRUNED } else { now };
            let place = format!("`{call}` at {place}");
            self.shared.push(Command::Enter { collective, index, hash, place });
        }
        collective
    }

    /// Waits for all tasks of all ranks and returns their failures.
    pub(crate) fn wait(&self, place: &'static Location<'static>) -> Result<(), ClusterError> {
        self.check()?;
        let collective = self.enter("wait", place);
        let mut failures = Vec::new();
        loop {
            match self.runtime().wait_timeout(LOOK) {
                Ok(true) => break,
                Ok(false) => self.check()?,
                Err(thalweg::error::RunError::Failed(failed)) => {
                    failures.extend(failed.iter().map(|failure| Failure::of(failure, self.rank, &self.shared)));
                    break;
                }
                Err(refused) => return Err(ClusterError::of_read(&refused, self.rank, &self.shared)),
            }
        }
        self.check()?;
        lock(&self.shared.origins).forget();
        let reported = self.reported.replace(self.index.get());
        failures.retain(|failure| failure.index >= reported);
        self.shared.push(Command::Done { collective, failures });
        let failures = self.shared.result(collective)?;
        if failures.is_empty() { Ok(()) } else { Err(ClusterError::Failed(crate::error::Failures(failures))) }
    }

    /// Waits for the tasks of a group on this rank.
    pub(crate) fn wait_for(&self, group: &TaskGroup) -> Result<(), ClusterError> {
        loop {
            match group.wait_timeout(LOOK) {
                Ok(true) => return Ok(()),
                Ok(false) => self.check()?,
                Err(error) => return Err(ClusterError::of_read(&error, self.rank, &self.shared)),
            }
        }
    }

    /// Ends all ranks because of this one.
    pub(crate) fn fail(&self, reason: String) {
        self.shared.push(Command::Break(Broken::Lost { rank: self.rank as usize, reason }));
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let runtime = self.runtime.take();
        if std::thread::panicking() {
            self.fail("its program has panicked".to_owned());
        }
        // Tasks that wait for a broken cluster fail, unless the transport may still use their memory.
        let mut looks = 0;
        let ended = loop {
            match runtime.as_ref().map(|runtime| runtime.wait_timeout(LOOK)) {
                Some(Ok(false)) => looks += u32::from(self.check().is_err()),
                _ => break true,
            }
            if looks > 25 {
                break false;
            }
        };
        self.shared.push(Command::Close);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            eprintln!("thalweg-mpi: the communication thread of rank {} has panicked", self.rank);
        }
        if !ended {
            std::mem::forget(runtime);
        }
    }
}
