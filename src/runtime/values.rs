//! Values and tokens: creating them, and reading a value.

use super::runtime::Runtime;
use super::wait::internal;
use crate::depend::{Side, Submitting, running};
use crate::driver::waiters::own_waker;
use crate::error::{Called, RunError};
use crate::ids::SpaceId;
use crate::memory::Payload;
use crate::sealed::INTERNAL;
use crate::task::{AccessSpec, Token, UntypedAccess, Value};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

impl Runtime {
    /// Registers a value of any type, for tasks that use it as a whole. The value is moved into a box;
    /// [`take`](Self::take) moves it out again.
    ///
    /// For arrays of numbers, prefer [`data`](Self::data) and its siblings, which support regions and devices.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// struct Mesh { nodes: Vec<[f64; 3]>, name: String }
    ///
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let mesh = rt.value(Mesh { nodes: vec![[0.0; 3]; 8], name: "cube".to_owned() });
    /// let height = rt.data(vec![0.0; 8]);
    /// rt.task("lift", mesh.inout()).cpu(|_, mesh| mesh.nodes.iter_mut().for_each(|node| node[2] += 1.0)).submit()?;
    /// rt.task("measure", (mesh.input(), height.output()))
    ///     .cpu(|_, (mesh, height)| height.iter_mut().zip(&mesh.nodes).for_each(|(z, node)| *z = node[2]))
    ///     .submit()?;
    /// assert_eq!(rt.take(height)?, [1.0; 8]);
    /// assert_eq!(rt.take(mesh)?.name, "cube");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn value<T: Send + Sync + 'static>(&self, value: T) -> Value<T> {
        self.door.value(value)
    }

    /// Creates a token. Tasks that access the token are ordered as if it were a region, but it has no content.
    pub fn token(&self) -> Token {
        self.door.token()
    }

    /// Waits for a value, calls `look` with it, and returns the result of `look`. The call is a part of a task that
    /// reads the value; other tasks may read it at the same time. `look` is called once, or not at all if the value
    /// was lost.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let names = rt.value(vec!["one".to_owned()]);
    /// rt.task("push", names.inout()).cpu(|_, names| names.push("two".to_owned())).submit()?;
    /// assert_eq!(rt.read_value(&names, |names| names.len())?, 2);
    /// let copy = rt.read_value(&names, Clone::clone)?;
    /// assert_eq!(copy, rt.take(names)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the value belongs to another runtime, was taken, or was lost in a failure.
    ///
    /// # Panics
    /// Panics if `look` panics.
    #[track_caller]
    pub fn read_value<T: Send + Sync + 'static, R: Send + 'static>(
        &self,
        value: &Value<T>,
        look: impl FnOnce(&T) -> R + Send + 'static,
    ) -> Result<R, RunError> {
        self.may_wait("read_value")?;
        let access = value.input();
        access.check(self.door.id).map_err(|refusal| refusal.of_task("read_value")).called_here()?;
        let UntypedAccess(record) = access.record();
        running::ancestry(self.door.id).admit("read_value", &[record]).called_here()?; // it would wait for itself
        let found = Arc::new(Mutex::new(None));
        let result = found.clone();
        let body = move |value: &T| {
            let looked = catch_unwind(AssertUnwindSafe(|| look(value)));
            *result.lock() = Some(looked);
        };
        let payload = Payload::sole(access.store(INTERNAL), body);
        let side = Side { space: Some(SpaceId::HOST), awaited_by: Some(own_waker()), ..Side::default() };
        let task = self.door.driver.submit(internal("read_value", side), payload, &[record], Submitting::share);
        let task = task.called_here()?;
        self.await_value(&task)?;
        let found = found.lock().take().expect("the task that reads the value has run");
        found.map_or_else(|panic| resume_unwind(panic), Ok)
    }
}
