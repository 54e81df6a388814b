//! What a task says and is told that stands for several: what it finds and leaves is good or bad part by part.
//!
//! No poison comes to such a task along edges, and none leaves it so. Before it is run it is told what is lost of what it uses;
//! what it leaves bad is lost in its turn, with the cause, once it has been enqueued or run.

use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use std::sync::Arc;

/// See the module.
pub(crate) trait Parts {
    /// What lies around the `access`-th region, to be had in one piece with it.
    fn hull(&self, access: usize) -> Block;

    /// This part of what it uses is lost.
    fn is_lost(&self, data: DataId, block: &Block, cause: &Arc<TaskFailure>);

    /// Visits what it has not left as it should, when it was enqueued or run.
    fn missing(&self, visit: &mut dyn FnMut(DataId, &Block, &Arc<TaskFailure>));

    /// The failures since the last call.
    fn failures(&self) -> Vec<Arc<TaskFailure>>;
}
