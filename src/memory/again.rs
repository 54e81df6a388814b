//! Bodies that are run again when they fail.
//!
//! Each run finds what the first one found. What `inout` and `commutative` accesses change is saved before the first run
//! and put back before each further one; a reduction begins at the identity again; what is overwritten is overwritten
//! again. Accesses whose effects others may have seen meanwhile (`concurrent`), or which go into a replica that others
//! have added to (`accumulate`), are refused at submission ([`Slot::RETRIES`]).
//!
//! All of it is a part of the one time that the engine runs the task: nobody else sees that it failed and was retried.

use super::access_list::AccessList;
use super::payload::{IntoOutcome, Place, Slot, Stopped};
use crate::depend::{Context, Env, Site};
use crate::error::BoxError;
use crate::sealed::Sealed;
use crate::sync::drop_quietly;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No body yet; the one to come is run again, up to so many times, if it fails.
#[derive(Debug)]
pub struct Retries(pub(crate) u32);

/// A closure as a body that is run again, up to so many times, if it fails.
pub struct Again<F, R> {
    pub(crate) body: F,
    pub(crate) times: u32,
    pub(crate) returned: PhantomData<fn() -> R>,
}

impl<F, R> Sealed for Again<F, R> {}

impl<F, R> fmt::Debug for Again<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Again({} times)", self.times)
    }
}

impl<A, F, R> Slot<A> for Again<F, R>
where
    A: AccessList,
    F: for<'c, 'a> Fn(&'c Context, A::Views<'a>) -> R + Send + 'static,
    R: IntoOutcome + 'static,
{
    const PRESENT: bool = true;
    const RETRIES: bool = true;

    fn call(self, context: &Context, views: A::Views<'_>) -> Result<(), BoxError> {
        (self.body)(context, views).into_outcome()
    }

    unsafe fn run(bodies: &Cell<Option<Self>>, accesses: &A, at: Place<'_>) -> Result<(), Stopped> {
        let Place(Env { context, sites }) = at;
        let again = bodies.take().expect("a body runs once");
        // SAFETY: the caller has the regions where the sites say.
        unsafe { again.run_until_it_succeeds(context, accesses, *sites) }.map_err(Stopped::failed)?;
        // SAFETY: the body has ended.
        unsafe { accesses.keep() };
        Ok(())
    }
}

impl<F, R> Again<F, R> {
    /// # Safety
    /// As for [`Slot::run`].
    unsafe fn run_until_it_succeeds<A>(
        self,
        context: &Context,
        accesses: &A,
        sites: Option<&[Site]>,
    ) -> Result<(), BoxError>
    where
        A: AccessList,
        F: for<'c, 'a> Fn(&'c Context, A::Views<'a>) -> R,
        R: IntoOutcome,
    {
        let site = |access: usize| sites.map(|sites| sites[access]);
        // SAFETY: the caller has the regions where the sites say, and no view has been made yet.
        let saved = (0..accesses.count()).map(|access| unsafe { accesses.at(access).save(site(access)) });
        let saved: Vec<_> = if self.times > 0 { saved.collect() } else { Vec::new() };
        let mut left = self.times;
        loop {
            let run = || {
                // SAFETY: the caller has the regions where the sites say; the views of the run before are gone.
                let views = unsafe { accesses.views(&mut super::access_list::Sites::new(sites)) };
                (self.body)(context, views).into_outcome()
            };
            if left == 0 {
                return run();
            }
            left -= 1;
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => return Ok(()),
                failed => drop_quietly(|| drop(failed)),
            }
            for (access, saved) in saved.iter().enumerate() {
                if let Some(saved) = saved {
                    // SAFETY: as for the saving; the views of the run that has failed are gone with it.
                    unsafe { accesses.at(access).restore(site(access), saved) };
                }
            }
        }
    }
}
