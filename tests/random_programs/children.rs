//! Children of steps: they keep reading a part that their parent reads, long after the parent has ended, and wait or
//! fail.

use crate::steps::Part;
use proptest::prelude::*;
use std::sync::{Arc, Mutex, Weak};
use thalweg::prelude::*;

/// The number of times that a child compares its input with the first content.
pub(crate) const LOOKS: usize = 20;

/// The action of a step's body on a child.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    None,
    /// It returns before the child has ended.
    Leaves,
    /// It waits for the child.
    Waits,
    /// It leaves a child that fails.
    Fails,
    /// It leaves a child that reads data, which a replay must refuse.
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

/// The defects that children have found.
pub(crate) type Wrong = Arc<Mutex<Vec<String>>>;

/// A child to come, of one step.
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

    /// A read that must be refused to a child in a replay.
    pub(crate) fn read(&self, region: Region<'_, u64, S>) {
        let Some(rt) = self.rt.upgrade() else { return };
        match rt.read(region) {
            Err(RunError::Refused(SubmitError::InsideReplay { call: "read" })) => {}
            Err(other) => self.tell(format!("a child's read was refused for another reason: {other}")),
            Ok(_) => self.tell("a child's read was granted in a replay"),
        }
    }

    /// The parent's actions after it has submitted the child.
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
