//! What a task that is submitted from a body must leave alone: the regions of the tasks that it is part of.
//!
//! Tasks run as if one after the other in the order of submission, each with all that is submitted from its body. A task
//! that a body submits through the runtime, and not as a child (`depend/domain.rs`), comes into the histories when it is
//! submitted, which may be long after others that the body's task came before; so what it did to that task's regions would
//! be missing for those. Therefore what conflicts with the accesses of the body's task, or with those of anybody further
//! up, is refused.
//!
//! What never happens here: a task that no body submitted is not looked at. No data is kept alive, and no task.

use super::{OwnedTask, Piece};
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use std::borrow::Cow;
use std::sync::Arc;

/// A task's ancestors: whose body it was submitted from, whose body that one was submitted from, and so on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ancestry(Option<Arc<Ancestor>>);

/// One of them. Those that hold nothing which is not held above them are left out, so that a task which submits its
/// successor does not make the line longer for ever.
#[derive(Debug)]
struct Ancestor {
    name: Cow<'static, str>,
    held: Box<[Piece]>,
    parent: Ancestry,
}

impl Ancestry {
    /// What is submitted from the body of `task` has these.
    #[cold]
    pub(crate) fn of_children(task: &OwnedTask) -> Self {
        let parent = task.owned().as_ref().map(|side| side.ancestry.clone()).unwrap_or_default();
        let mut held = Vec::new();
        task.body().accesses(&mut |access| {
            let (access, block) = (Piece::of(&access), access.block);
            if !block.is_empty() && !parent.iter().flat_map(|ancestor| &ancestor.held).any(|held| held.says(&access)) {
                held.push(access);
            }
        });
        if held.is_empty() {
            return parent;
        }
        Self(Some(Arc::new(Ancestor { name: task.shared().name.clone(), held: held.into(), parent })))
    }

    /// Whether there is nobody whose regions must be left alone.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Refuses a task whose accesses conflict with what one of these holds.
    #[cold]
    pub(crate) fn admit(&self, task: &str, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        for ancestor in self.iter() {
            for held in &ancestor.held {
                if let Some(access) = accesses.iter().find(|access| held.conflicts_with(access)) {
                    let words = |block: &_, mode: Mode| format!("{} ({mode})", access.datum.describe(block));
                    return Err(SubmitError::Nested {
                        task: task.into(),
                        ancestor: ancestor.name.clone().into_owned(),
                        data: access.datum.to_string(),
                        region: words(access.block, access.mode),
                        held: words(&held.block, held.mode).into(),
                    });
                }
            }
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &Ancestor> {
        std::iter::successors(self.0.as_deref(), |ancestor| ancestor.parent.0.as_deref())
    }
}

impl Drop for Ancestor {
    fn drop(&mut self) {
        // One by one: a long line would need a deep stack.
        let mut next = self.parent.0.take();
        while let Some(mut last) = next.and_then(Arc::into_inner) {
            next = last.parent.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DataId;
    use crate::region::Block;

    fn child(of: Ancestry, block: Block, mode: Mode) -> Ancestry {
        let held = Box::new([Piece { data: DataId(0), block, mode }]);
        Ancestry(Some(Arc::new(Ancestor { name: "t".into(), held, parent: of })))
    }

    #[test]
    fn a_long_line_is_dropped_without_a_deep_stack() {
        let line = |n| (0..n).fold(Ancestry::default(), |line, i| child(line, Block::interval(i..i + 1), Mode::Out));
        let long = line(1_000_000);
        let branch = child(long.clone(), Block::interval(0..0), Mode::In);
        drop(long);
        assert_eq!(branch.iter().count(), 1_000_001, "who shares a line keeps it");
        drop(branch);
    }

    #[test]
    fn what_is_held_already_says_enough_for_readers() {
        let held = |range, mode| Piece { data: DataId(0), block: Block::interval(range), mode };
        assert!(held(0..9, Mode::In).says(&held(3..5, Mode::In)));
        assert!(held(0..9, Mode::Out).says(&held(3..5, Mode::In)));
        assert!(!held(0..9, Mode::In).says(&held(3..5, Mode::Out)), "readers may share what a writer may not");
        assert!(!held(0..4, Mode::In).says(&held(3..5, Mode::In)), "it reaches further");
    }
}
