//! State that devices keep between two enqueues of the same run of tasks, to speed up its launches.

use super::{DeviceSite, ElementType};
use std::any::Any;
use std::fmt;

/// The end of a loop that a device repeats by itself.
pub(crate) struct Until {
    /// The maximum number of iterations, at least 1.
    pub(crate) at_most: u64,
    /// The number at this site, of this type, ends the loop when it is not above the bound, whose bytes come first.
    pub(crate) number: Option<(DeviceSite, ElementType, [u8; 8])>,
}

/// The state that each device keeps; only the device itself looks into it.
#[derive(Default)]
pub(crate) struct Graphs(Vec<Box<dyn Any + Send>>);

impl Graphs {
    /// Returns the state that `is_mine` recognizes as the device's own; creates it with `make` if there is none.
    pub(crate) fn of<T: Send + 'static>(&mut self, is_mine: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
        let known = self.0.iter().position(|kept| kept.downcast_ref().is_some_and(&is_mine));
        let at = known.unwrap_or_else(|| {
            self.0.push(Box::new(make()));
            self.0.len() - 1
        });
        self.0[at].downcast_mut().expect("it was just found or made")
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graphs({})", self.0.len())
    }
}
