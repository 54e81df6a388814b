//! Data objects that a body creates for its children, and takes back from them.
//!
//! The task cannot have declared a data object that its body creates, so the task's children may access such an object
//! without a declaration by their parent. Like any other data object, it has its own history (`depend/domain.rs`).
//! Nothing else is different: it is gone when its last handle is dropped, and may outlive the body that created it.

use super::entrance::door;
use crate::Context;
use crate::depend::Entrance;
use crate::error::TakeError;
use crate::memory::{Element, Shape};
use crate::task::{Data, Take, Token, Value};
use ndarray::{Array, IntoDimension};
use std::sync::Arc;

impl Context {
    #[track_caller]
    pub(super) fn entrance(&self) -> Arc<Entrance> {
        self.entrance.upgrade().expect("a context is used only while its runtime exists")
    }

    /// Registers a vector for the task's children, as [`Runtime::data`](crate::Runtime::data) does for all tasks.
    ///
    /// It is a data object like any other, except that the children may access it although the task has not declared
    /// it. It lasts as long as handles exist or tasks use it, even longer than the body if necessary.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let total = rt.scalar(0);
    /// let sum = total.clone();
    /// rt.task("parent", total.weak_inout())
    ///     .cpu(move |cx, ()| {
    ///         let parts = cx.data(vec![0; 4]);
    ///         cx.for_each("part", (parts.blocks(1).output(), 1..)).cpu(|_, (part, n)| part[0] = n).submit()?;
    ///         cx.task("sum", (parts.input(), sum.output())).cpu(|_, (parts, sum)| sum[0] = parts.iter().sum()).submit()
    ///             .map(drop)
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.read(&total)?[0], 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the runtime is gone, which can happen in code of the body that keeps a clone of the context and
    /// outlives the runtime.
    #[track_caller]
    pub fn data<T: Element>(&self, elements: Vec<T>) -> Data<T> {
        door(&self.entrance()).vector(elements)
    }

    /// Registers one value of an array's element type for the task's children; see [`data`](Self::data).
    #[track_caller]
    pub fn scalar<T: Element>(&self, value: T) -> Data<T> {
        self.data(vec![value])
    }

    /// Registers an array of one to four dimensions for the task's children; see [`data`](Self::data).
    #[track_caller]
    pub fn array<T: Element, S: Shape>(&self, array: Array<T, S>) -> Data<T, S> {
        door(&self.entrance()).array(array)
    }

    /// Registers an array of zeros for the task's children; see [`data`](Self::data) and
    /// [`Runtime::zeros`](crate::Runtime::zeros).
    ///
    /// # Panics
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`.
    #[track_caller]
    pub fn zeros<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        door(&self.entrance()).zeros(shape)
    }

    /// Registers a value of any type for the task's children; see [`data`](Self::data) and
    /// [`Runtime::value`](crate::Runtime::value).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let names = rt.task("parent", ()).try_returns(|cx, ()| {
    ///     let names = cx.value(Vec::new());
    ///     for name in ["one", "two"] {
    ///         cx.task("push", names.commutative()).cpu(move |_, names| names.push(name)).submit()?;
    ///     }
    ///     cx.take(names).map_err(RunError::from)
    /// });
    /// assert_eq!(names.submit()?.get()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn value<T: Send + Sync + 'static>(&self, value: T) -> Value<T> {
        door(&self.entrance()).value(value)
    }

    /// Creates a token for the task's children; see [`data`](Self::data) and [`Runtime::token`](crate::Runtime::token).
    #[track_caller]
    pub fn token(&self) -> Token {
        door(&self.entrance()).token()
    }

    /// Waits for the last writer of an array or a value, and returns the array or value, like
    /// [`Runtime::take`](crate::Runtime::take). The thread executes other tasks while it waits.
    ///
    /// # Errors
    /// As for [`Runtime::take`](crate::Runtime::take). The call is also refused on a thread other than the body's own,
    /// in a body for devices, and for an object that the task or one of its ancestors holds.
    #[track_caller]
    pub fn take<O: Take>(&self, object: O) -> Result<O::Taken, TakeError<O>> {
        let entrance = self.entrance();
        door(&entrance).take(object)
    }
}
