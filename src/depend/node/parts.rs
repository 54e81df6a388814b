//! Interface of a task that stands for several: the data that it finds and leaves is good or bad part by part.
//!
//! Such a task neither gets poison along edges nor passes it on. Before it is run, it is told which parts of the data
//! it uses are lost. The parts that it leaves bad are marked as lost, with the cause, once it has been enqueued or
//! run.

use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use std::sync::Arc;

/// See the module documentation.
pub(crate) trait Parts {
    /// Returns a block around the `access`-th region that is to be allocated in one piece with it.
    fn hull(&self, access: usize) -> Block;

    /// Reports that this part of the data that the task uses is lost.
    fn is_lost(&self, data: DataId, block: &Block, cause: &Arc<TaskFailure>);

    /// Visits the parts that the task has not left as it should when it was enqueued or run.
    fn missing(&self, visit: &mut dyn FnMut(DataId, &Block, &Arc<TaskFailure>));

    /// Takes the failures since the last call.
    fn failures(&self) -> Vec<Arc<TaskFailure>>;
}
