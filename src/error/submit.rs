//! Refusals of tasks and requests.

use super::Subject;
use crate::sync::CallSite;

/// The reason why a task or a request was refused. A refusal changes nothing. `Debug` writes the same text as
/// `Display`.
///
/// The error names the refused call: the call that submits the task, or the call that makes the request ([`Subject`]).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0u8; 10]).named("x");
/// let error = rt.task("t", (x.slice(5..11).output(),)).cpu(|_, _| ()).submit().unwrap_err();
/// assert!(matches!(error, SubmitError::OutOfBounds { .. }));
/// let words = error.to_string(); // cannot access region [5..11] of data `x` in `t` at src/main.rs:4:56: it is ..
/// assert!(words.starts_with("cannot access region [5..11] of data `x` in `t` at "));
/// assert!(words.ends_with(": it is out of bounds; try a region inside [0..10]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A region exceeds its data object.
    #[error("cannot access region {region} of {data} in {task}: it is out of bounds; try a region inside {shape}")]
    OutOfBounds {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The requested region.
        region: String,
        /// The whole of the data object.
        shape: String,
    },
    /// The task's cost is negative, infinite or NaN.
    #[error("cannot submit task {task}: its cost is {cost}; try a finite number, 0 or more")]
    Cost {
        /// The task.
        task: Subject,
        /// The cost.
        cost: f64,
    },
    /// The task uses a resource that it cannot get.
    #[error("cannot submit task {task}: {problem}")]
    Resource {
        /// The task.
        task: Subject,
        /// The use of the resource, the reason, and what to try.
        problem: String,
    },
    /// A `concurrent` region has gaps in memory.
    #[error(
        "cannot submit task {task}: region {region} of {data} is not contiguous in memory, which a concurrent \
         access needs; try whole rows"
    )]
    NotContiguous {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The requested region.
        region: String,
    },
    /// Two accesses of one task overlap and one of them writes.
    #[error(
        "cannot submit task {task}: its accesses to {first} and {second} of {data} overlap, and one of them \
         writes; try one access that covers both, or regions that do not overlap"
    )]
    OverlappingAccesses {
        /// The task.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The first region with its mode.
        first: String,
        /// The second region with its mode.
        second: String,
    },
    /// The data object belongs to another runtime.
    #[error("cannot access {data} in {task}: it is registered with another runtime; try a call of that one")]
    ForeignData {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
    },
    /// The task whose result is accessed was submitted to another runtime.
    #[error(
        "cannot submit task {task}: it uses the result of task `{producer}`, which was submitted to another runtime; try \
         submitting both to the same, or waiting for the result with `get`"
    )]
    ForeignResult {
        /// The task.
        task: Subject,
        /// The name of the task that returns the result.
        producer: String,
    },
    /// A recorded task uses the result of another task.
    #[error(
        "cannot record task {task}: it uses the result of a task, which exists once, but recorded tasks run any number \
         of times; try a value (`rt.value`), or a parameter of the recording"
    )]
    RecordedResult {
        /// The task.
        task: Subject,
    },
    /// A recorded task has an `outcome` access.
    #[error(
        "cannot record task {task}: it has an `outcome` access, but replays pass failures on as they were \
         recorded; try submitting it between replays"
    )]
    RecordedOutcome {
        /// The task.
        task: Subject,
    },
    /// A recording has no such parameter.
    #[error("cannot use parameter `{parameter}`: {problem}")]
    Parameter {
        /// The parameter's name.
        parameter: String,
        /// The problem, and what to try.
        problem: String,
    },
    /// A recording cannot be repeated, or not on this condition.
    #[error("cannot repeat a recording: {problem}")]
    Repeat {
        /// The problem, and what to try.
        problem: String,
    },
    /// The data object is no longer registered, because `take` has returned it.
    #[error("cannot access {data} in {task}: it was taken back from the runtime; try registering it again")]
    Taken {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
    },
    /// The task has no body at all.
    #[error("cannot submit task {task}: it has no body; try .cpu(..), .host(..), .emulated(..) or .gpu(..)")]
    NoBody {
        /// The task.
        task: Subject,
    },
    /// The task has no body for any unit of the machine.
    #[error(
        "cannot submit task {task}: it has only bodies for {bodies}, but the machine's units are {units}; try a body \
         for one of these"
    )]
    NoUnit {
        /// The task.
        task: Subject,
        /// The kinds of unit that the task has bodies for.
        bodies: String,
        /// The machine's configuration.
        units: String,
    },
    /// The task accesses a value, but has bodies only for devices.
    #[error(
        "cannot submit task {task}: it accesses {data}, which is in host memory, but has no body for CPU units; try \
         .cpu(..) or .host(..), or an array for the data that devices use"
    )]
    ValueOnDevice {
        /// The task.
        task: Subject,
        /// The value's name.
        data: String,
    },
    /// The task returns a result, but has a body for devices.
    #[error(
        "cannot submit task {task}: it returns a result, which only bodies for CPU units can do, but has a body for \
         devices; try two tasks"
    )]
    ResultOnDevice {
        /// The task.
        task: Subject,
    },
    /// The task has an `outcome` access and a body for accelerators.
    #[error(
        "cannot submit task {task}: it has an `outcome` access and a body for accelerators, which would be called \
         before the kernels enqueued before it have ended; try only .host(..) or .cpu(..)"
    )]
    OutcomeOnDevice {
        /// The task.
        task: Subject,
    },
    /// No memory that the task could run in is large enough for its data.
    #[error(
        "cannot make room for the data of {task}: it needs {needed_bytes} bytes at once, and the largest memory it could \
         use has {capacity_bytes}; try smaller regions, or units with more memory"
    )]
    WorkingSet {
        /// The task.
        task: Subject,
        /// The sum of the sizes of the task's regions.
        needed_bytes: u64,
        /// The largest capacity among the memories of the units that the task could run on.
        capacity_bytes: u64,
    },
    /// A task across devices has a reduction. A reduction has a single result, but the devices have no order in which
    /// to combine into it.
    #[error(
        "cannot submit task {task} across devices: it has a reduction on {data}, and its devices have no order to combine \
         in; try an output for each part, and a task that combines them"
    )]
    ReductionAcrossDevices {
        /// The task.
        task: Subject,
        /// The data object.
        data: String,
    },
    /// The task was assigned to a device that cannot run it.
    #[error("cannot submit task {task} to {device}: {problem}")]
    Device {
        /// The task.
        task: Subject,
        /// The device.
        device: String,
        /// The reason, and what to try.
        problem: String,
    },
    /// A region exceeds the largest single allocation of every device that the task could run on.
    #[error(
        "cannot submit task {task}: {region} takes {needed_bytes} bytes in one piece, and the devices that it could use \
         allocate {largest_bytes} at once; try smaller regions, or a body for other units"
    )]
    RegionTooLarge {
        /// The task.
        task: Subject,
        /// The region.
        region: String,
        /// The size of the region.
        needed_bytes: u64,
        /// The largest single allocation that a device of these units supports.
        largest_bytes: u64,
    },
    /// The task's index is outside its iteration space.
    #[error("cannot submit task {task}: index {index} is outside iteration space `{space}`; try one below {len}")]
    Index {
        /// The task.
        task: Subject,
        /// The space's name.
        space: String,
        /// The requested index.
        index: usize,
        /// The number of indices.
        len: usize,
    },
    /// Two accesses of a loop have different numbers of iterations.
    #[error(
        "cannot submit loop {task}: it would have {first_len} iterations by {first}, and {second_len} by {second}; try \
         parts of matching sizes"
    )]
    Lengths {
        /// The loop.
        task: Subject,
        /// The range of the first access.
        first: String,
        /// The number of iterations that this range gives.
        first_len: usize,
        /// The range of the second access.
        second: String,
        /// The number of iterations that this range gives.
        second_len: usize,
    },
    /// No access determines the number of iterations of a loop.
    #[error(
        "cannot submit loop {task}: all its accesses are the same in every iteration, so the number of iterations is \
         unknown; try an access to a partition, such as x.blocks(n).inout(), or a range, such as 0..n"
    )]
    NoLength {
        /// The loop.
        task: Subject,
    },
    /// Pieces of a loop write the same elements.
    #[error(
        "cannot split loop {task}: two of its pieces write {first} and {second} of `{array}`, which overlap; try a loop whose \
         outermost variable is the first index, or `{}::task`",
        task.name()
    )]
    Split {
        /// The function.
        task: Subject,
        /// The parameter's name.
        array: String,
        /// The elements that one piece writes.
        first: String,
        /// The elements that another piece writes.
        second: String,
    },
    /// A child accesses a region that its parent has not declared for its children.
    #[error(
        "cannot submit child {task} of `{parent}`: its access to {region} of {data} is outside the regions that \
         `{parent}` has declared for its children ({held}); try declaring the region by `weak_inout` or `weak_input` \
         in `{parent}`"
    )]
    Uncovered {
        /// The child.
        task: Subject,
        /// The parent's name.
        parent: String,
        /// The data object's name.
        data: String,
        /// The requested region, with its mode.
        region: String,
        /// The regions of the data object that the parent has declared for its children, with their modes.
        held: Box<str>,
    },
    /// A child is submitted on a thread that is not running the body of any task of this runtime.
    #[error(
        "cannot submit child {task}: this thread is not running any part of a task's body; try submitting it from the \
         body's own thread, or from rayon's threads in its unit"
    )]
    NoParent {
        /// The child.
        task: Subject,
    },
    /// A task submitted from a body accesses a region that the body's task, or one of its ancestors, holds.
    #[error(
        "cannot access {region} of {data} in {task} inside task `{ancestor}`: it conflicts with {held}, which \
         `{ancestor}` holds together with the tasks submitted inside it; try the view that the body has, other data, \
         or a child (`cx.task`) of a task that declares the region as weak"
    )]
    Nested {
        /// The task.
        task: Subject,
        /// The name of the task whose body submits the refused task, directly or through other tasks that the body
        /// submits.
        ancestor: String,
        /// The data object's name.
        data: String,
        /// The requested region, with its mode.
        region: String,
        /// The region that the ancestor declared, with its mode.
        held: Box<str>,
    },
    /// A task that is replayed as a whole, or one of its children, waits for something that does not descend from the
    /// same recorded task and so may come after the replay. The replay cannot end before this task, so the wait might
    /// never end. For the same reason, `submit` refuses a child that uses the result of such a task.
    #[error(
        "cannot `{call}` inside a task that is replayed as a whole: it might wait for a task after the replay, which \
         ends after this task; try waiting for children of this task, as `Context::wait` does, or calling it outside"
    )]
    InsideReplay {
        /// The method.
        call: &'static str,
    },
    /// A waiting call inside one of the two closures of [`Context::join`](crate::Context::join). The calling thread may
    /// belong to another unit, and could not leave the closure while it waits.
    #[error("cannot `{call}` inside a call of `Context::join`; try it in the body, before or after the fork")]
    InsideFork {
        /// The method.
        call: &'static str,
    },
    /// A waiting call in a part of a task that cannot be suspended. Such parts are a body on a device (which would hold
    /// the device's memory while it waits), a destructor, the operation of a reduction, and a thread of the unit that
    /// helps the body.
    #[error(
        "cannot `{call}` here: a body on a device, a destructor, an operation of a reduction and threads that help a body \
         cannot wait for tasks; try giving the task's body by `host`, which no device runs, and calling it there"
    )]
    Unsuspended {
        /// The method.
        call: &'static str,
    },
    /// A call inside a task's body that would wait for the very task that makes the call.
    #[error(
        "cannot `{call}` inside a task's body: it would wait for the very task that calls it; try calling it outside, or \
         submitting a task that uses the value"
    )]
    InsideTask {
        /// The method.
        call: &'static str,
    },
    /// A body waits for something that itself waits for the end of the body's task. This error also occurs if the body
    /// waits for another runtime in code that cannot release its unit (a body on a device, a destructor), and such code
    /// occupies all units of the runtimes that wait for each other.
    #[error(
        "cannot `{call}` inside task `{task}`, submitted at {submitted_at}: it would wait forever, as {way}; try \
         waiting outside, or submitting the tasks after it as children of `{task}`"
    )]
    Circular {
        /// The method.
        call: String,
        /// The name of the task whose body waits.
        task: String,
        /// The source location where that task was submitted.
        submitted_at: CallSite,
        /// The chain of tasks that wait for it, each with its source location and the reason why it waits: an access to
        /// a region, or a wait in its body. Alternatively, the tasks whose code occupies the units.
        way: Box<str>,
    },
    /// A body waits, but its thread cannot begin another task during the wait, because the system has no memory for
    /// another stack.
    #[error(
        "cannot `{call}` inside task `{task}`, submitted at {submitted_at}: other tasks may have to run first, and \
         there is no memory for a stack in addition to the {stacks} of waiting bodies; try fewer bodies that wait at a \
         time, smaller stacks (`Builder::stack_bytes`), or a larger limit of address space or of mappings"
    )]
    NoStack {
        /// The method.
        call: String,
        /// The name of the task whose body waits.
        task: String,
        /// The source location where that task was submitted.
        submitted_at: CallSite,
        /// The number of stacks in the process.
        stacks: usize,
    },
    /// A policy calls the runtime while the runtime is waiting for the policy's answer.
    #[error(
        "cannot `{call}` in a policy's call: the runtime waits for the policy's answer; try deciding from the \
         policy's arguments"
    )]
    InsidePolicy {
        /// The method.
        call: &'static str,
    },
    /// The runtime has ended.
    #[error("cannot use the runtime: it was shut down or dropped; try this call before that")]
    ShutDown,
    /// This process was created by `fork`, and its parent built the runtime. The runtime's threads exist only in the
    /// parent.
    #[error(
        "cannot use this runtime in a child of `fork`: its threads exist only in the parent process; try building a \
         runtime in the child, or forking before the first one is built"
    )]
    Forked,
    /// An internal thread of the runtime died because of a bug in the runtime.
    #[error("{problem}; tasks may never finish, so nothing more is accepted or waited for. This is a bug in thalweg")]
    Broken {
        /// The name of the thread, and its error.
        problem: String,
    },
    /// The program abandoned the runtime ([`Runtime::abandon`](crate::Runtime::abandon)).
    #[error("cannot use the runtime: it was abandoned, and bodies of it may still run; try building another one")]
    Abandoned,
    /// The task's group was cancelled.
    #[error("cannot submit task {task}: its group was cancelled; try a new group")]
    Cancelled {
        /// The task.
        task: Subject,
    },
    /// The task's group belongs to another runtime.
    #[error("cannot submit task {task}: its group belongs to another runtime; try a group of this one")]
    ForeignGroup {
        /// The task.
        task: Subject,
    },
    /// A body waits for a group that its own task is a member of.
    #[error(
        "cannot wait for a group inside task `{task}`, which is a member of it and would wait for itself; try a separate \
         group for the awaited tasks"
    )]
    InsideGroup {
        /// The task's name.
        task: String,
    },
    /// An array that is lent to a scope is not stored row by row.
    #[error(
        "cannot borrow an array of shape {shape:?} with strides {strides:?}: {problem}; try borrowing the array that it is \
         a view of, with regions of that, or a copy in standard layout"
    )]
    Layout {
        /// The number of elements along each dimension.
        shape: Vec<usize>,
        /// The stride of each dimension, in elements.
        strides: Vec<isize>,
        /// The reason why the array cannot be borrowed.
        problem: &'static str,
    },
    /// The runtime cannot be shut down or abandoned while a scope is open: the scope needs it to copy lent arrays back
    /// to the host, and its tasks use memory of the program.
    #[error("cannot `{call}` while a scope of the runtime is open; try calling it after `Runtime::scope` has returned")]
    InsideScope {
        /// The method.
        call: &'static str,
    },
    /// A region in this memory cannot be exported.
    #[error("cannot lend {data} in {space}: {problem}")]
    Lend {
        /// The data object's name.
        data: String,
        /// The address space.
        space: String,
        /// The reason, and what to try.
        problem: String,
    },
    /// The elements of a data object do not have the operation of a reduction.
    #[error("cannot access {data} in {task}: its elements are {elements}, which have no {operation}; try `inout`")]
    NoOperation {
        /// The task's name.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The operation.
        operation: String,
        /// The type of the elements.
        elements: String,
    },
    /// No data object can have this shape and element type.
    #[error("cannot register an array of shape {shape:?} of {elements}: {problem}")]
    NoArray {
        /// The type of the elements.
        elements: String,
        /// The number of elements along each dimension.
        shape: Vec<usize>,
        /// The reason, and what to try.
        problem: &'static str,
    },
    /// A region is written from a different number of bytes.
    #[error("cannot write a region of shape {shape:?} from {given} bytes: it has {needed}; try as many")]
    Bytes {
        /// The number of bytes given.
        given: usize,
        /// The number of bytes of the region.
        needed: usize,
        /// The region's extent in each dimension.
        shape: Vec<usize>,
    },
    /// The address space does not exist.
    #[error("cannot copy to {space}: the machine has {count} address spaces; try one that `Machine::spaces` lists")]
    NoSuchSpace {
        /// The requested space.
        space: String,
        /// The number of address spaces of the machine.
        count: usize,
    },
}
