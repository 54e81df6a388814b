//! The active scheduling policy, including enforcement of the policy contract for user-defined policies.
//!
//! A policy is called while placement's lock is held, because its answers must match a state that does not change
//! meanwhile. So a user-defined policy is called with three precautions: it can neither submit to its runtime nor wait
//! for it ([`is_asked_by`]); a panic ends the policy rather than the runtime; and its answers are checked. A violation
//! is a [`Breach`], upon which placement dismisses the policy and `stealing` takes over the policy's tasks. No task is
//! lost, and every `wait` under way reports the breach.
//!
//! A policy that *looks ahead* is also notified of every task at submission, with the predecessors that the task waits
//! for (`Policy::submitted`). From this information, `bottom-level` computes how far each task is from the end of the
//! graph. Samples contain the time at which a task ended, so that a policy knows how much time has passed without
//! reading a clock.
//!
//! Invariants:
//! 1. A policy that has broken its contract is not called again.
//! 2. At most one policy is dismissed, because its replacement is built in.
//! 3. A dismissed policy is dropped together with the runtime, while no lock is held.

use super::failures::{FailureLog, NO_TASK};
use crate::depend::running;
use crate::error::{FailureReason, TaskFailure};
use crate::ids::{TaskId, UnitId};
use crate::sched::{CopySample, Decision, Estimate, Policy, ReadyTask, Sample, Stealing, SubmittedTask, UnitSet, View};
use crate::sync::CallSite;
use crate::sync::drop_quietly;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

thread_local! {
    /// The runtimes whose policies are being called on this thread's stack.
    static ASKED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether this runtime's policy is being called on this thread while the runtime's lock is held.
pub(crate) fn is_asked_by(runtime: u64) -> bool {
    ASKED.try_with(|asked| asked.borrow().contains(&runtime)).unwrap_or(false)
}

/// The active policy.
pub(crate) struct Scheduler {
    policy: Box<dyn Policy>,
    own: Option<Own>,
    dismissed: Option<Box<dyn Policy>>,
}

/// Additional state for a user's policy.
struct Own {
    name: &'static str,
    runtime: u64,
    failures: Arc<FailureLog>,
    breach: Option<Breach>,
}

/// A policy's violation of its contract.
pub(super) struct Breach {
    /// The task concerned, with its name and submission site, as far as they are known.
    pub(super) task: Option<(TaskId, String, CallSite)>,
    /// What the policy did.
    pub(super) problem: String,
    /// What it should have done.
    pub(super) remedy: &'static str,
}

impl Scheduler {
    /// Wraps a built-in policy.
    pub(crate) fn built_in(policy: Box<dyn Policy>) -> Self {
        Self { policy, own: None, dismissed: None }
    }

    /// Wraps a user-defined policy.
    pub(crate) fn own(policy: Box<dyn Policy>) -> Self {
        let own = Own { name: policy.name(), runtime: 0, failures: Arc::default(), breach: None };
        Self { policy, own: Some(own), dismissed: None }
    }

    /// Returns the name of the policy.
    pub(super) fn name(&self) -> &'static str {
        self.policy.name()
    }

    /// Calls [`Policy::collect_decisions`].
    pub(super) fn collect_decisions(&mut self) {
        self.call(format_args!("it was asked to collect decisions"), |policy| policy.collect_decisions());
    }

    /// Calls [`Policy::take_decisions`].
    pub(super) fn take_decisions(&mut self) -> Vec<Decision> {
        self.call(format_args!("it was asked for its decisions"), |policy| policy.take_decisions()).unwrap_or_default()
    }

    /// Calls [`Policy::estimate`].
    pub(super) fn estimate(&self, task: TaskId, unit: UnitId) -> Option<Estimate> {
        self.look(|policy| Some(policy.estimate(task, unit)))
    }

    /// Returns whether the policy's answers have to be checked.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Calls [`Policy::fast_path`].
    pub(crate) fn fast_path(&self) -> bool {
        self.policy.fast_path()
    }

    /// Calls [`Policy::ready`].
    pub(super) fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        if !self.is_own() {
            return self.policy.ready(task, view);
        }
        let (id, name) = (task.id, task.name.clone());
        self.call(format_args!("it was notified that {id} `{name}` is ready"), |policy| policy.ready(task, view));
    }

    /// Calls [`Policy::next`].
    pub(super) fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.call(format_args!("it was asked for a task for {unit}"), |policy| policy.next(unit, view)).flatten()
    }

    /// Calls [`Policy::wanted`].
    pub(super) fn wanted(&self) -> Option<UnitSet> {
        self.look(|policy| policy.wanted())
    }

    /// Calls [`Policy::in_flight`].
    pub(super) fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        self.call(format_args!("it was notified how many tasks {unit} has"), |policy| policy.in_flight(unit, tasks));
    }

    /// Calls [`Policy::finished`].
    pub(super) fn finished(&mut self, sample: &Sample) {
        let Sample { task, name, .. } = sample;
        self.call(format_args!("it was notified that {task} `{name}` has run"), |policy| policy.finished(sample));
    }

    /// Calls [`Policy::failed`].
    pub(super) fn failed(&mut self, sample: &Sample) {
        let Sample { task, name, .. } = sample;
        self.call(format_args!("it was notified that {task} `{name}` has failed"), |policy| policy.failed(sample));
    }

    /// Calls [`Policy::looks_ahead`].
    pub(super) fn looks_ahead(&self) -> bool {
        self.look(|policy| policy.looks_ahead().then_some(())).is_some()
    }

    /// Calls [`Policy::submitted`].
    pub(super) fn submitted(&mut self, task: &SubmittedTask<'_>) {
        let SubmittedTask { id, name, .. } = task;
        self.call(format_args!("it was notified that {id} `{name}` was submitted"), |policy| policy.submitted(task));
    }

    /// Calls [`Policy::skipped`].
    pub(super) fn skipped(&mut self, task: TaskId) {
        self.call(format_args!("it was notified that {task} was skipped"), |policy| policy.skipped(task));
    }

    /// Calls [`Policy::copied`].
    pub(super) fn copied(&mut self, copy: &CopySample) {
        self.call(format_args!("it was notified of a copy to {}", copy.to), |policy| policy.copied(copy));
    }

    /// Calls [`Policy::data_moved`].
    pub(super) fn data_moved(&mut self) {
        self.call(format_args!("it was notified that data have moved"), |policy| policy.data_moved());
    }

    /// Returns the policy's answer to a question that does not change its state; `None` if a user's policy panics.
    pub(super) fn look<'a, R>(&'a self, question: impl FnOnce(&'a dyn Policy) -> Option<R>) -> Option<R> {
        match &self.own {
            None => question(&*self.policy),
            Some(own) => asked(own.runtime, || question(&*self.policy)).ok().flatten(),
        }
    }

    /// Sets the runtime's ID and the log to which a breach is reported.
    pub(super) fn belongs_to(&mut self, runtime: u64, failures: &Arc<FailureLog>) {
        if let Some(own) = &mut self.own {
            (own.runtime, own.failures) = (runtime, failures.clone());
        }
    }

    /// If the policy has broken its contract, replaces it with `stealing`. Returns whether it was replaced.
    pub(super) fn dismiss(&mut self, units: usize) -> bool {
        let Some(own) = self.own.take_if(|own| own.breach.is_some()) else { return false };
        let Some(Breach { task, problem, remedy }) = own.breach else { return false };
        let (id, task, location) = task.unwrap_or_else(|| (NO_TASK, own.name.to_owned(), CallSite::caller()));
        let reason = FailureReason::Policy { policy: own.name, problem: format!("{problem}; try {remedy}") };
        own.failures.push(Arc::new(TaskFailure::new(id, &task, location, reason)));
        let stealing: Box<dyn Policy> = Box::new(Stealing::new(units));
        self.dismissed = Some(std::mem::replace(&mut self.policy, stealing));
        true
    }

    /// Records a breach. From now on the policy is not called.
    pub(super) fn breaks(&mut self, breach: Breach) {
        match &mut self.own {
            Some(own) => _ = own.breach.get_or_insert(breach),
            None => debug_assert!(false, "`{}`: {}", self.policy.name(), breach.problem),
        }
    }

    /// Calls the policy unless it has broken its contract.
    fn call<R>(&mut self, when: fmt::Arguments<'_>, call: impl FnOnce(&mut dyn Policy) -> R) -> Option<R> {
        let Some(own) = &mut self.own else { return Some(call(&mut *self.policy)) };
        if own.breach.is_some() {
            return None;
        }
        let answer = asked(own.runtime, || call(&mut *self.policy));
        let breach = |message| Breach {
            task: None,
            problem: format!("it panicked when {when}: {message}"),
            remedy: "a policy that handles every call",
        };
        answer.map_err(|message| own.breach = Some(breach(message))).ok()
    }
}

impl Drop for Scheduler {
    /// The destructor of a user-defined policy may panic, which must not prevent the runtime from ending.
    fn drop(&mut self) {
        if self.own.is_none() && self.dismissed.is_none() {
            return;
        }
        let policy = std::mem::replace(&mut self.policy, Box::new(Stealing::new(0)));
        drop_quietly(|| drop(policy));
        drop_quietly(|| drop(self.dismissed.take()));
    }
}

/// Calls a user-defined policy. If the policy panics, `Err` contains the panic message.
fn asked<R>(runtime: u64, call: impl FnOnce() -> R) -> Result<R, String> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = ASKED.try_with(|asked| asked.borrow_mut().pop());
        }
    }
    let _ = ASKED.try_with(|asked| asked.borrow_mut().push(runtime));
    let _leave = Leave;
    let call = || catch_unwind(AssertUnwindSafe(call)).map_err(FailureReason::from_panic);
    running::inside(runtime, call).map_err(|reason| match reason {
        FailureReason::Panicked(message) => message,
        reason => reason.to_string(),
    })
}
