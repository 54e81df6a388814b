//! A task's accesses and bodies side by side, with their types: what the engine runs as a [`Body`].

use super::{Access, AccessList};
use crate::depend::{AccessRecord, Body, Context, Env, Kinds};
use crate::error::BoxError;
use crate::kernel::{DeviceSite, Launcher};
use crate::machine::UnitKind;
use crate::region::Block;
use crate::sealed::Sealed;
use std::cell::Cell;
use std::marker::PhantomData;

/// What a body may return: nothing, or a result; a body that does not return at all, as one with `todo!()`, is one too.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1.0);
/// rt.task("later", (x.inout(),)).cpu(|_, (_x,)| todo!("yet to be written")).submit()?;
/// assert!(rt.wait().unwrap_err().to_string().contains("yet to be written"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IntoOutcome {
    /// The failure, if it is one.
    fn into_outcome(self) -> Result<(), BoxError>;
}

impl IntoOutcome for () {
    #[inline]
    fn into_outcome(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

/// Gives the type `!`, which cannot be named otherwise yet: what type inference finds for a closure that does not return.
#[allow(unreachable_pub)] // a public implementation is spelled with it
pub trait Returning {
    /// What is returned.
    type Output;
}

impl<R> Returning for fn() -> R {
    type Output = R;
}

impl IntoOutcome for <fn() -> ! as Returning>::Output {
    fn into_outcome(self) -> Result<(), BoxError> {
        self
    }
}

/// A place for a body: [`NoBody`], or a closure in [`With`].
pub trait Slot<A: AccessList>: Sealed + Send + 'static {
    /// Whether there is a body here.
    const PRESENT: bool;

    /// Runs the body.
    #[doc(hidden)]
    fn call(self, context: &Context, views: A::Views<'_>) -> Result<(), BoxError>;
}

/// No body for this kind of unit.
#[derive(Debug)]
pub struct NoBody;

impl Sealed for NoBody {}

impl<A: AccessList> Slot<A> for NoBody {
    const PRESENT: bool = false;

    fn call(self, _: &Context, _: A::Views<'_>) -> Result<(), BoxError> {
        unreachable!("tasks are placed only on units that they have a body for")
    }
}

/// A closure as a body.
pub struct With<F, R>(pub(crate) F, pub(crate) PhantomData<fn() -> R>);

impl<F, R> Sealed for With<F, R> {}

impl<A, F, R> Slot<A> for With<F, R>
where
    A: AccessList,
    F: for<'c, 'a> FnOnce(&'c Context, A::Views<'a>) -> R + Send + 'static,
    R: IntoOutcome + 'static,
{
    const PRESENT: bool = true;

    #[inline]
    fn call(self, context: &Context, views: A::Views<'_>) -> Result<(), BoxError> {
        (self.0)(context, views).into_outcome()
    }
}

/// A place for a body that enqueues kernels: [`NoBody`], or a closure in [`With`].
pub trait DeviceSlot<A: AccessList>: Sealed + Send + 'static {
    /// Whether there is a body here.
    const PRESENT: bool;

    /// Runs the body.
    #[doc(hidden)]
    fn call(self, launcher: &mut Launcher<'_>, views: A::DeviceViews<'_>) -> Result<(), BoxError>;
}

impl<A: AccessList> DeviceSlot<A> for NoBody {
    const PRESENT: bool = false;

    fn call(self, _: &mut Launcher<'_>, _: A::DeviceViews<'_>) -> Result<(), BoxError> {
        unreachable!("tasks are placed only on units that they have a body for")
    }
}

impl<A, F, R> DeviceSlot<A> for With<F, R>
where
    A: AccessList,
    F: for<'l, 'd, 'a> FnOnce(&'l mut Launcher<'d>, A::DeviceViews<'a>) -> R + Send + 'static,
    R: IntoOutcome + 'static,
{
    const PRESENT: bool = true;

    fn call(self, launcher: &mut Launcher<'_>, views: A::DeviceViews<'_>) -> Result<(), BoxError> {
        (self.0)(launcher, views).into_outcome()
    }
}

/// The body of one of the runtime's own tasks: one access, no context.
pub(crate) struct Sole<F>(pub(crate) F);

impl<F> Sealed for Sole<F> {}

impl<A, F> Slot<(A,)> for Sole<F>
where
    A: Access,
    F: for<'a> FnOnce(A::View<'a>) + Send + 'static,
{
    const PRESENT: bool = true;

    fn call(self, _: &Context, (view,): (A::View<'_>,)) -> Result<(), BoxError> {
        (self.0)(view);
        Ok(())
    }
}

/// The typed content of a task.
pub(crate) struct Payload<A, C, E, G> {
    pub(crate) accesses: A,
    /// For CPU units, and for emulated devices unless `host_only`.
    pub(crate) cpu: Cell<Option<C>>,
    /// For emulated devices; preferred there.
    pub(crate) emulated: Cell<Option<E>>,
    /// For accelerators.
    pub(crate) gpu: Cell<Option<G>>,
    pub(crate) host_only: bool,
}

impl<A, C, E, G> Payload<A, C, E, G> {
    /// Accesses and bodies side by side.
    #[inline]
    pub(crate) fn new(accesses: A, cpu: C, emulated: E, gpu: G, host_only: bool) -> Self {
        Self {
            accesses,
            cpu: Cell::new(Some(cpu)),
            emulated: Cell::new(Some(emulated)),
            gpu: Cell::new(Some(gpu)),
            host_only,
        }
    }
}

impl<A: AccessList, C: Slot<A>, E: Slot<A>, G: DeviceSlot<A>> Body for Payload<A, C, E, G> {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.accesses.visit(&mut |record| visit(record.0));
    }

    #[inline]
    fn run(&self, env: &Env<'_>) -> Result<(), BoxError> {
        // SAFETY: the engine runs a body once, when its dependences are satisfied and its regions lie where `env` says.
        let views = unsafe { self.accesses.views(env.sites) };
        if G::PRESENT {
            drop(self.gpu.take());
        }
        if E::PRESENT && env.context.kind == UnitKind::Emulated {
            drop(self.cpu.take());
            return self.emulated.take().expect("a body runs once").call(env.context, views);
        }
        if E::PRESENT {
            drop(self.emulated.take());
        }
        self.cpu.take().expect("a body runs once").call(env.context, views)
    }

    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError> {
        drop((self.cpu.take(), self.emulated.take()));
        let views = self.accesses.device_views(sites);
        self.gpu.take().expect("a body runs once").call(launcher, views)
    }

    fn discard(&self) {
        drop((self.cpu.take(), self.emulated.take(), self.gpu.take()));
    }

    fn private(&self, access: usize) -> Option<(*mut u8, usize)> {
        // SAFETY: the engine asks for it before it enqueues the body, and for no other reason.
        unsafe { self.accesses.private(access) }
    }

    fn combine(&self, access: usize, block: &Block) {
        // SAFETY: the engine combines what a body has left when that has ended, in its turn.
        unsafe { self.accesses.combine(access, block) }
    }

    fn replica(&self, access: usize) -> Option<(&[u8], Block)> {
        // SAFETY: as above.
        unsafe { self.accesses.replica(access) }
    }

    fn absorb(&self, access: usize, block: &Block, other: (&[u8], Block)) {
        // SAFETY: as above; the other replica is another task's.
        unsafe { self.accesses.absorb(access, block, other) }
    }

    fn retire(&self, access: usize) {
        // SAFETY: as above.
        unsafe { self.accesses.retire(access) }
    }

    fn kinds(&self) -> Kinds {
        Kinds::of(C::PRESENT, E::PRESENT || (C::PRESENT && !self.host_only), G::PRESENT)
    }
}
