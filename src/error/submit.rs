//! Refusals: a task or a request that was not accepted.

use super::Subject;
use std::fmt;
use std::panic::Location;

/// Why a task or a request was refused; nothing was changed. `Debug` writes the same text as `Display`.
///
/// A refusal of a task names the call that submits it; a refusal of a request names that call ([`Subject`]).
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
    /// A region reaches past its data object.
    #[error("cannot access region {region} of {data} in {task}: it is out of bounds; try a region inside {shape}")]
    OutOfBounds {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The region asked for.
        region: String,
        /// The whole of the data object.
        shape: String,
    },
    /// The task's cost is negative, infinite or NaN.
    #[error("cannot submit task {task}: its cost is {cost}; try a finite number from 0 upwards")]
    Cost {
        /// The task.
        task: Subject,
        /// The cost.
        cost: f64,
    },
    /// A `concurrent` region has gaps in memory.
    #[error(
        "cannot submit task {task}: region {region} of {data} is not contiguous in memory, which a concurrent access \
         needs; try whole rows"
    )]
    NotContiguous {
        /// The task, or the request.
        task: Subject,
        /// The data object's name.
        data: String,
        /// The region asked for.
        region: String,
    },
    /// Two accesses of one task overlap and one of them writes.
    #[error(
        "cannot submit task {task}: its accesses to {first} and {second} of {data} overlap, and one of them writes; \
         try one access that covers both, or regions that do not overlap"
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
    /// The task was submitted to another runtime.
    #[error("cannot wait for task `{task}`: it was submitted to another runtime; try waiting for it there")]
    ForeignTask {
        /// The task's name.
        task: String,
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
        "cannot record task {task}: it uses the result of a task, which is there once, and recorded tasks run any number \
         of times; try a value (`rt.value`), or a parameter of the recording"
    )]
    RecordedResult {
        /// The task.
        task: Subject,
    },
    /// A recorded task has an `outcome` access.
    #[error(
        "cannot record task {task}: it has an `outcome` access, and replays pass failures on as they were recorded; try \
         submitting it between replays"
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
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The data object was given back by `take`.
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
        "cannot submit task {task}: it has bodies for {bodies} only, and the machine's units are {units}; try a body \
         for one of these"
    )]
    NoUnit {
        /// The task.
        task: Subject,
        /// The kinds it has bodies for.
        bodies: String,
        /// The machine's configuration.
        units: String,
    },
    /// The task accesses a value and has bodies for devices alone.
    #[error(
        "cannot submit task {task}: it accesses {data}, which lives in host memory, and has no body for CPU units; try \
         .cpu(..) or .host(..), or an array for what devices work on"
    )]
    ValueOnDevice {
        /// The task.
        task: Subject,
        /// The value's name.
        data: String,
    },
    /// The task returns a result and has a body for devices.
    #[error(
        "cannot submit task {task}: it returns a result, which bodies for CPU units alone do, and has a body for devices; \
         try two tasks"
    )]
    ResultOnDevice {
        /// The task.
        task: Subject,
    },
    /// The task has an `outcome` access and a body for accelerators.
    #[error(
        "cannot submit task {task}: it has an `outcome` access and a body for accelerators, which would be called before the \
         kernels enqueued before it have ended; try .host(..) or .cpu(..) alone"
    )]
    OutcomeOnDevice {
        /// The task.
        task: Subject,
    },
    /// No memory that the task could run in is large enough for its data.
    #[error(
        "cannot make room for the data of {task}: it needs {needed_bytes} bytes at once, and the largest device memory it \
         could use has {capacity_bytes}; try smaller regions, or units with more memory"
    )]
    WorkingSet {
        /// The task.
        task: Subject,
        /// The sum of its regions' sizes.
        needed_bytes: u64,
        /// The largest capacity among its units' memories.
        capacity_bytes: u64,
    },
    /// A task across devices has a reduction, which has one result.
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
    /// The task is for a device that can not run it.
    #[error("cannot submit task {task} to {device}: {problem}")]
    Device {
        /// The task.
        task: Subject,
        /// The device.
        device: String,
        /// Why it can not run there, and what would help.
        problem: String,
    },
    /// A region is larger than what any device that the task could run on allocates at once.
    #[error(
        "cannot submit task {task}: {region} takes {needed_bytes} bytes in one piece, and the devices that it could use \
         allocate {largest_bytes} at once; try smaller regions, or a body for other units"
    )]
    RegionTooLarge {
        /// The task.
        task: Subject,
        /// The region.
        region: String,
        /// Its size.
        needed_bytes: u64,
        /// The most that one of its units' devices allocates at once.
        largest_bytes: u64,
    },
    /// An index outside its iteration space.
    #[error("cannot submit task {task}: index {index} is outside iteration space `{space}`; try one below {len}")]
    Index {
        /// The task.
        task: Subject,
        /// The space's name.
        space: String,
        /// The index asked for.
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
        /// What the first one goes over.
        first: String,
        /// How many parts or numbers that has.
        first_len: usize,
        /// What the second one goes over.
        second: String,
        /// How many parts or numbers that has.
        second_len: usize,
    },
    /// Nothing says how many iterations a loop has.
    #[error(
        "cannot submit loop {task}: all its accesses are the same in every iteration, so that nothing says how many \
         there are; try an access to a partition, such as x.blocks(n).inout(), or a range, such as 0..n"
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
        /// What one piece writes.
        first: String,
        /// What another one writes.
        second: String,
    },
    /// A child accesses what its parent has not declared for its children.
    #[error(
        "cannot submit child {task} of `{parent}`: its access to {region} of {data} is outside what `{parent}` has \
         declared for its children ({held}); try declaring the region by `weak_inout` or `weak_input` in `{parent}`"
    )]
    Uncovered {
        /// The child.
        task: Subject,
        /// The parent's name.
        parent: String,
        /// The data object's name.
        data: String,
        /// The region asked for, with its mode.
        region: String,
        /// What the parent has declared of the data object for its children, with its modes.
        held: Box<str>,
    },
    /// A child is submitted where no body of a task of this runtime runs.
    #[error(
        "cannot submit child {task}: this thread runs no part of a task's body; try submitting it from the body's own \
         thread, or from rayon's threads in its unit"
    )]
    NoParent {
        /// The child.
        task: Subject,
    },
    /// A task submitted from a body accesses what that body's task holds, or one of its ancestors.
    #[error(
        "cannot access {region} of {data} in {task} inside task `{ancestor}`: it conflicts with {held}, which \
         `{ancestor}` holds with all that is submitted inside it; try the view that the body has, other data, or a child \
         (`cx.task`) of a task that declares the region as weak"
    )]
    Nested {
        /// The task.
        task: Subject,
        /// The name of the task whose body submits it, directly or through tasks submitted there.
        ancestor: String,
        /// The data object's name.
        data: String,
        /// The region asked for, with its mode.
        region: String,
        /// The region that the ancestor declared, with its mode.
        held: Box<str>,
    },
    /// A wait inside a task that is replayed as a whole, in its body or in a child: for something that does not descend from
    /// the same recorded task, and so may come after the replay. The replay ends after this task, so the wait might never end.
    /// `submit` is refused in the same way to a child that uses the result of such a task.
    #[error(
        "cannot `{call}` inside a task that is replayed as a whole: what it waits for may come after the replay, which \
         ends after this task; try waiting for children of this task, as `Context::wait` does, or calling it outside"
    )]
    InsideReplay {
        /// The method.
        call: &'static str,
    },
    /// A waiting call inside one of the calls that a body has forked into ([`Context::join`](crate::Context::join)): the thread
    /// that makes it, which may be another unit's, could not leave it.
    #[error("cannot `{call}` inside a call of `Context::join`; try it in the body, before the fork or behind it")]
    InsideFork {
        /// The method.
        call: &'static str,
    },
    /// A waiting call in a part of a task that cannot be suspended: a body on a device, which would wait with the device's
    /// memory, a destructor, the operation of a reduction, or a thread of the unit's that helps the body.
    #[error(
        "cannot `{call}` here: a body on a device, a destructor, an operation of a reduction and threads that help a body \
         cannot wait for tasks; try giving the task's body by `host`, which no device runs, and calling it there"
    )]
    Unsuspended {
        /// The method.
        call: &'static str,
    },
    /// A waiting call inside a task's body, which would wait for the very task that calls it.
    #[error(
        "cannot `{call}` inside a task's body: it would wait for the very task that calls it; try calling it outside, or \
         submitting a task that uses the value"
    )]
    InsideTask {
        /// The method.
        call: &'static str,
    },
    /// A body waits for what waits for the end of its own task; or for another runtime, in code that keeps its unit (a body on a
    /// device, a destructor), and all units of the runtimes that wait for each other are kept so.
    #[error(
        "cannot `{call}` inside task `{task}`, submitted at {submitted_at}: it would wait for ever, as {way}; try waiting \
         outside, or making what follows a child of `{task}`"
    )]
    Circular {
        /// The method.
        call: String,
        /// The name of the task whose body waits.
        task: String,
        /// Where that was submitted.
        submitted_at: &'static Location<'static>,
        /// Who comes behind it, by which access to which region or by waiting in its turn, and where that was submitted; or whose
        /// code keeps the units.
        way: Box<str>,
    },
    /// A body waits, and its thread can begin no other task meanwhile: the system gives no memory for another stack.
    #[error(
        "cannot `{call}` inside task `{task}`, submitted at {submitted_at}: other tasks may have to run first, and there is no \
         memory for a stack besides the {stacks} of bodies that wait; try fewer bodies that wait at a time, smaller stacks \
         (`Builder::stack_bytes`), or a larger limit of address space or of mappings"
    )]
    NoStack {
        /// The method.
        call: String,
        /// The name of the task whose body waits.
        task: String,
        /// Where that was submitted.
        submitted_at: &'static Location<'static>,
        /// The number of stacks in the process.
        stacks: usize,
    },
    /// A policy calls the runtime that waits for its answer.
    #[error(
        "cannot `{call}` in a policy's call: the runtime waits for the policy's answer; try deciding from what the \
         policy is told"
    )]
    InsidePolicy {
        /// The method.
        call: &'static str,
    },
    /// The runtime has ended.
    #[error("cannot use the runtime: it was shut down or dropped; try this call before that")]
    ShutDown,
    /// This process was made by `fork`, and the runtime by its parent. The runtime's threads are in the parent alone.
    #[error(
        "cannot use this runtime in a child of `fork`: its threads are in the parent process alone; try building a \
         runtime in the child, or forking before the first one is built"
    )]
    Forked,
    /// A thread of the runtime's own died of an error in the runtime.
    #[error(
        "{problem}; tasks may never finish, so nothing more is accepted or waited for. This is an error in thalweg"
    )]
    Broken {
        /// Which thread it was, and what it died of.
        problem: String,
    },
    /// The task's group was cancelled.
    #[error("cannot submit task {task}: its group was cancelled; try a new group")]
    Cancelled {
        /// The task.
        task: Subject,
    },
    /// The task's group belongs to another runtime.
    #[error("cannot submit task {task}: its group is another runtime's; try a group of this one")]
    ForeignGroup {
        /// The task.
        task: Subject,
    },
    /// A body waits for a group that its own task is a member of.
    #[error(
        "cannot wait for a group inside task `{task}`, which is a member of it and would wait for itself; try a group of \
         its own for what is waited for"
    )]
    InsideGroup {
        /// The task's name.
        task: String,
    },
    /// An array that is lent to a scope does not lie in memory row by row.
    #[error(
        "cannot borrow an array of shape {shape:?} with strides {strides:?}: {problem}; try borrowing the array that it is \
         a view of, with regions of that, or a copy in standard layout"
    )]
    Layout {
        /// The number of elements along each dimension.
        shape: Vec<usize>,
        /// The number of elements from one index to the next, for each dimension.
        strides: Vec<isize>,
        /// What is in the way.
        problem: &'static str,
    },
    /// The runtime is to end while a scope lasts, which needs it to bring home what it has lent.
    #[error("cannot `{call}` while a scope of the runtime lasts; try calling it after `Runtime::scope` has returned")]
    InsideScope {
        /// The method.
        call: &'static str,
    },
    /// What lies in a memory can't be lent out.
    #[error("cannot lend {data} in {space}: {problem}")]
    Lend {
        /// The data object's name.
        data: String,
        /// The address space.
        space: String,
        /// Why, and what would work.
        problem: String,
    },
    /// The address space does not exist.
    #[error("cannot copy to {space}: the machine has {count} address spaces; try one that `Machine::spaces` lists")]
    NoSuchSpace {
        /// What was asked for.
        space: String,
        /// How many there are.
        count: usize,
    },
}

impl fmt::Debug for SubmitError {
    /// As `Display`, so that `unwrap` shows a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
