//! The typed payload of a task, which contains its accesses and bodies and which the engine runs as a [`Body`].

use super::access::{Group, Home};
use super::access_list::{DeviceSites, Sites};
use super::combine::OnDevices;
use super::outcome::Probe;
use super::{Access, AccessList, LentOut};
use crate::depend::{AccessRecord, Accumulation, Body, Context, Detachment, Env, Kinds, Site, Stop, TaskRef};
use crate::error::{BoxError, TaskFailure};
use crate::ids::Iteration;
use crate::kernel::{Combination, DeviceSite, Launcher};
use crate::machine::UnitKind;
use crate::region::Block;
use crate::sealed::Sealed;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Return types of bodies: `()`, a `Result`, or `!` for a body that does not return, such as one with `todo!()`.
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
    /// Returns the error, if the body failed.
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

/// Names the type `!`, which cannot yet be named directly, and which type inference finds for a closure that does not
/// return.
#[allow(unreachable_pub)] // a public implementation is spelled with it
pub trait Returning {
    /// The return type.
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

/// The bodies that are stored in a task: [`NoBody`], a closure in [`With`], or `Several` bodies.
pub trait Slot<A: AccessList>: Sealed + Send + 'static {
    /// Whether there is a body for CPU units.
    const PRESENT: bool;

    /// Runs the body that fits the unit.
    #[doc(hidden)]
    fn call(self, context: &Context, views: A::Views<'_>) -> Result<(), BoxError>;

    /// Takes the body out of its task and runs it on these accesses. If the task continues without its body, it keeps
    /// the state that it needs in `bodies`.
    ///
    /// # Safety
    /// The engine has satisfied the task's dependences, and the task's regions are at the given sites.
    #[doc(hidden)]
    #[inline]
    unsafe fn run(bodies: &Cell<Option<Self>>, accesses: &A, at: BodyEnv<'_>) -> Result<(), Stopped>
    where
        Self: Sized,
    {
        let BodyEnv(Env { context, sites }) = at;
        // SAFETY: the caller upholds the same contract, and the views are made only once because the body is taken.
        let views = unsafe { accesses.views(&mut Sites::new(*sites)) };
        bodies.take().expect("a body runs once").call(context, views).map_err(Stopped::failed)?;
        // SAFETY: the body has ended.
        unsafe { accesses.keep() };
        Ok(())
    }

    /// Returns whether the body has run and the task continues without it.
    #[doc(hidden)]
    fn has_begun(_bodies: &Cell<Option<Self>>) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Returns whether the body exports its regions from the host copies, so that it finds them by no site.
    #[doc(hidden)]
    fn lends(_bodies: &Cell<Option<Self>>) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Runs the body for accelerators.
    #[doc(hidden)]
    fn enqueue(self, launcher: &mut Launcher<'_>, views: A::DeviceViews<'_>) -> Result<(), BoxError>
    where
        Self: Sized,
    {
        let _ = (launcher, views);
        unreachable!("tasks are placed only on units that they have a body for")
    }
}

/// The environment in which a body runs, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug)]
pub struct BodyEnv<'a>(pub(crate) &'a Env<'a>);

/// The reason why a body that has returned has not completed its task, wrapped so that the public trait can mention
/// it.
#[doc(hidden)]
pub struct Stopped(pub(crate) Box<Stop>);

impl Stopped {
    #[cold]
    pub(super) fn failed(error: BoxError) -> Self {
        Self(Box::new(Stop::Failed(error)))
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopped(..)")
    }
}

/// The absence of a body for CPU units.
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

impl<F, R> fmt::Debug for With<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("With(..)")
    }
}

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

/// The body of an internal task, which has a single access and takes no context.
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

/// A type-erased body, in the cell from which it is taken.
pub(crate) trait HostBody<A: AccessList>: Send {
    /// # Safety
    /// As for [`Slot::run`].
    unsafe fn run(&self, accesses: &A, at: BodyEnv<'_>) -> Result<(), Stopped>;

    fn has_begun(&self) -> bool;

    fn lends(&self) -> bool;
}

impl<A: AccessList, B: Slot<A>> HostBody<A> for Cell<Option<B>> {
    unsafe fn run(&self, accesses: &A, at: BodyEnv<'_>) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the same contract.
        unsafe { B::run(self, accesses, at) }
    }

    fn has_begun(&self) -> bool {
        B::has_begun(self)
    }

    fn lends(&self) -> bool {
        B::lends(self)
    }
}

/// A body that enqueues kernels.
pub(crate) type DeviceBody<'b, A> = Box<
    dyn for<'l, 'd, 'v> FnOnce(&'l mut Launcher<'d>, <A as AccessList>::DeviceViews<'v>) -> Result<(), BoxError>
        + Send
        + 'b,
>;

/// Bodies for several kinds of unit. The task runs one of them.
///
/// Each body is boxed so that the task's type does not depend on which bodies exist, which a program may decide at run
/// time. A task with only a body for CPU units may be short, so it is stored without boxes.
pub(crate) struct Several<A: AccessList> {
    /// The body for CPU units, and also for emulated devices if there is no body for those.
    pub(crate) cpu: Option<Box<dyn HostBody<A>>>,
    /// The body for emulated devices.
    pub(crate) emulated: Option<Box<dyn HostBody<A>>>,
    /// The body for accelerators.
    pub(crate) gpu: Option<DeviceBody<'static, A>>,
    /// Bodies for accelerators of a single interface, each with the kind of that interface's units.
    pub(crate) own: Vec<(UnitKind, DeviceBody<'static, A>)>,
}

impl<A: AccessList> Default for Several<A> {
    fn default() -> Self {
        Self { cpu: None, emulated: None, gpu: None, own: Vec::new() }
    }
}

impl<A: AccessList> Sealed for Box<Several<A>> {}

impl<A: AccessList> Slot<A> for Box<Several<A>> {
    const PRESENT: bool = true;

    fn call(self, _: &Context, _: A::Views<'_>) -> Result<(), BoxError> {
        unreachable!("several bodies are run by `run`, in their box")
    }

    unsafe fn run(bodies: &Cell<Option<Self>>, accesses: &A, at: BodyEnv<'_>) -> Result<(), Stopped> {
        let mut several = bodies.take().expect("a body runs once");
        drop((several.gpu.take(), std::mem::take(&mut several.own)));
        let own = several.emulated.take().filter(|_| at.0.context.kind == UnitKind::Emulated);
        let body = own.or(several.cpu.take()).expect("tasks are placed only on units that they have a body for");
        // SAFETY: the caller upholds the same contract.
        let ran = unsafe { body.run(accesses, at) };
        if body.has_begun() {
            several.cpu = Some(body);
            bodies.set(Some(several));
        }
        ran
    }

    fn has_begun(bodies: &Cell<Option<Self>>) -> bool {
        let several = bodies.take();
        let begun = several.as_ref().and_then(|several| several.cpu.as_ref()).is_some_and(|cpu| cpu.has_begun());
        bodies.set(several);
        begun
    }

    fn lends(bodies: &Cell<Option<Self>>) -> bool {
        let several = bodies.take();
        let lends = several.as_ref().and_then(|several| several.cpu.as_ref()).is_some_and(|cpu| cpu.lends());
        bodies.set(several);
        lends
    }

    fn enqueue(self, launcher: &mut Launcher<'_>, views: A::DeviceViews<'_>) -> Result<(), BoxError> {
        let Several { cpu, emulated, gpu, mut own } = *self;
        drop((cpu, emulated));
        let interface = launcher.interface();
        let own = own.iter().position(|(kind, _)| *kind == interface).map(|n| own.swap_remove(n).1);
        let body = own.or(gpu).expect("tasks are placed only on units that they have a body for");
        body(launcher, views)
    }
}

/// The typed content of a task.
pub(crate) struct Payload<A, B> {
    accesses: A,
    bodies: Cell<Option<B>>,
    kinds: Kinds,
    iteration: Iteration,
}

impl<A, B> Payload<A, B> {
    /// Combines accesses and bodies, for units of these kinds.
    #[inline]
    pub(crate) fn new(accesses: A, bodies: B, kinds: Kinds) -> Self {
        Self { accesses, bodies: Cell::new(Some(bodies)), kinds, iteration: Iteration::NONE }
    }

    /// Marks the payload as an iteration of a loop.
    #[inline]
    pub(crate) fn of_iteration(self, iteration: Iteration) -> Self {
        Self { iteration, ..self }
    }
}

impl<A: Access, F> Payload<(A,), Sole<F>> {
    /// Makes an internal task that runs only on the host.
    pub(crate) fn sole(access: A, body: F) -> Self {
        Self::new((access,), Sole(body), Kinds::CPU)
    }
}

impl<A: Access> Payload<(A,), LentOut> {
    /// Makes an internal task that lends out the region that it accesses.
    pub(crate) fn lent(access: A, detachment: Arc<Detachment>) -> Self {
        Self::new((access,), LentOut(detachment), Kinds::CPU)
    }
}

/// Makes an internal task that accesses nothing and does nothing.
pub(crate) fn nothing() -> Payload<(), impl Slot<()>> {
    Payload::new((), With(|_: &Context, ()| (), PhantomData), Kinds::CPU)
}

/// Defines the methods of [`Body`] that a type with the fields `accesses` and `iteration` passes on to them.
macro_rules! passed_on {
    () => {
        fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
            self.accesses.visit(&mut |record| visit(record.0));
        }

        fn combination(&self, access: usize) -> Option<Combination> {
            self.accesses.at(access).combination().map(|OnDevices(combination)| combination)
        }

        fn private(&self, access: usize) -> Option<(*mut u8, usize)> {
            // SAFETY: the engine calls this only before it enqueues the body, so there is no view yet.
            unsafe { self.accesses.at(access).private() }
        }

        fn combine(&self, access: usize, block: &Block) {
            // SAFETY: the engine combines a body's contribution only after the body has ended and when it is the
            // access's turn.
            unsafe { self.accesses.at(access).combine(block) }
        }

        fn replica(&self, access: usize) -> Option<(&[u8], Block)> {
            // SAFETY: the body has ended, and the lane lets nothing else combine a replica while it is being read.
            unsafe { self.accesses.at(access).replica() }
        }

        fn absorb(&self, access: usize, block: &Block, other: (&[u8], Block)) {
            // SAFETY: the body has ended, the lane admits only one thread at a time, and the other replica belongs to
            // another task.
            unsafe { self.accesses.at(access).absorb(block, other) }
        }

        fn retire(&self, access: usize) {
            // SAFETY: `depend::reduction` retires a replica only after it has been combined for the last time.
            unsafe { self.accesses.at(access).retire() }
        }

        fn iteration(&self) -> Iteration {
            self.iteration
        }
    };
}
pub(super) use passed_on;

// SAFETY: `accesses` calls `Access::visit`, which reads the declared region and the mode of each access. Both are set
// when the access is made, and nothing changes them. There is neither a group nor a place at which the body stands.
unsafe impl<A: AccessList, B: Slot<A>> Body for Payload<A, B> {
    passed_on!();

    #[inline]
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>> {
        // SAFETY: the engine runs a body once its dependences are satisfied, and its regions are at the sites in `env`.
        unsafe { B::run(&self.bodies, &self.accesses, BodyEnv(env)) }.map_err(|Stopped(stop)| stop)
    }

    fn has_begun(&self) -> bool {
        B::has_begun(&self.bodies)
    }

    fn home(&self, access: usize) -> Option<Site> {
        if B::lends(&self.bodies) { None } else { self.accesses.at(access).home().map(|Home(site)| site) }
    }

    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError> {
        let views = self.accesses.device_views(&mut DeviceSites::new(sites));
        self.bodies.take().expect("a body runs once").enqueue(launcher, views)
    }

    fn discard(&self) {
        drop(self.bodies.take());
    }

    fn enlist(&self, access: usize, group: &Arc<Accumulation>, part: &Block) {
        // SAFETY: the dependence layer calls this while the task is being submitted.
        unsafe { self.accesses.at(access).enlist(Group(group.clone(), *part)) }
    }

    fn ask(&self, access: usize, probe: TaskRef) {
        self.accesses.at(access).ask(Probe(probe));
    }

    fn spoil(&self, access: usize, cause: &Arc<TaskFailure>) {
        self.accesses.at(access).spoil(cause);
    }

    fn is_spoiled(&self, access: usize) -> bool {
        self.accesses.at(access).is_spoiled()
    }

    #[inline]
    fn keep(&self) {
        // SAFETY: the body has ended.
        unsafe { self.accesses.keep() }
    }

    fn kinds(&self) -> Kinds {
        self.kinds
    }
}
