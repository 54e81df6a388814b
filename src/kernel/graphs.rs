//! What devices keep of the launches of one run of tasks, from one time that it is enqueued to the next.

use std::any::Any;
use std::fmt;

/// Of each device what it keeps, which nobody else looks into.
#[derive(Default)]
pub(crate) struct Graphs(Vec<Box<dyn Any + Send>>);

impl Graphs {
    /// What this device keeps, which knows it again; made if there is nothing.
    pub(crate) fn of<T: Send + 'static>(&mut self, is_mine: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
        let known = self.0.iter().position(|kept| kept.downcast_ref().is_some_and(&is_mine));
        let at = known.unwrap_or_else(|| {
            self.0.push(Box::new(make()));
            self.0.len() - 1
        });
        self.0[at].downcast_mut().expect("it was just found, or made")
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graphs({})", self.0.len())
    }
}
