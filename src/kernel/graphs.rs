//! State that devices keep about the launches of a run of tasks, from one time that it is enqueued to the next.

use std::any::Any;
use std::fmt;

/// The state that each device keeps; only the device itself looks into it.
#[derive(Default)]
pub(crate) struct Graphs(Vec<Box<dyn Any + Send>>);

impl Graphs {
    /// Returns the state of the device that `is_mine` recognizes; makes it if there is none.
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
