//! The driver of a runtime, which is either threads or a simulation, with the calls that both support.

use crate::depend::{AccessRecord, Body, Boxed, Domain, Group, Kinds, Submitting};
use crate::driver::Driver;
use crate::driver::admission::Description;
use crate::driver::deadlock::{Vain, key_of_group};
use crate::driver::reasons::Queues;
use crate::driver::shared::{BreakOnUnwind, Shared};
use crate::driver::simulated::Simulated;
use crate::driver::threads::{OnTop, Threads};
use crate::driver::waiters::Awaited;
use crate::error::SubmitError;
use crate::ids::DeviceId;
use crate::memory::DataCell;
use crate::sync::CallSite;
use crate::sync::{Key, Share};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One of the two drivers.
#[derive(Clone)]
pub(crate) enum AnyDriver {
    Threads(Arc<Threads>),
    Simulated(Arc<Simulated>),
}

/// A weak reference to either driver, for owners that must not keep it alive.
pub(super) enum WeakDriver {
    Threads(Weak<Threads>),
    Simulated(Weak<Simulated>),
}

impl AnyDriver {
    /// The state that all threads share.
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        match self {
            Self::Threads(threads) => threads.shared(),
            Self::Simulated(simulated) => simulated.shared(),
        }
    }

    /// Returns the queues of ready tasks.
    pub(super) fn queues(&self) -> &dyn Queues {
        match self {
            Self::Threads(threads) => threads.as_ref(),
            Self::Simulated(simulated) => simulated.as_ref(),
        }
    }

    /// Returns whether any thread may run any task.
    #[inline]
    pub(super) fn on_fast_path(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.on_fast_path())
    }

    /// Returns the threads, if any of them may run any task.
    #[inline]
    pub(super) fn fast_path(&self) -> Option<&Threads> {
        if let Self::Threads(threads) = self {
            Some(threads.as_ref()).filter(|threads| threads.on_fast_path())
        } else {
            None
        }
    }

    /// Returns whether there may be devices that run bodies.
    #[inline]
    pub(super) fn runs_on_devices(&self) -> bool {
        matches!(self, Self::Threads(threads) if !threads.on_fast_path())
    }

    /// Returns whether there are units of kind `GPU` and the interface of each of their devices is among these kinds.
    /// The interface of simulated devices is unknown, so any interface is accepted for them.
    pub(super) fn all_gpus_are_among(&self, kinds: Kinds) -> bool {
        match self {
            Self::Threads(threads) => threads.gpu_interfaces().is_some_and(|interfaces| interfaces.are_among(kinds)),
            Self::Simulated(_) => true,
        }
    }

    /// Returns whether a device has its own queues, which is the case if it is neither emulated nor simulated.
    pub(super) fn has_queues(&self, device: DeviceId) -> bool {
        matches!(self, Self::Threads(threads) if threads.has_queues(device))
    }

    /// Returns the maximum size of a replica on a device, in bytes. Simulated devices have no limit.
    pub(super) fn largest_buffer_bytes(&self, device: DeviceId) -> u64 {
        match self {
            Self::Threads(threads) => threads.largest_buffer_bytes(device),
            Self::Simulated(_) => u64::MAX,
        }
    }

    /// Waits until the pending tasks leave room for another one that allocates this many bytes, and returns its share
    /// of the window in bytes; `None` if there is no such window.
    #[cold]
    pub(super) fn wait_to_allocate(&self, bytes: u64) -> Option<Share> {
        match self {
            Self::Threads(threads) => threads.wait_to_allocate(bytes),
            Self::Simulated(simulated) => simulated.wait_to_allocate(bytes),
        }
    }

    /// Returns whether homes leave for a disk.
    pub(super) fn lets_homes_leave(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.lets_homes_leave())
    }

    /// Returns whether tasks make progress while no thread waits.
    pub(super) fn goes_on_by_itself(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.goes_on_by_itself())
    }

    /// Returns whether the calling code is a body that may wait.
    pub(super) fn may_wait_in_body(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.may_wait_in_body())
    }

    /// Returns whether the calling code is a body that may wait for its children.
    pub(super) fn may_wait_for_children(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.may_wait_for_children())
    }

    /// If the calling code is a body that is about to wait, runs its ready descendants until the wait is `over`.
    #[track_caller]
    pub(super) fn run_descendants(&self, over: impl Fn() -> bool) {
        if let Self::Threads(threads) = self {
            threads.run_on_top(OnTop::Descendants, CallSite::caller(), over);
        }
    }

    /// Waits until no member of a group is left or the wait can never end; `at` is the call site. With `in_any_case`,
    /// it waits even if the wait is circular.
    ///
    /// # Errors
    /// Fails if this wait could end only after the calling body has ended. Some members are then left.
    pub(super) fn await_members(&self, group: &Arc<Group>, in_any_case: bool, at: CallSite) -> Result<(), Vain> {
        match self {
            Self::Threads(threads) => threads.await_members(group, (!in_any_case).then(|| key_of_group(group)), at),
            Self::Simulated(simulated) => {
                simulated.advance(Awaited::Told, || group.left());
                Ok(())
            }
        }
    }

    /// Waits until the task whose body is the calling code has no children, and runs no unrelated tasks while it waits;
    /// see [`Threads::await_isolated`].
    ///
    /// # Errors
    /// As for [`Self::await_told`].
    #[track_caller]
    pub(super) fn await_isolated(&self, domain: &Arc<Domain>) -> Result<(), Vain> {
        match self {
            Self::Threads(threads) => threads.await_isolated(domain),
            Self::Simulated(_) => unreachable!("bodies are not run in a simulation"),
        }
    }

    /// Returns the threads; panics in a simulation.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> &Threads {
        if let Self::Threads(threads) = self { threads } else { panic!("a simulation has no threads") }
    }

    /// Returns the simulation, if the driver is a simulation.
    #[inline]
    pub(super) fn simulated(&self) -> Option<&Simulated> {
        if let Self::Simulated(simulated) = self { Some(simulated) } else { None }
    }

    /// Returns the time since the runtime was built, or the virtual time in a simulation.
    pub(super) fn now(&self) -> Duration {
        match self {
            Self::Threads(threads) => threads.now(),
            Self::Simulated(simulated) => simulated.now(),
        }
    }

    /// Records that a data object has a home from now on.
    pub(super) fn register(&self, cell: &DataCell) {
        match self {
            Self::Threads(threads) => threads.register(cell),
            Self::Simulated(simulated) => simulated.register(cell),
        }
    }

    /// Page-locks a data object's home if that helps, and returns whether it is locked.
    pub(super) fn pin_memory(&self, cell: &DataCell) -> bool {
        matches!(self, Self::Threads(threads) if !threads.shared().is_in_child() && threads.pin_memory(cell))
    }

    /// Returns the threads, unless this is a simulation, which has no memory.
    pub(crate) fn real(&self) -> Option<&Arc<Threads>> {
        if let Self::Threads(threads) = self { Some(threads) } else { None }
    }

    /// Waits until nothing that is waited for is `left`, or until the wait can never end.
    #[track_caller]
    pub(super) fn advance(&self, awaited: Awaited, left: impl Fn() -> u64) {
        if self.shared().is_in_child() {
            return;
        }
        match self {
            Self::Threads(threads) => threads.advance(awaited, left),
            Self::Simulated(simulated) => simulated.advance(awaited, left),
        }
    }

    /// Like [`Self::advance`].
    ///
    /// # Errors
    /// Fails if runtimes that wait for each other have no unit left to make progress. Something is then left.
    #[track_caller]
    pub(super) fn advance_or_refuse(&self, awaited: Awaited, left: impl Fn() -> u64) -> Result<(), Vain> {
        match self {
            Self::Threads(threads) if !threads.shared().is_in_child() => threads.advance_or_refuse(awaited, left, true),
            _ => {
                self.advance(awaited, left);
                Ok(())
            }
        }
    }

    /// Like [`Self::advance`], for a wait with this key. The thread that ends the wait notifies it.
    ///
    /// # Errors
    /// Fails if this wait could end only after the calling body has ended. Something is then left.
    #[track_caller]
    pub(super) fn await_told(&self, key: Key, left: impl Fn() -> u64) -> Result<(), Vain> {
        if self.shared().is_in_child() {
            return Ok(());
        }
        match self {
            Self::Threads(threads) => threads.await_told(key, left),
            Self::Simulated(simulated) => {
                simulated.advance(Awaited::Told, left);
                Ok(())
            }
        }
    }

    /// Stops the threads.
    pub(super) fn stop(&self) {
        match self {
            Self::Threads(threads) => threads.stop(),
            Self::Simulated(simulated) => simulated.stop(),
        }
    }

    /// Submits a task; the caller has checked its accesses. `watch` computes the value that is returned for the task.
    ///
    /// # Errors
    /// Fails if one of its data objects has been taken since that check, or the runtime is ending.
    #[inline(always)] // on the path of every task
    pub(super) fn submit<P: Body + 'static, W>(
        &self,
        description: Description,
        payload: P,
        accesses: &[AccessRecord<'_>],
        watch: impl FnOnce(&mut Submitting) -> W,
    ) -> Result<W, SubmitError> {
        let shared = self.shared();
        let mut task = shared.admit(description, payload, accesses)?;
        shared.announce(&task)?;
        let unless_entered = BreakOnUnwind { shared, during: "a submission" };
        let watched = watch(&mut task);
        let entered = self.enter(task, accesses);
        std::mem::forget(unless_entered);
        entered.map(|()| watched)
    }

    /// Enters the task. Separate from [`Self::submit`], because that method is compiled for each type of task.
    #[inline]
    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let entered = match self {
            Self::Threads(threads) => threads.enter(task, accesses),
            Self::Simulated(simulated) => simulated.enter(task, accesses),
        };
        entered.map_err(|refusal| self.shared().refused(*refusal))
    }

    /// Like [`Self::submit`], for a task in a group or with bodies for devices.
    #[inline(never)]
    pub(super) fn submit_boxed<W>(
        &self,
        mut description: Description,
        body: Box<dyn Body>,
        group: Option<Arc<Group>>,
        accesses: &[AccessRecord<'_>],
        watch: impl FnOnce(&mut Submitting) -> W,
    ) -> Result<W, SubmitError> {
        if let Some(group) = &group {
            description = description.of_member(group);
        }
        self.submit(description, Boxed::new(body, group), accesses, watch)
    }

    /// Returns a weak reference to the driver.
    pub(super) fn downgrade(&self) -> WeakDriver {
        match self {
            Self::Threads(threads) => WeakDriver::Threads(Arc::downgrade(threads)),
            Self::Simulated(simulated) => WeakDriver::Simulated(Arc::downgrade(simulated)),
        }
    }
}

impl WeakDriver {
    /// Returns the driver, if it still exists.
    pub(super) fn upgrade(&self) -> Option<AnyDriver> {
        match self {
            Self::Threads(threads) => threads.upgrade().map(AnyDriver::Threads),
            Self::Simulated(simulated) => simulated.upgrade().map(AnyDriver::Simulated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::Kinds;
    use crate::memory::{Payload, With};
    use crate::runtime::runtime::Runtime;
    use crate::sync::CallSite;
    use crate::task::{AccessSpec, UntypedAccess};
    use std::borrow::Cow;
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    /// Waits in its destructor, and sends whether the wait succeeded.
    struct Waits(Arc<Runtime>, Sender<bool>);

    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.send(self.0.wait().is_ok()).unwrap();
        }
    }

    #[test]
    fn destructor_of_a_body_refused_at_entry_may_wait() {
        let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").build().unwrap());
        let x = rt.data(vec![0u64; 10]);
        let access = x.inout();
        access.check(rt.door.driver.shared().id).unwrap();
        x.cell.datum.set_taken(true); // as by another thread, just now
        let (said, heard) = channel();
        let captured = Waits(rt.clone(), said);
        let body = move |_: &crate::Context, _: (&mut [u64],)| drop(captured);
        let payload = Payload::new((access.store(crate::sealed::INTERNAL),), With(body, PhantomData), Kinds::CPU);
        let UntypedAccess(record) = access.record();
        let (name, location) = (Cow::Borrowed("late"), CallSite::caller());
        let description = Description { name, location, priority: 0, internal: false, side: None, child: None };
        let refused = rt.door.driver.submit(description, payload, &[record], |_| ());
        assert!(matches!(refused, Err(SubmitError::Taken { .. })));
        assert_eq!(heard.try_recv(), Ok(true), "its destructor has run, and did not wait for its own task");
        x.cell.datum.set_taken(false);
    }
}
