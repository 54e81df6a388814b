//! Accesses that yield the failure if the value is missing.

use super::access::{AccessSpec, Input, UntypedAccess};
use super::cut::Cut;
use super::each::PartSpec;
use super::handle::Kept;
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use crate::memory::{Element, OutcomeOf, Shape};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};

/// The value that the access `A` reads, or the failure that left it missing. Made by
/// [`Region::outcome`](super::Region::outcome), [`Value::outcome`](super::Value::outcome) and
/// [`Token::outcome`](super::Token::outcome).
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::{Input, Outcome};
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1; 4]);
/// let access: Outcome<Input<'_, i32>> = x.outcome();
/// rt.task("t", access).cpu(|_, x| assert_eq!(x.unwrap(), [1; 4])).submit()?;
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Outcome<A>(pub(super) A);

impl<A> Sealed for Outcome<A> {}

impl<A: AccessSpec> AccessSpec for Outcome<A> {
    type Stored = OutcomeOf<A::Stored>;

    const IS_OUTCOME: bool = true;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)
    }

    fn record(&self) -> UntypedAccess<'_> {
        let UntypedAccess(record) = self.0.record();
        UntypedAccess(AccessRecord { mode: Mode::Outcome, ..record })
    }

    fn store(&self, right: Internal) -> Self::Stored {
        OutcomeOf::new(self.0.store(right))
    }

    fn kept(&self) -> Kept {
        self.0.kept()
    }
}

impl<T: Element, S: Shape> PartSpec for Outcome<Input<'_, T, S>> {
    fn part(&self, cut: &Cut, index: usize) -> Self {
        Self(self.0.part(cut, index))
    }

    fn place(&self, cut: &Cut, index: usize, block: &mut Block) {
        self.0.place(cut, index, block);
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
