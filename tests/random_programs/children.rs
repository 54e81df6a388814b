//! Children of steps. A child keeps reading a part that its parent reads, long after the parent has ended; it may also
//! wait or fail.

use crate::steps::Part;
use proptest::prelude::*;
use std::sync::{Arc, Mutex, Weak};
use thalweg::prelude::*;

/// How often a child compares its input with the initial contents.
pub(crate) const LOOKS: usize = 20;

/// What the body of a step does with its child.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    None,
    /// The body returns before the child has ended.
    Leaves,
    /// The body waits for the child.
    Waits,
    /// The body returns, and the child fails.
    Fails,
    /// The body returns, and the child reads data. A replay must refuse this read.
    Reads,
}

pub(crate) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => Just(Act::None),
        2 => Just(Act::Leaves),
        1 => Just(Act::Waits),
        1 => Just(Act::Fails),
        1 => Just(Act::Reads),
    ];
    prop_oneof![1 => Just(vec![Act::None]), 1 => prop::collection::vec(act, 1..40)]
}

/// Defects that children have detected.
pub(crate) type Wrong = Arc<Mutex<Vec<String>>>;

/// A child that a step is going to submit.
#[derive(Clone)]
pub(crate) struct Child<S: thalweg::memory::Shape> {
    pub(crate) act: Act,
    pub(crate) data: Data<u64, S>,
    pub(crate) part: Part,
    pub(crate) rt: Weak<Runtime>,
    pub(crate) wrong: Wrong,
}

impl<S: thalweg::memory::Shape> Child<S> {
    pub(crate) fn tell(&self, what: impl Into<String>) {
        self.wrong.lock().unwrap().push(what.into());
    }

    /// Tries to read a region in a child of a replay, which must be refused.
    pub(crate) fn read(&self, region: Region<'_, u64, S>) {
        let Some(rt) = self.rt.upgrade() else { return };
        match rt.read(region) {
            Err(RunError::Refused(SubmitError::InsideReplay { call: "read" })) => {}
            Err(other) => self.tell(format!("a child's read was refused for another reason: {other}")),
            Ok(_) => self.tell("a child's read was granted in a replay"),
        }
    }

    /// Performs the parent's actions after it has submitted the child.
    pub(crate) fn submitted(&self, submitted: Result<TaskId, SubmitError>, cx: &Context) {
        if let Err(error) = submitted {
            self.tell(error.to_string());
        }
        if self.act == Act::Waits {
            match cx.wait() {
                Ok(()) | Err(RunError::Refused(SubmitError::Unsuspended { .. } | SubmitError::InsideTask { .. })) => {}
                Err(error) => self.tell(error.to_string()),
            }
        }
    }
}
