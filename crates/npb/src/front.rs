//! Common interface for submitting tasks immediately and for recording them for replay, so that each step is
//! described only once. `thalweg-mpi` implements it for clusters.
//!
//! `npb-cg` also includes this file.

#![allow(dead_code, unreachable_pub)] // each of the two crates uses, and shows, only part of this file

use std::borrow::Cow;

use thalweg::kernel::Launcher;
use thalweg::memory::{AccessList, IntoOutcome};
use thalweg::prelude::*;
use thalweg::task::{Accesses, IterationSpace};

/// Scheduling hints for a task, in addition to its accesses and bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// The task's work, in any unit as long as all tasks use the same one.
    pub cost: Option<f64>,
    /// The task's position in an iteration space.
    pub place: Option<Place<'a>>,
}

impl Hints<'_> {
    /// Creates hints that only state the task's work.
    pub(crate) fn cost(cost: f64) -> Self {
        Self { cost: Some(cost), place: None }
    }
}

/// A task's position relative to an iteration space.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// The task computes this index of the space.
    At(&'a IterationSpace, usize),
    /// The task runs on the unit that owns this index, and is not itself distributed.
    Beside(&'a IterationSpace, usize),
}

/// A destination for tasks: the runtime, a recorder, or the ranks of a cluster.
pub trait Front {
    /// The reason why a task is refused.
    type Error: std::error::Error + 'static;

    /// Begins the next instance of an iteration space.
    fn begin(&self, space: &IterationSpace);

    /// Submits or records a task with one body for cores and another for accelerators.
    #[track_caller]
    fn task<A, C, G>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        hints: Hints<'_>,
        cpu: C,
        gpu: G,
    ) -> Result<(), Self::Error>
    where
        A: Accesses,
        C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
        G: for<'l, 'd, 'a> Fn(
                &'l mut Launcher<'d>,
                <A::Stored as AccessList>::DeviceViews<'a>,
            ) -> Result<(), DeviceError>
            + Send
            + Sync
            + 'static;

    /// Submits or records a task with a body for cores only.
    #[track_caller]
    fn on_cores<A, C>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        hints: Hints<'_>,
        cpu: C,
    ) -> Result<(), Self::Error>
    where
        A: Accesses,
        C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static;

    /// Submits or records a task whose body submits children.
    #[track_caller]
    fn parent<A, C, R>(&self, name: impl Into<Cow<'static, str>>, accesses: A, body: C) -> Result<(), Self::Error>
    where
        A: Accesses,
        R: IntoOutcome + 'static,
        C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static;
}

/// Submits a task with hints.
macro_rules! hinted {
    ($task:expr, $hints:expr) => {{
        let mut task = $task;
        if let Some(cost) = $hints.cost {
            task = task.cost(cost);
        }
        task = match $hints.place {
            Some(Place::At(space, index)) => task.at(space, index),
            Some(Place::Beside(space, index)) => task.near(space, index),
            None => task,
        };
        task.submit().map(drop)
    }};
}

macro_rules! front {
    ($who:ty, |$front:ident, $space:ident| $begin:expr) => {
        impl Front for $who {
            type Error = SubmitError;

            fn begin(&self, $space: &IterationSpace) {
                let $front = self;
                $begin;
            }

            #[track_caller]
            fn task<A, C, G>(
                &self,
                name: impl Into<Cow<'static, str>>,
                accesses: A,
                hints: Hints<'_>,
                cpu: C,
                gpu: G,
            ) -> Result<(), SubmitError>
            where
                A: Accesses,
                C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
                G: for<'l, 'd, 'a> Fn(
                        &'l mut Launcher<'d>,
                        <A::Stored as AccessList>::DeviceViews<'a>,
                    ) -> Result<(), DeviceError>
                    + Send
                    + Sync
                    + 'static,
            {
                hinted!(self.task(name, accesses).cpu(cpu).gpu(gpu), hints)
            }

            #[track_caller]
            fn on_cores<A, C>(
                &self,
                name: impl Into<Cow<'static, str>>,
                accesses: A,
                hints: Hints<'_>,
                cpu: C,
            ) -> Result<(), SubmitError>
            where
                A: Accesses,
                C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
            {
                hinted!(self.task(name, accesses).cpu(cpu), hints)
            }

            #[track_caller]
            fn parent<A, C, R>(
                &self,
                name: impl Into<Cow<'static, str>>,
                accesses: A,
                body: C,
            ) -> Result<(), SubmitError>
            where
                A: Accesses,
                R: IntoOutcome + 'static,
                C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
            {
                self.task(name, accesses).host(body).submit().map(drop)
            }
        }
    };
}

front!(Runtime, |_front, space| space.begin());
front!(Recorder<'_>, |front, space| front.begin(space));
