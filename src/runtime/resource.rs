//! Counted resources: creating them, and declaring that tasks use them.
//!
//! A resource is a line in which ready tasks wait for their turn (`depend/turns.rs`). This module only checks amounts,
//! and adds the lines to the tasks.

use super::for_each::LoopBuilder;
use super::hints::Demands;
use super::runtime::Runtime;
use super::submit::TaskBuilder;
use crate::depend::Turns;
use crate::error::SubmitError;
use crate::task::{Accesses, LoopAccesses, Resource, resource};

impl Runtime {
    /// Creates a resource; tasks can use up to `total` of it at a time. See [`TaskBuilder::uses`].
    ///
    /// Amounts are counted in millionths.
    ///
    /// # Panics
    /// Panics if `total` is not a number above 0, or if it exceeds 9·10⁹.
    pub fn resource(&self, name: impl AsRef<str>, total: impl Into<f64>) -> Resource {
        let (name, total) = (name.as_ref(), total.into());
        Resource::new(self.door.id, name, total).unwrap_or_else(|| {
            panic!("cannot create resource `{name}`: its total is {total}; try a number above 0, up to 9e9")
        })
    }
}

impl<A: Accesses, C, K> TaskBuilder<'_, A, C, K> {
    /// Declares that the task uses this amount of a resource: the task begins only when that much is free, and releases
    /// it when its body has ended, however it ends.
    ///
    /// Tasks get a resource in the order in which they become ready, each as soon as its amount is free. So small
    /// amounts do not starve a large one. A task may use several resources. It waits for them one after the other, in
    /// the order in which the resources were created, after all tasks that it depends on have ended and before it is
    /// placed on a unit. An amount of 0 has no effect, and a second call for the same resource adds to the amount.
    /// Tasks that use no resource pay nothing.
    ///
    /// A task holds its amounts while its body runs or waits, but not while its children continue after the body. A
    /// task that is submitted inside a body may use only resources that were created after all those that the body's
    /// task and its ancestors use. Otherwise the body and the new task could wait for each other. A body must not
    /// wait for a task submitted elsewhere that needs the same resource, just as it must not wait for one that needs
    /// a lock it holds.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use thalweg::prelude::*;
    /// static OPEN: AtomicUsize = AtomicUsize::new(0);
    ///
    /// let rt = Runtime::builder().compute_units("4:CPU:1").build()?;
    /// let files = rt.resource("open files", 2);
    /// for _ in 0..100 {
    ///     let read = |_: &thalweg::Context, ()| {
    ///         assert!(OPEN.fetch_add(1, Ordering::SeqCst) < 2);
    ///         OPEN.fetch_sub(1, Ordering::SeqCst);
    ///     };
    ///     rt.task("read", ()).cpu(read).uses(&files, 1).submit()?;
    /// }
    /// rt.wait()?;
    ///
    /// let refused = rt.task("read", ()).cpu(|_, ()| ()).uses(&files, 3).submit().unwrap_err();
    /// let words = refused.to_string(); // cannot submit task `read` at src/main.rs:17:74: it uses 3 of ..
    /// assert!(words.ends_with(": it uses 3 of resource `open files`, which has 2; try an amount up to that"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn uses(mut self, resource: &Resource, amount: impl Into<f64>) -> Self {
        self.hints.demands.get_or_insert_default().uses.push((resource.clone(), amount.into()));
        self
    }
}

impl<A: LoopAccesses, C, K> LoopBuilder<'_, A, C, K> {
    /// Declares that each iteration uses this amount of a resource, as [`TaskBuilder::uses`] does.
    pub fn uses(mut self, resource: &Resource, amount: impl Into<f64>) -> Self {
        self.rest.demands.get_or_insert_default().uses.push((resource.clone(), amount.into()));
        self
    }
}

impl Demands {
    /// Refuses a task that uses a resource of another runtime.
    #[cold]
    pub(super) fn check_resources(&self, task: &str, runtime: u64) -> Result<(), SubmitError> {
        let foreign = self.uses.iter().find(|(resource, _)| resource.runtime() != runtime);
        foreign.map_or(Ok(()), |(resource, _)| {
            let name = resource.name();
            let problem =
                format!("it uses resource `{name}`, which belongs to another runtime; try one of this runtime");
            Err(SubmitError::Resource { task: task.into(), problem })
        })
    }

    /// Adds the turns at the task's resources.
    #[cold]
    pub(super) fn add_resources(&self, task: &str, turns: &mut Turns) -> Result<(), SubmitError> {
        for (resource, amount) in &self.uses {
            let name = |amount: f64| format!("it uses {amount} of resource `{}`", resource.name());
            let refusal = |problem: String| Err(SubmitError::Resource { task: task.into(), problem });
            let Some(parts) = resource::parts(*amount) else {
                return refusal(format!("{}; try an amount from 0 to {}", name(*amount), resource.total()));
            };
            let sum = if parts > 0 { turns.use_resource(resource.line(), parts) } else { 0 };
            if sum > resource.line().capacity() {
                return refusal(format!(
                    "{}, which has {}; try an amount up to that",
                    name(resource::amount(sum)),
                    resource.total()
                ));
            }
        }
        Ok(())
    }
}
