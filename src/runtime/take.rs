//! Taking arrays and values out of the runtime, together with their memory.
//!
//! This is a request like those in [`wait`](super::wait), but with two steps. First, the thread waits until modified
//! data are copied home, as for a reader. Then an internal task that updates the whole data object takes the memory
//! out. The submitting thread always waits for that task, because once the memory is gone, the data object must stay
//! taken.

use super::door::Door;
use super::runtime::Runtime;
use super::wait::internal;
use crate::depend::{AccessRecord, Mode, Side, Submitting, TaskRef, running};
use crate::driver::waiters::own_waker;
use crate::error::{Called, RunError, SubmitError, TakeError};
use crate::ids::SpaceId;
use crate::memory::{Access, DataCell, Follows, Home, Payload, Reads, Unseen, Updates};
use crate::sealed::INTERNAL;
use crate::task::{GivenUp, Take};
use parking_lot::Mutex;
use std::sync::Arc;

impl Runtime {
    /// Waits for the last writer of an array or a value, and returns the array or value with its memory. Tasks can no
    /// longer use it.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, names) = (rt.zeros([2, 3]), rt.value(vec!["one"]));
    /// rt.task("fill", (x.output(), names.inout())).cpu(|_, (mut x, names)| { x.fill(1); names.push("two") }).submit()?;
    /// assert_eq!(rt.take(x)?, ndarray::array![[1, 1, 1], [1, 1, 1]]);
    /// assert_eq!(rt.take(names)?, ["one", "two"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the data object belongs to another runtime or was taken before, or if a part of it was lost in a
    /// failure. The error contains the handle, because the data object stays registered: parts that are not lost can
    /// still be [`read`](Self::read), and lost parts can be recovered ([`clear`](Self::clear),
    /// [`accept`](Self::accept)).
    #[track_caller]
    pub fn take<O: Take>(&self, object: O) -> Result<O::Taken, TakeError<O>> {
        self.door.take(object)
    }
}

impl Door {
    #[track_caller]
    pub(super) fn take<O: Take>(&self, object: O) -> Result<O::Taken, TakeError<O>> {
        match self.take_home(object.registered().0).called_here() {
            Ok(home) => Ok(object.open(GivenUp(home), INTERNAL)),
            Err(error) => Err(TakeError::new(object, error)),
        }
    }

    /// Takes a data object's memory, if it has any.
    #[track_caller]
    fn take_home(&self, cell: &Arc<DataCell>) -> Result<Option<Home>, RunError> {
        self.may_wait("take")?;
        let datum = &cell.datum;
        if cell.runtime != self.id {
            return Err(SubmitError::ForeignData { task: "take".into(), data: datum.to_string() }.into());
        }
        if datum.is_taken() {
            return Err(SubmitError::Taken { task: "take".into(), data: datum.to_string() }.into());
        }
        let record = AccessRecord { datum, block: &datum.whole(), mode: Mode::Inout };
        running::ancestry(self.id).admit("take", &[record])?; // it would wait for itself
        let brought = self.request_all(cell, Mode::In, Side::default(), Unseen::<Reads>::new(cell), |()| ())?;
        self.await_value(&brought)?;
        // A body's wait may be refused, but must not be refused when the memory is about to go, so the body waits for
        // all other tasks first. A task that touches none of the data object's memory, for instance because its region
        // is empty, is ordered only with the end of the data object, and may have children that name the object.
        let mut waits = running::may_wait(self.id);
        while waits || datum.is_looked_on() {
            let behind_all = Side { behind_all: true, ..Side::default() };
            let behind = self.request_all(cell, Mode::After, behind_all, Unseen::<Follows>::new(cell), |()| ())?;
            self.await_end(&behind)?;
            waits = false;
        }
        let home: Arc<Mutex<Option<Home>>> = Arc::default();
        let (kept, result) = (cell.clone(), home.clone());
        let take = move |()| *result.lock() = kept.take_home();
        let gives_up = Side { forget: Some(datum.id), ..Side::default() };
        let task = self.request_all(cell, Mode::Inout, gives_up, Unseen::<Updates>::new(cell), take)?;
        let waited = self.await_end_in_any_case(&task).map_err(RunError::from);
        if let Err(error) = waited.and_then(|()| self.outcome_of(&task)) {
            datum.set_taken(false); // lost by a task submitted just before: the rest stays
            return Err(error);
        }
        if datum.phantom {
            return Ok(None);
        }
        let home = home.lock().take();
        Ok(Some(home.expect("the one task that takes the memory has run")))
    }

    /// Submits an internal task for a whole data object, in host memory.
    #[track_caller]
    fn request_all<A: for<'a> Access<View<'a> = ()>>(
        &self,
        cell: &DataCell,
        mode: Mode,
        side: Side,
        access: A,
        body: impl FnOnce(()) + Send + 'static,
    ) -> Result<TaskRef, SubmitError> {
        let (datum, block) = (&cell.datum, &cell.datum.whole());
        let side = Side { space: Some(SpaceId::HOST), awaited_by: Some(own_waker()), ..side };
        let record = AccessRecord { datum, block, mode };
        self.driver.submit(internal("take", side), Payload::sole(access, body), &[record], Submitting::share)
    }
}
