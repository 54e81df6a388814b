//! The bodies of a recorded task that stays from replay to replay. They are called in each replay, on the same
//! accesses.

use super::access::Home;
use super::access_list::{DeviceSites, Sites};
use super::combine::OnDevices;
use super::payload::passed_on;
use super::{AccessList, IntoOutcome};
use crate::depend::{AccessRecord, Body, Context, Env, Kinds, Site, Stop};
use crate::error::BoxError;
use crate::ids::Iteration;
use crate::kernel::{Combination, DeviceSite, Launcher};
use crate::region::Block;
use std::marker::PhantomData;
use std::sync::Arc;

/// A body for accelerators that all replays share.
pub(crate) type ForDevices<A> = super::SharedDeviceBody<'static, A>;

/// Accesses and bodies of a task. The bodies are shared, because other replays use them too.
pub(crate) struct Staying<A: AccessList, F, R> {
    accesses: A,
    /// The body for CPU units; `None` if there is none.
    body: Option<Arc<F>>,
    for_devices: Option<ForDevices<A>>,
    iteration: Iteration,
    returned: PhantomData<fn() -> R>,
}

impl<A: AccessList, F, R> Staying<A, F, R> {
    pub(crate) fn new(
        accesses: A,
        body: Option<Arc<F>>,
        for_devices: Option<ForDevices<A>>,
        iteration: Iteration,
    ) -> Self {
        Self { accesses, body, for_devices, iteration, returned: PhantomData }
    }
}

// SAFETY: `accesses` calls `Access::visit`, which reads the declared region and the mode of each access. Both are set
// when the access is made, and nothing changes them. There is neither a group nor a place at which the body stands.
unsafe impl<A, F, R> Body for Staying<A, F, R>
where
    A: AccessList,
    F: for<'c, 'a> Fn(&'c Context, A::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    passed_on!();

    #[inline]
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>> {
        // SAFETY: the engine runs a body once its dependences are satisfied, and its regions are where `env` says. The
        // payload belongs to its owner alone, and the views of the previous round are gone.
        let views = unsafe { self.accesses.views(&mut Sites::new(env.sites)) };
        let body = self.body.as_ref().expect("a task runs only on units that it has a body for");
        body(env.context, views).into_outcome().map_err(|error| Box::new(Stop::Failed(error)))?;
        // SAFETY: the body has ended.
        unsafe { self.accesses.keep() };
        Ok(())
    }

    fn home(&self, access: usize) -> Option<Site> {
        self.accesses.at(access).home().map(|Home(site)| site)
    }

    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError> {
        let body = self.for_devices.as_ref().expect("a task is enqueued only on units that it has a body for");
        body(launcher, self.accesses.device_views(&mut DeviceSites::new(sites)))
    }

    fn discard(&self) {} // the next replay may run the body

    fn kinds(&self) -> Kinds {
        Kinds::CPU
    }
}
