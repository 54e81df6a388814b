//! Explanations of replays: how the tasks were submitted, and why it was not faster.

use crate::depend::Mode;
use std::fmt;

/// How a replay was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Explanation {
    /// The recording has not been replayed yet.
    NotReplayed,
    /// The recording was replayed as a whole: the edges of its graph were determined once, and only its border is
    /// registered if other tasks were submitted in between.
    Frozen,
    /// On accelerators, `tasks` of the recorded tasks were combined into `graphs` submissions, each of which a device
    /// launches as a whole. From its third launch on, a submission uses a native graph of the device's interface, if
    /// the interface supports graphs and they are faster than separate launches. The other tasks were submitted one by
    /// one, for the reason `others`.
    Graphs {
        /// The number of submissions.
        graphs: usize,
        /// The number of tasks in these submissions.
        tasks: usize,
        /// The reason why the other tasks were submitted one by one; `None` if there are no others.
        others: Option<String>,
    },
    /// The tasks were submitted one by one, as if nothing had been recorded, for this reason.
    Resubmitted(String),
}

/// The reason why tasks of a recording are submitted one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The scheduler decides where each task runs, because there are devices or because it is a placing scheduler.
    Placement,
    /// Time is simulated.
    Simulation,
    /// The call was made inside a task's body.
    Body,
    /// The task graph is being recorded ([`Builder::record_graph`](crate::Builder::record_graph)).
    Graph,
    /// A task has a weak or accumulating access, which has to be resolved again for each replay.
    Access {
        /// The task's name.
        task: String,
        /// The mode of that access.
        mode: Mode,
    },
    /// The first or last accesses to a region do not order their tasks among themselves, so a task shares the region
    /// with a group of tasks that begins before the recording or continues after it.
    Group {
        /// The task's name.
        task: String,
        /// The mode of its access to the region.
        mode: Mode,
    },
    /// A task has no body that launches kernels on any accelerator: either it has no body for accelerators, or that
    /// body calls a device interface directly.
    Kernels {
        /// The task's name.
        task: String,
    },
    /// CPU units could run a task as well as accelerators.
    Units {
        /// The task's name.
        task: String,
    },
    /// A task could run on an emulated device.
    Emulated {
        /// The task's name.
        task: String,
    },
    /// Several devices could run some of the tasks that a task depends on, or that depend on it, in parallel.
    Parallel {
        /// The task's name.
        task: String,
    },
    /// A task has no neighbours in the graph that could be launched together with it.
    Alone {
        /// The task's name.
        task: String,
    },
    /// A task and its neighbours need more than half of a device's memory.
    Memory {
        /// The task's name.
        task: String,
    },
    /// The writers of a task's inputs are not known yet, because they are children of other tasks or accumulate into
    /// the inputs.
    Predecessors {
        /// The task's name.
        task: String,
    },
    /// A task is a member of a group, which must count the task in each replay.
    Member {
        /// The task's name.
        task: String,
    },
    /// A task runs across the devices of a unit.
    Devices {
        /// The task's name.
        task: String,
    },
    /// A task uses resources, so the host must start it.
    Resources {
        /// The task's name.
        task: String,
    },
    /// The recording has no tasks.
    Nothing,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReplayed => f.write_str("it has not been replayed yet"),
            Self::Frozen => f.write_str("it was replayed as a whole"),
            Self::Graphs { graphs, tasks, others } => {
                let s = if *graphs == 1 { "" } else { "s" };
                write!(f, "{tasks} of its tasks were submitted as {graphs} graph{s} of a device")?;
                others.as_ref().map_or(Ok(()), |why| write!(f, ", the others one by one: {why}"))
            }
            Self::Resubmitted(why) => write!(f, "its tasks were submitted one by one: {why}"),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placement => f.write_str("the scheduler decides where each of them runs"),
            Self::Simulation => f.write_str("time is simulated"),
            Self::Body => f.write_str("the call was made inside a task's body"),
            Self::Graph => f.write_str("the graph of all tasks is recorded"),
            Self::Access { task, mode } => write!(f, "task `{task}` has a {mode} access"),
            Self::Group { task, mode } => {
                write!(f, "the {mode} access of task `{task}` may belong to a group with tasks around the recording")
            }
            Self::Kernels { task } => write!(f, "task `{task}` has no body that launches kernels on any accelerator"),
            Self::Units { task } => write!(f, "CPU units could run task `{task}`"),
            Self::Emulated { task } => write!(f, "task `{task}` could run on an emulated device"),
            Self::Parallel { task } => {
                write!(f, "several devices could run predecessors or successors of task `{task}` in parallel")
            }
            Self::Alone { task } => write!(f, "task `{task}` has no neighbours to be launched with"),
            Self::Memory { task } => {
                write!(f, "task `{task}` and its neighbours take too much of the device's memory")
            }
            Self::Predecessors { task } => write!(f, "the writers of the inputs of task `{task}` are not known yet"),
            Self::Member { task } => write!(f, "task `{task}` is a member of a group"),
            Self::Devices { task } => write!(f, "task `{task}` runs across the devices of a unit"),
            Self::Resources { task } => write!(f, "task `{task}` uses resources"),
            Self::Nothing => f.write_str("it has no tasks"),
        }
    }
}
