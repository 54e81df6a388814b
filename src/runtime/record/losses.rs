//! The parts of data that are bad while the bodies of a run are called, and how its members spoil and mend them.
//!
//! The members of a group of reductions do not fail with each other: a member is skipped if the region was bad before
//! the group, but not if an earlier member has failed. So a part that a member has spoiled names its group until a task
//! uses the part in another way.

use super::run::{Member, MemberRegion};
use crate::depend::Mode;
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use std::sync::Arc;

/// A part whose value is bad, with the cause.
#[derive(Clone)]
pub(super) struct Bad {
    pub(super) data: DataId,
    pub(super) block: Block,
    pub(super) cause: Arc<TaskFailure>,
    /// If a member of a group of reductions has failed and the group may have further members: their mode.
    pub(super) group: Option<Mode>,
}

impl Bad {
    fn is_in(&self, region: &MemberRegion) -> bool {
        self.data == region.data && self.block.overlaps(&region.block)
    }

    /// Returns whether the part is bad because of a member of the group of reductions to which an access to this region
    /// belongs.
    fn is_of_group(&self, region: &MemberRegion) -> bool {
        region.is_reduced && self.group == Some(region.mode)
    }
}

impl Member {
    /// Returns the cause if a part that the member uses is bad.
    pub(super) fn cause_of_loss(&self, bad: &[Bad]) -> Option<Arc<TaskFailure>> {
        let used = self.regions.iter().filter(|region| region.mode.relies_on_value());
        let on = |region: &MemberRegion| bad.iter().find(|bad| bad.is_in(region) && !bad.is_of_group(region));
        used.into_iter().find_map(on).map(|bad| bad.cause.clone())
    }

    /// Closes the groups of reductions whose regions the member uses in another way: later members of the same mode
    /// belong to another group.
    pub(super) fn close_groups(&self, bad: &mut Vec<Bad>) {
        for region in &self.regions {
            let closes = |bad: &Bad| bad.group.is_some() && bad.is_in(region) && !bad.is_of_group(region);
            let (closed, mut others): (Vec<_>, Vec<_>) = bad.drain(..).partition(closes);
            for bad in closed {
                bad.block.subtract(&region.block, |block| others.push(Bad { block, ..bad.clone() }));
                let both = bad.block.intersection(&region.block);
                others.extend(both.map(|block| Bad { block, group: None, ..bad }));
            }
            *bad = others;
        }
    }

    fn written(&self) -> impl Iterator<Item = &MemberRegion> {
        self.regions.iter().filter(|region| region.mode.writes())
    }

    /// Marks the parts that the member should have written as bad.
    pub(super) fn spoil(&self, bad: &mut Vec<Bad>, cause: &Arc<TaskFailure>) {
        self.mend(bad);
        for MemberRegion { data, block, mode, is_reduced, .. } in
            self.written().filter(|region| !region.block.is_empty())
        {
            let mut parts = vec![*block];
            if *is_reduced {
                // A part that is already bad keeps its own reason.
                for other in bad.iter().filter(|bad| bad.data == *data) {
                    for part in std::mem::take(&mut parts) {
                        part.subtract(&other.block, |part| parts.push(part));
                    }
                }
            }
            let group = is_reduced.then_some(*mode);
            bad.extend(parts.into_iter().map(|block| Bad { data: *data, block, cause: cause.clone(), group }));
        }
    }

    /// Removes the marks from the parts that the member writes, because these parts are now good, or bad for another
    /// reason. A reduction mends nothing, because the region has the contributions of its whole group.
    pub(super) fn mend(&self, bad: &mut Vec<Bad>) {
        for region in self.written().filter(|region| !region.is_reduced) {
            let (there, mut rest): (Vec<_>, Vec<_>) = bad.drain(..).partition(|bad| bad.is_in(region));
            for bad in there {
                bad.block.subtract(&region.block, |block| rest.push(Bad { block, ..bad.clone() }));
            }
            *bad = rest;
        }
    }
}
