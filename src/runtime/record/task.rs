//! Builder methods for tasks and loops that are recorded.
//!
//! The bodies of a recorded task are called once in each replay, so they are `Fn`. In other respects, a recorded task
//! is described like a task that is submitted.

use super::super::bodies::Bodies;
use super::super::for_each::{LoopBody, LoopBuilder, count};
use super::super::group::Ungrouped;
use super::super::hints::Hints;
use super::super::submit::TaskBuilder;
use super::Recorder;
use super::step::{RecordedBody, RecordedTask};
use crate::Context;
use crate::depend::Kinds;
use crate::error::{Called, SubmitError};
use crate::memory::{AccessList, Common, IntoOutcome, NoBody, Share, SharedDeviceBody, SharedHostBody, Span};
use crate::sealed::{INTERNAL, Sealed};
use crate::sync::CallSite;
use crate::task::{Accesses, AnyParameter, LoopAccesses};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The recorder of a task that is being recorded, and the task's bodies for devices.
#[doc(hidden)]
pub struct Recorded<'r, S: AccessList> {
    recorder: &'r Recorder<'r>,
    pub(in super::super) bodies: Bodies<S>,
}

impl<'r, S: AccessList> Recorded<'r, S> {
    pub(super) fn by(recorder: &'r Recorder<'r>) -> Self {
        Self { recorder, bodies: Bodies::default() }
    }
}

impl<S: AccessList> fmt::Debug for Recorded<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded(..)")
    }
}

impl<S: AccessList> Sealed for Recorded<'_, S> {}
impl<S: AccessList> Ungrouped for Recorded<'_, S> {}
impl Sealed for &Recorder<'_> {}
impl Ungrouped for &Recorder<'_> {}

/// A loop that is being recorded keeps a reference to its recorder. Its bodies last as long as the recording.
impl Share<'static> for &Recorder<'_> {
    fn share_host<A: AccessList>(self, body: Common<SharedHostBody<'static, A>>) -> Common<SharedHostBody<'static, A>> {
        body
    }

    fn share_device<A: AccessList>(
        self,
        body: Common<SharedDeviceBody<'static, A>>,
    ) -> Common<SharedDeviceBody<'static, A>> {
        body
    }
}

/// Everything that describes a recorded task except its name, its accesses and its body for CPU units.
pub(super) struct About<S: AccessList> {
    pub(super) host_only: bool,
    pub(super) hints: Hints,
    pub(super) bodies: Bodies<S>,
}

impl<'r, A: Accesses> TaskBuilder<'r, A, NoBody, Recorded<'r, A::Stored>> {
    /// Sets the body for CPU units and emulated devices, like [`TaskBuilder::cpu`]; it is called in each replay.
    pub fn cpu<F, R>(self, body: F) -> TaskBuilder<'r, A, LoopBody<Arc<F>, R>, Recorded<'r, A::Stored>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        TaskBuilder { kinds: self.kinds.and(Kinds::CPU).and(Kinds::EMULATED), host_only: false, ..self.host(body) }
    }

    /// Like [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(self, body: F) -> TaskBuilder<'r, A, LoopBody<Arc<F>, R>, Recorded<'r, A::Stored>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        self.for_cores(|NoBody| LoopBody(Arc::new(body), PhantomData))
    }
}

#[allow(private_bounds)] // `NoBody`, and the results of `cpu` and `host`
impl<A, C> TaskBuilder<'_, A, C, Recorded<'_, A::Stored>>
where
    A: Accesses,
    C: RecordedBody<A::Stored>,
{
    /// Records the task: each replay submits it after the tasks that were recorded before it.
    ///
    /// # Errors
    /// As for the submission of a task. Also fails if the task uses the result of a task
    /// ([`SubmitError::RecordedResult`]), which exists only once, or a parameter of another recording.
    #[track_caller]
    pub fn submit(self) -> Result<(), SubmitError> {
        let Self { keep: Recorded { recorder, bodies }, name, accesses, cpu, host_only, hints, .. } = self;
        let location = hints.call_site.unwrap_or(CallSite::caller());
        let about = About { host_only, hints, bodies };
        recorder.enter(name, location, &accesses, cpu, about).called_at(location)
    }
}

#[allow(private_bounds)] // `NoBody`, and the results of `cpu` and `host`
impl<A, C> LoopBuilder<'_, A, C, &Recorder<'_>>
where
    A: LoopAccesses,
    C: IterationBody<A::Stored>,
{
    /// Records a task for each iteration, in order, and returns the number of tasks.
    ///
    /// # Errors
    /// As for the submission of a loop, and as for the recording of a task.
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        let Self { keep: recorder, cpu, rest, .. } = self;
        let iterations = count(&rest.name, &rest.accesses, recorder.door.id).called_here()?;
        let (location, body) = (CallSite::caller(), cpu.shared());
        for index in 0..iterations {
            let about = About { host_only: rest.host_only, hints: rest.hints(index), bodies: rest.bodies.clone() };
            let (name, accesses) = (rest.name.clone(), rest.accesses.one(index));
            recorder.enter(name, location, &accesses, body.again(), about).called_here()?;
        }
        Ok(iterations)
    }
}

/// A loop's body for CPU units, or the absence of one.
trait IterationBody<S: AccessList> {
    type Shared: RecordedBody<S>;

    /// Returns the same body, for any number of iterations.
    fn shared(self) -> Self::Shared;
}

impl<S: AccessList> IterationBody<S> for NoBody {
    type Shared = Self;

    fn shared(self) -> Self {
        self
    }
}

impl<S, F, R> IterationBody<S> for LoopBody<F, R>
where
    S: AccessList,
    F: for<'c, 'a> Fn(&'c Context, S::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    type Shared = LoopBody<Arc<F>, R>;

    fn shared(self) -> Self::Shared {
        LoopBody(Arc::new(self.0), PhantomData)
    }
}

impl Recorder<'_> {
    /// Adds a task.
    fn enter<A, B>(
        &self,
        name: Cow<'static, str>,
        location: CallSite,
        accesses: &A,
        body: B,
        about: About<A::Stored>,
    ) -> Result<(), SubmitError>
    where
        A: Accesses,
        B: RecordedBody<A::Stored>,
    {
        accesses.check(self.door.id).map_err(|refusal| refusal.of_task(&name))?;
        if A::HAS_RESULTS {
            return Err(SubmitError::RecordedResult { task: name.into() });
        }
        if A::HAS_OUTCOMES {
            return Err(SubmitError::RecordedOutcome { task: name.into() });
        }
        let mut foreign = None;
        accesses.parameters(&mut |AnyParameter(parameter)| {
            if parameter.recording() != self.id {
                foreign = Some(parameter.name().to_owned());
            }
        });
        if let Some(parameter) = foreign {
            let problem = format!("task `{name}` reads it, but it belongs to another recording");
            return Err(SubmitError::Parameter { parameter, problem });
        }
        let (regions, stored) = (RecordedTask::<_, B>::regions_of(accesses), accesses.store(INTERNAL));
        let task = RecordedTask { name, location, stored, regions, body, about, span: Span::Once };
        task.check_all(self.door)?;
        self.steps.borrow_mut().push(Box::new(task));
        Ok(())
    }
}
