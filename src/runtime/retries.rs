//! Describing a task whose body is run again when it fails.

use super::TaskBuilder;
use crate::Context;
use crate::depend::{AccessRecord, Kinds, Mode, Residence};
use crate::error::SubmitError;
use crate::memory::{AccessList, Again, IntoOutcome, NoBody, Retries};
use crate::task::Accesses;
use std::marker::PhantomData;

impl<'rt, A: Accesses> TaskBuilder<'rt, A> {
    /// The body, which is given next, is run again if it returns an error or panics: up to so many times, before the task
    /// fails with what the last run failed by.
    ///
    /// Each run finds what the first one found. Regions that are `inout` or `commutative` are saved before the first run,
    /// which takes as much memory again, and put back before each further one. Those that are `out` hold whatever the
    /// failed run left: all of them is to be overwritten in any case. A `reduction` begins at the identity again.
    ///
    /// A body for emulated devices of its own ([`emulated`](Self::emulated)), or for accelerators ([`gpu`](Self::gpu)),
    /// is run once. So are tasks whose device is lost: only what bodies fail by is retried.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, runs) = (rt.data(vec![1.0; 8]), AtomicU32::new(0));
    /// rt.task("double", (x.inout(),))
    ///     .retries(2)
    ///     .cpu(move |_, (x,)| {
    ///         x.iter_mut().for_each(|x| *x *= 2.0);
    ///         if runs.fetch_add(1, Ordering::Relaxed) < 2 { Err("try again") } else { Ok(()) }
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [2.0; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Accesses that are `concurrent` or `accumulate` cannot be taken back: others may have seen what a failed body has
    /// added. Nor can weak ones, by the children of a failed body, nor values that are `inout` or `commutative`, which cannot
    /// be saved. A task with one of these is refused
    /// ([`SubmitError::Retries`]). What a body does beside its accesses, such as submitting tasks, it does in each run.
    pub fn retries(self, times: u32) -> TaskBuilder<'rt, A, Retries> {
        self.with(|NoBody| Retries(times))
    }
}

impl<'rt, A: Accesses> TaskBuilder<'rt, A, Retries> {
    /// The body for CPU units and emulated devices, as [`TaskBuilder::cpu`]; one that can be called more than once.
    pub fn cpu<F, R>(self, body: F) -> TaskBuilder<'rt, A, Again<F, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        let kinds = self.kinds.and(Kinds::CPU).and(Kinds::EMULATED);
        TaskBuilder { kinds, host_only: false, ..self.host(body) }
    }

    /// As [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(self, body: F) -> TaskBuilder<'rt, A, Again<F, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        let kinds = self.kinds.and(Kinds::CPU);
        let again = |Retries(times)| Again { body, times, returned: PhantomData };
        TaskBuilder { kinds, host_only: true, ..self.with(again) }
    }
}

/// Refuses what a body that fails cannot take back.
#[cold]
pub(super) fn check(task: &str, records: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
    let stays = |record: &&AccessRecord<'_>| match record.mode {
        // A copy of it would be a copy of what its type does not say how to copy.
        Mode::Inout | Mode::Commutative => record.datum.residence == Residence::Home,
        Mode::Concurrent | Mode::WeakIn | Mode::WeakInout => true,
        Mode::Reduction(operation) => operation.is_accumulated(),
        _ => false,
    };
    records.iter().find(stays).map_or(Ok(()), |record| {
        Err(SubmitError::Retries {
            task: task.into(),
            data: record.datum.to_string(),
            region: format!("{} ({})", record.datum.describe(record.block), record.mode),
        })
    })
}
