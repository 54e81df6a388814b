//! Where tasks go: to the runtime at once, or into a recording, to be replayed. A step is described once for both.

use std::borrow::Cow;

use thalweg::kernel::Launcher;
use thalweg::memory::AccessList;
use thalweg::prelude::*;
use thalweg::task::Accesses;

/// Who takes tasks with a body for cores and one for accelerators.
pub(crate) trait Front {
    /// Submits or records a task that is so much work.
    #[track_caller]
    fn task<A, C, G>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        cost: Option<f64>,
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
            + 'static;

    /// Submits or records a task for cores alone.
    #[track_caller]
    fn on_cores<A, C>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        cost: f64,
        cpu: C,
    ) -> Result<(), SubmitError>
    where
        A: Accesses,
        C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static;
}

macro_rules! front {
    ($who:ty) => {
        impl Front for $who {
            #[track_caller]
            fn task<A, C, G>(
                &self,
                name: impl Into<Cow<'static, str>>,
                accesses: A,
                cost: Option<f64>,
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
                let mut task = self.task(name, accesses).cpu(cpu).gpu(gpu);
                if let Some(cost) = cost {
                    task = task.cost(cost);
                }
                task.submit().map(drop)
            }

            #[track_caller]
            fn on_cores<A, C>(
                &self,
                name: impl Into<Cow<'static, str>>,
                accesses: A,
                cost: f64,
                cpu: C,
            ) -> Result<(), SubmitError>
            where
                A: Accesses,
                C: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
            {
                self.task(name, accesses).cpu(cpu).cost(cost).submit().map(drop)
            }
        }
    };
}

front!(Runtime);
front!(Recorder<'_>);
