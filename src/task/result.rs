//! Accesses to the results of other tasks.

use super::access::UntypedAccess;
use super::accesses::{Accesses, Predecessor};
use super::handle::Kept;
use crate::error::SubmitError;
use crate::memory::{Promise, ReadOutcome, ReadResult};
use crate::sealed::{Internal, Sealed};
use crate::sync::Flow;
use std::fmt;

/// The task that writes a result, and the ID of the runtime that the task was submitted to.
struct Source<'p, R> {
    promise: &'p Promise<R>,
    runtime: u64,
}

impl<R> Source<'_, R> {
    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        if self.runtime == runtime {
            return Ok(());
        }
        let producer = self.promise.task().shared().name.clone().into_owned();
        Err(SubmitError::ForeignResult { task: "".into(), producer }) // the caller knows the task's name
    }
}

impl<R> Clone for Source<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Source<'_, R> {}

macro_rules! accesses {
    ($($(#[$doc:meta])* $name:ident => $stored:ty, $flow:expr, |$promise:ident| $store:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name<'p, R>(Source<'p, R>);

        impl<'p, R> $name<'p, R> {
            pub(crate) fn new(promise: &'p Promise<R>, runtime: u64) -> Self {
                Self(Source { promise, runtime })
            }
        }

        impl<R> Sealed for $name<'_, R> {}

        impl<R: Send + Sync + 'static> Accesses for $name<'_, R> {
            type Stored = $stored;

            const COUNT: Option<usize> = Some(0);
            const HAS_RESULTS: bool = true;

            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                self.0.check(runtime)
            }

            #[inline]
            fn visit<'a>(&'a self, _: &mut dyn FnMut(UntypedAccess<'a>)) {}

            #[inline]
            fn predecessors<'a>(&'a self, visit: &mut dyn FnMut(Predecessor<'a>)) {
                visit(Predecessor(self.0.promise.task(), $flow));
            }

            #[inline]
            fn store(&self, _: Internal) -> $stored {
                let $promise = self.0.promise;
                $store
            }

            fn kept(&self, _: &mut dyn FnMut(Kept)) {}
        }

        impl<R> Clone for $name<'_, R> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<R> Copy for $name<'_, R> {}

        impl<R> fmt::Debug for $name<'_, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "result of {}", self.0.promise.task().shared().id)
            }
        }
    )*};
}

accesses! {
    /// The result of an earlier task, which the task reads. Made by [`Pending::input`](crate::Pending::input).
    ///
    /// The body gets `&R`, and so do bodies for accelerators: a result may be passed to a kernel.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::ResultInput;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let text = rt.task("say", ()).returns(|_, ()| "hello".to_owned()).submit()?;
    /// let access: ResultInput<'_, String> = text.input();
    /// rt.task("print", access).cpu(|_, text| println!("{text}")).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ResultInput => ReadResult<R>, Flow::Value, |promise| promise.read();
    /// The outcome of an earlier task: its result or its failure. Made by
    /// [`Pending::outcome`](crate::Pending::outcome).
    ///
    /// The body gets `Result<&R, &TaskFailure>`.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::ResultOutcome;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let number = rt.task("parse", ()).try_returns(|_, ()| "x".parse::<u8>()).submit()?;
    /// let access: ResultOutcome<'_, u8> = number.outcome();
    /// rt.task("print", access).cpu(|_, number| assert!(number.is_err())).submit()?;
    /// # assert!(rt.wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ResultOutcome => ReadOutcome<R>, Flow::Order, |promise| promise.read_outcome();
    /// An earlier task with a result, after which the task runs without using the result. Made by
    /// [`Pending::after`](crate::Pending::after).
    ///
    /// The body gets `()`.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::ResultAfter;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let text = rt.task("say", ()).returns(|_, ()| "hello").submit()?;
    /// let access: ResultAfter<'_, &str> = text.after();
    /// rt.task("log", access).cpu(|_, ()| println!("it has been said")).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ResultAfter => (), Flow::Order, |_promise| ();
}
