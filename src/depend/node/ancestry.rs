//! The ancestors of a task that is submitted from a body, and the regions that the task must leave alone because its
//! ancestors hold them.
//!
//! Tasks behave as if they ran one after the other in submission order, each together with everything submitted from
//! its body. But if a body submits a task through the runtime rather than as a child (`depend/domain.rs`), the new task
//! enters the histories only when it is submitted, possibly long after tasks that follow the body's task. Those later
//! tasks would miss the new task's changes to the regions that the body's task holds. Therefore a task is refused if it
//! conflicts with the accesses of the body's task or of any of its ancestors.
//!
//! For resources, a similar rule prevents that a body and a task that it waits for also wait for each other: the task
//! may use only resources that come after those of its ancestors in a global order.
//!
//! A task that was submitted from outside all bodies is not checked. This module keeps neither data nor tasks alive.

use super::{OwnedTask, Piece};
use crate::depend::turns::{Line, Turns};
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use std::borrow::Cow;
use std::sync::Arc;

/// A task's ancestors: the task from whose body it was submitted, and that task's ancestors in turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ancestry(Option<Arc<Ancestor>>);

/// One ancestor. An ancestor is omitted if its own ancestors already hold all its regions. So a chain of tasks in which
/// each task submits its successor does not make the list grow forever.
#[derive(Debug)]
struct Ancestor {
    name: Cow<'static, str>,
    held: Box<[Piece]>,
    /// The resource that the task uses, the last in the order of resources.
    resource: Option<Arc<Line>>,
    parent: Ancestry,
}

impl Ancestry {
    /// Returns the ancestors of tasks that are submitted from the body of `task`.
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
        let resource = task.owned().as_ref().and_then(|side| side.turns.resources().last().cloned());
        if held.is_empty() && resource.is_none() {
            return parent;
        }
        Self(Some(Arc::new(Ancestor { name: task.shared().name.clone(), held: held.into(), resource, parent })))
    }

    /// Whether there are no regions that the task must leave alone.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Refuses a task whose accesses conflict with the regions that an ancestor holds.
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

    /// Refuses a task that uses a resource which is not after all resources of its ancestors. Ancestors may wait for
    /// the task, so it must not wait for anything that waits for them (`depend/turns.rs`).
    #[cold]
    pub(crate) fn admit_resources(&self, task: &str, turns: &Turns) -> Result<(), SubmitError> {
        let held = |ancestor: &Ancestor| ancestor.resource.clone().map(|line| (line, ancestor.name.clone()));
        let held = self.iter().filter_map(held).max_by_key(|(line, _)| line.number());
        let Some((held, ancestor)) = held else { return Ok(()) };
        let Some(used) = turns.resources().find(|line| line.number() <= held.number()) else { return Ok(()) };
        let problem = format!(
            "it uses resource `{}` inside task `{ancestor}`, which uses resource `{}`, so that they could wait for each \
             other; try creating the resources that inner tasks use after those that outer tasks use",
            used.name(),
            held.name()
        );
        Err(SubmitError::Resource { task: task.into(), problem })
    }

    fn iter(&self) -> impl Iterator<Item = &Ancestor> {
        std::iter::successors(self.0.as_deref(), |ancestor| ancestor.parent.0.as_deref())
    }
}

impl Drop for Ancestor {
    fn drop(&mut self) {
        // Drop the ancestors one by one, because dropping a long chain recursively would need a deep stack.
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
        Ancestry(Some(Arc::new(Ancestor { name: "t".into(), held, resource: None, parent: of })))
    }

    #[test]
    fn long_chain_is_dropped_without_recursion() {
        let line = |n| (0..n).fold(Ancestry::default(), |line, i| child(line, Block::interval(i..i + 1), Mode::Out));
        let long = line(1_000_000);
        let branch = child(long.clone(), Block::interval(0..0), Mode::In);
        drop(long);
        assert_eq!(branch.iter().count(), 1_000_001, "a branch keeps the chain that it shares");
        drop(branch);
    }

    #[test]
    fn held_piece_subsumes_weaker_accesses_within_it() {
        let held = |range, mode| Piece { data: DataId(0), block: Block::interval(range), mode };
        assert!(held(0..9, Mode::In).says(&held(3..5, Mode::In)));
        assert!(held(0..9, Mode::Out).says(&held(3..5, Mode::In)));
        assert!(!held(0..9, Mode::In).says(&held(3..5, Mode::Out)), "readers may share a region that excludes writers");
        assert!(!held(0..4, Mode::In).says(&held(3..5, Mode::In)), "the region reaches further");
    }
}
