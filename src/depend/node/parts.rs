//! Interface of a task that stands for several tasks: the data that it uses and produces is good or bad part by part.
//!
//! Such a task neither receives nor passes on poison along edges. Instead, before it is run, it is notified which parts
//! of the data that it uses are lost. Once it has been enqueued or run, the parts that it failed to produce are marked
//! as lost, with the cause.

use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use std::sync::Arc;

/// Part-by-part interface of a task; see the module documentation.
pub(crate) trait Parts {
    /// Returns a block that contains the `access`-th region and must be allocated as a single piece.
    fn hull(&self, access: usize) -> Block;

    /// Notifies the task that this part of the data that it uses is lost.
    fn is_lost(&self, data: DataId, block: &Block, cause: &Arc<TaskFailure>);

    /// Visits the parts that the task failed to produce when it was enqueued or run, with the cause.
    fn missing(&self, visit: &mut dyn FnMut(DataId, &Block, &Arc<TaskFailure>));

    /// Takes the failures that occurred since the last call.
    fn failures(&self) -> Vec<Arc<TaskFailure>>;
}
