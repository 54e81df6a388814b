//! Findings of the access sanitizer: differences between what a task declared and what its body did.

use std::fmt;
use std::ops::Deref;

/// A way in which a body breaks the declaration of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// It wrote next to the region.
    WroteOutside,
    /// It changed a region that it declared to read.
    ChangedInput,
    /// It left elements of an output unwritten, or computed them from the output's previous content.
    LeftUnwritten,
    /// It stored a value that it computed from an output before it wrote that output.
    ReadUnwritten,
    /// It stored a value that it computed from memory next to a region.
    ReadOutside,
    /// It changed the region at another address than that of its view.
    WroteElsewhere,
}

/// One finding of the access sanitizer ([`Builder::sanitize`](crate::Builder::sanitize)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessFault {
    /// The number of the access among the task's accesses, counted from 0.
    pub access: usize,
    /// The mode, the region and the name of the data object.
    pub declared: String,
    /// What happened.
    pub breach: Breach,
    /// The first place where it happened: an index of the data object, or a distance from the region.
    pub first: String,
    /// The number of elements, or of bytes for [`Breach::WroteOutside`].
    pub count: usize,
}

impl fmt::Display for AccessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access, declared, breach, first, count } = self;
        let (elements, bytes) = (Counted(*count, "element"), Counted(*count, "byte"));
        write!(f, "cannot accept access {access} ({declared}): the body ")?;
        match breach {
            Breach::WroteOutside => write!(
                f,
                "wrote {bytes} outside of the region, first {first}; try checking its indices, or declaring what it writes"
            ),
            Breach::ChangedInput => {
                write!(f, "changed {elements} of an input, first {first}; try `inout` for a region that it writes")
            }
            Breach::LeftUnwritten => write!(
                f,
                "left {elements} unwritten, or read them first, beginning at {first}; try a smaller region, or `inout`"
            ),
            Breach::ReadUnwritten => write!(
                f,
                "stored {elements} computed from an output that it had not written, first {first}; try `inout` for that \
                 output"
            ),
            Breach::ReadOutside => write!(
                f,
                "stored {elements} computed from memory outside of a region, first {first}; try checking its indices, or \
                 declaring what it reads"
            ),
            Breach::WroteElsewhere => write!(
                f,
                "changed {elements} of the data object directly instead of in its view, first {first}; try the address of \
                 the view"
            ),
        }
    }
}

/// The findings of the access sanitizer in one task: the error that fails the task.
///
/// ```
/// use thalweg::error::{AccessFaults, Breach, FailureReason};
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").sanitize(true).build()?;
/// let x = rt.data(vec![0.0; 4]);
/// rt.task("half", x.output()).cpu(|_, x| x[..2].fill(1.0)).submit()?;
/// let Err(RunError::Failed(failures)) = rt.wait() else { unreachable!() };
/// let FailureReason::Returned(error) = failures[0].reason() else { unreachable!() };
/// let faults: &AccessFaults = error.downcast_ref().unwrap();
/// assert_eq!((faults[0].breach, &*faults[0].first, faults[0].count), (Breach::LeftUnwritten, "[2]", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessFaults(pub(crate) Vec<AccessFault>);

impl Deref for AccessFaults {
    type Target = [AccessFault];

    fn deref(&self) -> &[AccessFault] {
        &self.0
    }
}

impl fmt::Display for AccessFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.iter().enumerate() {
            write!(f, "{}{fault}", if number == 0 { "" } else { "; and " })?;
        }
        Ok(())
    }
}

impl std::error::Error for AccessFaults {}

/// A number with its noun.
struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == 1 { "" } else { "s" })
    }
}
