//! Runtimes.

use crate::handles::{Table, get, insert, table, take};
use crate::status::{Problem, call, put, text, timed, tw_status};
use std::ffi::c_char;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::Runtime;
use thalweg::error::{RunError, SubmitError};

pub(crate) static RUNTIMES: Table<Arc<Handled>> = table();

/// A runtime that knows its handle.
pub(crate) struct Handled {
    rt: Runtime,
    /// The handle's number; 0 before it is known, and once it is released.
    id: AtomicU64,
}

impl Handled {
    /// Returns whether this is the runtime with a handle, so that the table need not be searched.
    #[inline]
    pub(crate) fn has_handle(&self, handle: tw_runtime) -> bool {
        handle.id != 0 && self.id.load(Ordering::Relaxed) == handle.id
    }
}

impl Deref for Handled {
    type Target = Runtime;

    #[inline]
    fn deref(&self) -> &Runtime {
        &self.rt
    }
}

/// A runtime.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_runtime {
    /// The handle's number; 0 is no runtime.
    pub id: u64,
}

/// Options of a runtime. A field that is zero has its default.
#[repr(C)]
#[derive(Debug)]
pub struct tw_options {
    /// `sizeof(tw_options)`.
    pub size: usize,
    /// The compute units, such as `"4:CPU:1,1:EMU:1"`; by default a CPU unit per core.
    pub units: *const c_char,
    /// The scheduler's name, such as `"eft"`.
    pub scheduler: *const c_char,
    /// The number of pending tasks from which a submission waits.
    pub max_pending_tasks: usize,
    /// The file to which a trace of the run is written; null if none is.
    pub trace: *const c_char,
    /// The memory that the runtime uses of each device, in bytes.
    pub device_memory_bytes: u64,
}

/// The work of a runtime since it was built.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_statistics {
    /// The number of tasks that have run.
    pub tasks: u64,
    /// The number of copies between memories.
    pub copies: u64,
    /// The number of bytes copied.
    pub bytes_copied: u64,
    /// The number of replicas that were evicted from a device's memory.
    pub evictions: u64,
    /// The time for which units ran bodies, in seconds, added up.
    pub busy_seconds: f64,
}

pub(crate) fn runtime(call: &str, rt: tw_runtime) -> Result<Arc<Handled>, Problem> {
    get(call, "runtime", &RUNTIMES, rt.id).map(|found| (*found).clone())
}

/// Builds a runtime. `options` may be null; it and its texts are read during the call.
///
/// # Safety
/// `options` is null or points to options of their `size`, whose texts are null or end with a zero byte; `rt` points to
/// a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_runtime_new(options: *const tw_options, rt: *mut tw_runtime) -> tw_status {
    const CALL: &str = "tw_runtime_new";
    call(|| {
        let mut builder = Runtime::builder();
        if !options.is_null() {
            // SAFETY: `options` begins with its size, by this function's contract.
            let size = unsafe { (*options).size };
            if size != size_of::<tw_options>() {
                let problem = format!("its options have a size of {size}; try `sizeof(tw_options)` of this version");
                return Err(Problem::invalid(CALL, &problem));
            }
            // SAFETY: the options have the size that was just checked.
            let options = unsafe { &*options };
            // SAFETY: the texts are null or end with a zero byte, by this function's contract; here and below.
            if let Some(units) = unsafe { text(CALL, "units", options.units) }? {
                builder = builder.compute_units(units);
            }
            // SAFETY: as above.
            if let Some(scheduler) = unsafe { text(CALL, "scheduler", options.scheduler) }? {
                builder = builder.scheduler(scheduler);
            }
            if options.max_pending_tasks > 0 {
                builder = builder.max_pending_tasks(options.max_pending_tasks);
            }
            if options.device_memory_bytes > 0 {
                builder = builder.device_memory_bytes(options.device_memory_bytes);
            }
            // SAFETY: as above.
            if let Some(trace) = unsafe { text(CALL, "trace", options.trace) }? {
                builder = builder.trace(trace);
            }
        }
        let handled = Arc::new(Handled { rt: builder.build()?, id: AtomicU64::new(0) });
        let id = insert(CALL, &RUNTIMES, handled.clone())?;
        handled.id.store(id, Ordering::Relaxed);
        // SAFETY: `rt` points to a variable, by this function's contract.
        unsafe { put(CALL, rt, tw_runtime { id }) }
    })
}

/// Waits for all tasks and ends the runtime. Data objects that were borrowed keep their memory until they are released.
///
/// Returns `TW_FAILED` if tasks have failed since the last call that waited. The handle is released even then, but not
/// by a call in a body, which is refused.
#[unsafe(no_mangle)]
pub extern "C" fn tw_runtime_free(rt: tw_runtime) -> tw_status {
    const CALL: &str = "tw_runtime_free";
    call(|| {
        use SubmitError::{InsideFork, InsidePolicy, InsideTask};
        let waited = runtime(CALL, rt)?.wait();
        if let Err(RunError::Refused(inside @ (InsideTask { .. } | InsideFork { .. } | InsidePolicy { .. }))) = waited {
            return Err(inside.into());
        }
        take(CALL, "runtime", &RUNTIMES, rt.id)?.id.store(0, Ordering::Relaxed);
        waited.map_err(Problem::from)
    })
}

/// Waits for all tasks. Returns `TW_FAILED` if tasks have failed since the last call that waited.
#[unsafe(no_mangle)]
pub extern "C" fn tw_wait(rt: tw_runtime) -> tw_status {
    call(|| runtime("tw_wait", rt)?.wait().map_err(Problem::from))
}

/// Waits for all tasks, at most for this time. Returns `TW_TIMEOUT` if some are not done.
#[unsafe(no_mangle)]
pub extern "C" fn tw_wait_timeout(rt: tw_runtime, seconds: f64) -> tw_status {
    const CALL: &str = "tw_wait_timeout";
    call(|| {
        let rt = runtime(CALL, rt)?;
        timed(CALL, seconds, "the tasks are", |time| rt.wait_timeout(time))
    })
}

/// Returns what a runtime has done since it was built.
///
/// # Safety
/// `statistics` points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_runtime_statistics(rt: tw_runtime, statistics: *mut tw_statistics) -> tw_status {
    const CALL: &str = "tw_runtime_statistics";
    call(|| {
        let found = runtime(CALL, rt)?.statistics();
        let value = tw_statistics {
            tasks: found.tasks.iter().map(|(_, tasks)| tasks).sum(),
            copies: found.links.iter().map(|link| link.copies).sum(),
            bytes_copied: found.links.iter().map(|link| link.bytes).sum(),
            evictions: found.evictions,
            busy_seconds: found.busy.iter().map(|(_, time)| time.as_secs_f64()).sum(),
        };
        // SAFETY: `statistics` points to a variable, by this function's contract.
        unsafe { put(CALL, statistics, value) }
    })
}
