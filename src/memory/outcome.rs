//! `outcome` accesses, which are stored in their tasks and give the value, or the failure that left it missing.
//!
//! An `outcome` wraps a read access. Its task waits for the same tasks as a reader, but inherits no failure. The access
//! learns of a failure in two ways: from its *probe*, a join that is poisoned when a reader would be poisoned
//! (`depend::register`), and from the placement, which *spoils* the access when the bytes are lost or cannot be copied.
//!
//! Invariant: no view is made of a region that has no value.

use super::Access;
use super::access::{Home, Record, Replicated};
use super::lent::{Lend, Lender};
use crate::depend::{AccessRecord, Mode, Site, TaskRef};
use crate::error::TaskFailure;
use crate::kernel::DeviceSite;
use crate::sealed::{Internal, Sealed};
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

/// `outcome`: gives the view of the access `A`, or the failure that left the region without a value.
pub struct OutcomeOf<A> {
    access: A,
    probe: OnceCell<TaskRef>,
    failure: OnceCell<Arc<TaskFailure>>,
}

/// The join that tells an `outcome` access whether there is a value, wrapped like [`Record`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Probe(pub(crate) TaskRef);

impl<A> OutcomeOf<A> {
    pub(crate) fn new(access: A) -> Self {
        Self { access, probe: OnceCell::new(), failure: OnceCell::new() }
    }

    /// Returns why there is no value. Must be called only after the task's predecessors have ended.
    fn failure(&self) -> Option<&Arc<TaskFailure>> {
        if let Some(cause) = self.probe.get().and_then(|probe| probe.poison()) {
            self.failure.get_or_init(|| cause);
        }
        self.failure.get()
    }
}

impl<A> Sealed for OutcomeOf<A> {}

impl<A: Access> Replicated for OutcomeOf<A> {
    fn home(&self) -> Option<Home> {
        if self.failure().is_none() { self.access.home() } else { None }
    }

    fn ask(&self, Probe(probe): Probe) {
        self.probe.get_or_init(|| probe);
    }

    fn spoil(&self, cause: &Arc<TaskFailure>) {
        self.failure.get_or_init(|| cause.clone());
    }

    fn is_spoiled(&self) -> bool {
        self.failure.get().is_some()
    }
}

impl<A: Access> Access for OutcomeOf<A> {
    type View<'a> = Result<A::View<'a>, &'a TaskFailure>;
    type DeviceView<'a> = Result<A::DeviceView<'a>, &'a TaskFailure>;

    unsafe fn view<'a>(&'a self, site: Option<Site>) -> Self::View<'a> {
        match self.failure() {
            Some(failure) => Err(&**failure),
            // SAFETY: the engine runs the body once its dependences are satisfied. They are the same as a reader's,
            // because an `outcome` enters the histories as a reader, so no writer runs at the same time (rule 2). The
            // region is at the site, or in the host copy.
            None => Ok(unsafe { self.access.view(site) }),
        }
    }

    fn device_view<'a>(&'a self, site: DeviceSite) -> Self::DeviceView<'a> {
        match self.failure() {
            Some(failure) => Err(&**failure),
            None => Ok(self.access.device_view(site)),
        }
    }

    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        self.access.visit(&mut |Record(record)| visit(Record(AccessRecord { mode: Mode::Outcome, ..record })));
    }

    fn again(&self, right: Internal) -> Self {
        Self::new(self.access.again(right))
    }
}

impl<A: Access + Lend> Lend for OutcomeOf<A> {
    type Lent = Result<A::Lent, Arc<TaskFailure>>;

    unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
        match self.failure() {
            Some(failure) => Err(failure.clone()),
            // SAFETY: the region has a value; the caller upholds the rest of the contract for the read access.
            None => Ok(unsafe { self.access.lend(lender) }),
        }
    }
}

impl<A: fmt::Debug> fmt::Debug for OutcomeOf<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutcomeOf").field(&self.access).finish()
    }
}
