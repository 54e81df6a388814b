//! Submission of tasks.

use crate::body::{Argument, Bound, Held, TW_MAX_ARGUMENT_BYTES, tw_body, tw_context};
use crate::data::{DATA, tw_data};
use crate::device::{add_bodies, tw_launch};
use crate::group::{GROUPS, SPACES, TASKS, tw_group, tw_space, tw_submitted};
use crate::handles::{get, insert};
use crate::runtime::{runtime, tw_runtime};
use crate::status::{Problem, call, entries, put, text, tw_status};
use crate::view::{TW_MAX_DIMS, view};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};
use thalweg::dynamic::{AnyAccess, AnyData, Op};
use thalweg::task::{Accesses, IterationSpace};
use thalweg::{CallSite, Context, Runtime, TaskBuilder, TaskGroup};

/// The mode of an access.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tw_mode {
    /// The task reads the region.
    TW_IN = 0,
    /// The task overwrites all of the region.
    TW_OUT = 1,
    /// The task reads and writes the region.
    TW_INOUT = 2,
    /// Like `TW_INOUT`, in any order with other commutative tasks, one at a time.
    TW_COMMUTATIVE = 3,
    /// The task is ordered as if it read the region, but gets no view.
    TW_AFTER = 4,
    /// The task's children may read the region.
    TW_WEAK_IN = 5,
    /// The task's children may read and write the region.
    TW_WEAK_INOUT = 6,
    /// The task adds to the region: its view is a private replica of zeros.
    TW_SUM = 7,
    /// The region gets the minimum.
    TW_MIN = 8,
    /// The region gets the maximum.
    TW_MAX = 9,
}

/// An access of a task.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_access {
    /// The data object.
    pub data: tw_data,
    /// A `tw_mode`. C passes any number as an enumeration, so it arrives as one.
    pub mode: u32,
    /// The number of leading dimensions that `lo` and `hi` limit; 0 for all of the data object.
    pub ndim: u32,
    /// The first index, per dimension.
    pub lo: [usize; TW_MAX_DIMS],
    /// The index after the last one, per dimension.
    pub hi: [usize; TW_MAX_DIMS],
}

/// A task. A field that is zero has its default.
#[repr(C)]
#[derive(Debug)]
pub struct tw_task {
    /// `sizeof(tw_task)`.
    pub size: usize,
    /// The name, in error messages and traces.
    pub name: *const c_char,
    /// The file that submits the task, for error messages and traces; `TW_TASK` sets it.
    pub file: *const c_char,
    /// The line in the file, counted from 1.
    pub line: u32,
    /// The accesses, which must not overlap if one of them writes.
    pub accesses: *const tw_access,
    /// The number of accesses.
    pub count: usize,
    /// The body for CPU units and emulated devices.
    pub body: tw_body,
    /// Launches of kernels, one after the other: the body for accelerators of all kinds.
    pub launches: *const tw_launch,
    /// The number of launches.
    pub launch_count: usize,
    /// The body for CUDA devices: it enqueues work on `tw_context_stream`, and does not wait for it. The views are in
    /// the device's memory. Without the feature `cuda` of the library, it is ignored.
    pub cuda: tw_body,
    /// The body for HIP devices, likewise.
    pub hip: tw_body,
    /// The argument of the body.
    pub argument: *const c_void,
    /// The number of bytes of the argument that are copied, at most `TW_MAX_ARGUMENT_BYTES`; 0 if the body gets the
    /// address as it is.
    pub argument_bytes: usize,
    /// A function that is called once with the argument's address, when the body is gone, whether it ran or not.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Whether the body runs on CPU units only, as it must if it waits for children.
    pub host_only: bool,
    /// Ready tasks with larger priorities go first.
    pub priority: i32,
    /// The amount of work, in any unit that is the same for all tasks; 0 if it is unknown.
    pub cost: f64,
    /// The group that the task joins.
    pub group: tw_group,
    /// The iteration space that the task belongs to.
    pub space: tw_space,
    /// The task's index in the iteration space.
    pub index: usize,
}

fn access(call: &str, access: &tw_access) -> Result<AnyAccess, Problem> {
    access_to(call, access, &get(call, "data object", &DATA, access.data.id)?.data)
}

/// Returns an access to the data object that it names.
#[inline]
fn access_to(call: &str, access: &tw_access, data: &AnyData) -> Result<AnyAccess, Problem> {
    let tw_access { mode, ndim, lo, hi, .. } = access;
    let (ndim, dimensions) = (*ndim as usize, data.ndim());
    if ndim > dimensions {
        let problem = format!("a region has {ndim} dimensions, and its data object {dimensions}; try as many or fewer");
        return Err(Problem::invalid(call, &problem));
    }
    let region = if ndim == 0 {
        data.all()
    } else {
        let ranges: [Range<usize>; TW_MAX_DIMS] = std::array::from_fn(|d| lo[d]..hi[d]);
        data.block(&ranges[..ndim])
    };
    const IN: u32 = tw_mode::TW_IN as u32;
    const OUT: u32 = tw_mode::TW_OUT as u32;
    const INOUT: u32 = tw_mode::TW_INOUT as u32;
    const COMMUTATIVE: u32 = tw_mode::TW_COMMUTATIVE as u32;
    const AFTER: u32 = tw_mode::TW_AFTER as u32;
    const WEAK_IN: u32 = tw_mode::TW_WEAK_IN as u32;
    const WEAK_INOUT: u32 = tw_mode::TW_WEAK_INOUT as u32;
    const SUM: u32 = tw_mode::TW_SUM as u32;
    const MIN: u32 = tw_mode::TW_MIN as u32;
    const MAX: u32 = tw_mode::TW_MAX as u32;
    Ok(match *mode {
        IN => region.input(),
        OUT => region.output(),
        INOUT => region.inout(),
        COMMUTATIVE => region.commutative(),
        AFTER => region.after(),
        WEAK_IN => region.weak_input(),
        WEAK_INOUT => region.weak_inout(),
        SUM => region.reduction(Op::Sum),
        MIN => region.reduction(Op::Min),
        MAX => region.reduction(Op::Max),
        _ => return Err(Problem::invalid(call, &format!("there is no mode {mode}; try `TW_INOUT`"))),
    })
}

/// Returns a task's name. The process keeps at most `MOST` names, because most programs use few.
///
/// # Safety
/// `name` is null or ends with a zero byte.
unsafe fn name(call: &str, name: *const c_char) -> Result<Cow<'static, str>, Problem> {
    const MOST: usize = 1 << 12;
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    if name.is_null() {
        return Ok(Cow::Borrowed("task"));
    }
    // SAFETY: as above.
    let name = unsafe { text(call, "name", name) }?.unwrap_or_default();
    // In a child of `fork` the lock may be taken for ever, so no thread waits for it.
    let Ok(mut names) = NAMES.try_lock() else { return Ok(Cow::Owned(name)) };
    match names.get(&*name) {
        Some(kept) => Ok(Cow::Borrowed(kept)),
        None if names.len() >= MOST => Ok(Cow::Owned(name)),
        None => {
            let kept = &*name.leak();
            names.insert(kept);
            Ok(Cow::Borrowed(kept))
        }
    }
}

/// The name and the place of a recent task.
#[derive(Clone, Copy)]
struct Recent {
    name: &'static str,
    file: &'static str,
    line: u32,
    site: CallSite,
}

/// Returns a task's name, and its place in the caller's program. Each thread keeps those of recent tasks, because
/// finding them takes locks. Their texts are compared, since an address may have another text by now.
///
/// # Safety
/// `task.name` and `task.file` are null or end with a zero byte.
unsafe fn texts(call: &str, task: &tw_task) -> Result<(Cow<'static, str>, Option<CallSite>), Problem> {
    const KEPT: usize = 64;
    thread_local! {
        static RECENT: [Cell<Option<Recent>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
    }
    let tw_task { file, line, .. } = *task;
    if task.name.is_null() || file.is_null() {
        // SAFETY: by this function's contract.
        let name = unsafe { name(call, task.name) }?;
        // SAFETY: as above.
        let file = unsafe { text(call, "file", file) }?;
        return Ok((name, file.map(|file| CallSite::named(&file, line, 1))));
    }
    let slot = (task.name.addr().wrapping_add(file.addr()) / size_of::<usize>()).wrapping_add(line as usize) % KEPT;
    let recent = RECENT.try_with(|recent| recent[slot].get()).ok().flatten().filter(|recent| recent.line == line);
    if let Some(Recent { name, file: named, site, .. }) = recent
        // SAFETY: by this function's contract, both texts end with a zero byte.
        && unsafe { is_text(name, task.name) && is_text(named, file) }
    {
        return Ok((Cow::Borrowed(name), Some(site)));
    }
    // SAFETY: as above.
    let (name, file) = unsafe { (name(call, task.name)?, text(call, "file", file)?) };
    let site = CallSite::named(&file.unwrap_or_default(), line, 1);
    if let Cow::Borrowed(name) = name {
        let found = Recent { name, file: site.file(), line, site };
        _ = RECENT.try_with(|recent| recent[slot].set(Some(found))); // the thread may be ending
    }
    Ok((name, Some(site)))
}

/// Returns whether a text of the caller equals one that is kept, in one pass.
///
/// # Safety
/// `text` ends with a zero byte.
unsafe fn is_text(kept: &str, text: *const c_char) -> bool {
    unsafe extern "C" {
        fn strncmp(one: *const c_char, other: *const c_char, most: usize) -> c_int;
    }
    // SAFETY: no more bytes are read than `kept` has, and none of `text` after its zero byte. A kept text comes from
    // one that ended with a zero byte, so it contains none: if all its bytes are equal, `text` has at least one more.
    unsafe { strncmp(text, kept.as_ptr().cast(), kept.len()) == 0 && *text.add(kept.len()) == 0 }
}

/// Where a task is submitted, as the caller names it.
enum Parent<'p> {
    Runtime(tw_runtime),
    Body(&'p tw_context),
}

/// Where a task is submitted.
enum Within<'p> {
    Runtime(&'p Runtime),
    Body(&'p Context),
}

/// The properties of a task that come from its texts and handles.
struct Found {
    name: Cow<'static, str>,
    site: Option<CallSite>,
    group: Option<TaskGroup>,
    space: Option<IterationSpace>,
}

/// # Safety
/// As for `tw_submit`.
unsafe fn find(call: &str, task: &tw_task) -> Result<Found, Problem> {
    // SAFETY: the texts are null or end with a zero byte, by this function's contract.
    let (name, site) = unsafe { texts(call, task) }?;
    let group = if task.group.id == 0 { None } else { Some(get(call, "group", &GROUPS, task.group.id)?.clone()) };
    let space = if task.space.id == 0 { None } else { Some(get(call, "space", &SPACES, task.space.id)?.clone()) };
    Ok(Found { name, site, group, space })
}

/// Begins a task, and sets everything but its bodies. It is inlined, because a call would move the builder.
#[inline(always)]
fn begin<'p, A: Accesses>(within: &Within<'p>, task: &tw_task, found: Found, accesses: A) -> TaskBuilder<'p, A> {
    let mut builder = match within {
        Within::Runtime(rt) => rt.task(found.name, accesses),
        Within::Body(context) => context.task(found.name, accesses),
    };
    builder = builder.priority(task.priority);
    if let Some(site) = found.site {
        builder = builder.submitted_at(site);
    }
    if task.cost != 0.0 {
        builder = builder.cost(task.cost);
    }
    if let Some(group) = &found.group {
        builder = builder.group(group);
    }
    if let Some(space) = &found.space {
        builder = builder.at(space, task.index);
    }
    builder
}

/// # Safety
/// As for `tw_submit`.
unsafe fn submit(
    call: &str,
    parent: &Parent<'_>,
    task: *const tw_task,
    submitted: *mut tw_submitted,
) -> Result<(), Problem> {
    if task.is_null() {
        return Err(Problem::invalid(call, "its task is null; try the address of a `tw_task`"));
    }
    // SAFETY: a task begins with its size, by this function's contract.
    let size = unsafe { (*task).size };
    if size != size_of::<tw_task>() {
        let problem = format!("its task has a size of {size}; try `TW_TASK`, or `sizeof(tw_task)` of this version");
        return Err(Problem::invalid(call, &problem));
    }
    // SAFETY: the task has the size that was just checked.
    let task = unsafe { &*task };
    let bytes = task.argument_bytes;
    if bytes > TW_MAX_ARGUMENT_BYTES || (bytes > 0 && task.argument.is_null()) {
        let problem = format!("its argument of {bytes} bytes cannot be copied");
        let help = format!("try at most {TW_MAX_ARGUMENT_BYTES} bytes, or 0 to pass the address as it is");
        return Err(Problem::invalid(call, &format!("{problem}; {help}")));
    }
    // SAFETY: the argument is as described, by this function's contract. From here on, it is dropped with the body,
    // even if the task is refused.
    let argument = unsafe { Argument::new(task.argument, bytes, task.destructor) };
    let is_on_devices = task.launch_count > 0 || task.cuda.is_some() || task.hip.is_some();
    if task.body.is_none() && !is_on_devices {
        return Err(Problem::invalid(call, "its task has no body; try setting `body`"));
    }
    // SAFETY: `accesses` has `count` entries, by this function's contract.
    let given = unsafe { entries(call, task.accesses, task.count, "its accesses are null") }?;
    // The runtime is that of the first data object in all tasks that are not refused, so it is seldom looked up. No
    // entry of a table is held during the submission, because bodies that run meanwhile on this thread may release it.
    let mut first = None;
    let rt;
    let within = match parent {
        Parent::Body(context) => Within::Body(of_cores(call, context)?),
        Parent::Runtime(handle) => {
            rt = match given.first().map(|one| get(call, "data object", &DATA, one.data.id)) {
                Some(Ok(object)) if object.rt.has_handle(*handle) => {
                    first = Some(access_to(call, &given[0], &object.data));
                    object.rt.clone()
                }
                _ => runtime(call, *handle)?,
            };
            Within::Runtime(&rt)
        }
    };
    let mut access = |index: usize| match first.take() {
        Some(first) if index == 0 => first,
        _ => access(call, &given[index]),
    };
    // SAFETY: the contracts are the same.
    let found = unsafe { find(call, task) }?;
    macro_rules! send {
        ($builder:expr) => {
            if submitted.is_null() {
                $builder.submit()?;
                Ok(())
            } else {
                let id = insert(call, &TASKS, $builder.submit_handle()?)?;
                // SAFETY: `submitted` points to a variable, by this function's contract.
                unsafe { put(call, submitted, tw_submitted { id }) }
            }
        };
    }
    // Sends a task with a body for cores, which gets views of this form.
    macro_rules! send_body {
        ($builder:expr, $argument:expr, $views:pat => $list:expr) => {{
            let bound = Bound { body: task.body.expect("as checked"), argument: $argument };
            if task.host_only {
                send!($builder.host(move |context, $views| bound.run(context, $list)))
            } else {
                send!($builder.cpu(move |context, $views| bound.run(context, $list)))
            }
        }};
    }
    // Up to three accesses are a tuple, because a list allocates memory three times per task.
    match given.len() {
        1 if !is_on_devices => {
            let builder = begin(&within, task, found, (access(0)?,));
            return send_body!(builder, Held::Own(argument), (a,) => &[view(&a)]);
        }
        2 if !is_on_devices => {
            let builder = begin(&within, task, found, (access(0)?, access(1)?));
            return send_body!(builder, Held::Own(argument), (a, b) => &[view(&a), view(&b)]);
        }
        3 if !is_on_devices => {
            let builder = begin(&within, task, found, (access(0)?, access(1)?, access(2)?));
            return send_body!(builder, Held::Own(argument), (a, b, c) => &[view(&a), view(&b), view(&c)]);
        }
        _ => {}
    }
    let accesses = (0..given.len()).map(access).collect::<Result<Vec<_>, _>>()?;
    let mut builder = begin(&within, task, found, accesses);
    let mut argument = Held::Own(argument);
    if is_on_devices {
        let Held::Own(own) = argument else { unreachable!("it was just made") };
        let shared = Arc::new(own);
        // SAFETY: the task is as described, by this function's contract.
        builder = unsafe { add_bodies(call, builder, task, &shared) }?;
        argument = Held::Shared(shared);
    }
    if task.body.is_none() {
        return send!(builder);
    }
    send_body!(builder, argument, views => &views.iter().map(view).collect::<SmallVec<[_; 6]>>())
}

/// Returns the context of a body for cores.
fn of_cores<'c>(call: &str, context: &'c tw_context) -> Result<&'c Context, Problem> {
    context.get().ok_or_else(|| Problem::invalid(call, "its context is that of a stream; try a body for cores"))
}

/// Submits a task: it runs as soon as the tasks that it depends on are done. `task`, its name, its accesses and an
/// argument that is copied are read during the call. `submitted` may be null.
///
/// The argument's destructor is called even if the task is refused, unless `size` or `argument_bytes` is wrong.
///
/// # Safety
/// `task` points to a task of its `size`, whose name and file are null or end with a zero byte, and which has `count`
/// accesses.
/// The argument has `argument_bytes` bytes; body and destructor may use it on any thread. The body uses its views only
/// while it runs, and writes only those that are writable. `submitted` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_submit(rt: tw_runtime, task: *const tw_task, submitted: *mut tw_submitted) -> tw_status {
    // SAFETY: the contracts are the same.
    call(|| unsafe { submit("tw_submit", &Parent::Runtime(rt), task, submitted) })
}

/// Submits a child of the running task, which may access the regions of its parent. See [`tw_submit`].
///
/// # Safety
/// As for [`tw_submit`]; `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_submit_child(
    context: *const tw_context,
    task: *const tw_task,
    submitted: *mut tw_submitted,
) -> tw_status {
    const CALL: &str = "tw_submit_child";
    // SAFETY: by this function's contract, a context that is not null is valid.
    call(|| match unsafe { context.as_ref() } {
        // SAFETY: the contracts are the same.
        Some(context) => unsafe { submit(CALL, &Parent::Body(context), task, submitted) },
        None => Err(Problem::invalid(CALL, "its context is null; try that of the body")),
    })
}

/// Waits for the children that the running body has submitted.
///
/// # Safety
/// `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_wait_children(context: *const tw_context) -> tw_status {
    const CALL: &str = "tw_wait_children";
    // SAFETY: by this function's contract, a context that is not null is valid.
    call(|| match unsafe { context.as_ref() } {
        Some(context) => of_cores(CALL, context)?.wait().map_err(Problem::from),
        None => Err(Problem::invalid(CALL, "its context is null; try that of the body")),
    })
}
