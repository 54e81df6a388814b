//! Groups of tasks, iteration spaces, and handles of submitted tasks.

use crate::handles::{Table, get, insert, table, take};
use crate::runtime::{runtime, tw_runtime};
use crate::status::{Problem, call, entries, put, text, timed, tw_status};
use std::ffi::c_char;
use thalweg::task::IterationSpace;
use thalweg::{TaskGroup, TaskHandle};

pub(crate) static GROUPS: Table<TaskGroup> = table();
pub(crate) static SPACES: Table<IterationSpace> = table();
pub(crate) static TASKS: Table<TaskHandle> = table();

/// A group of tasks, which a program waits for or cancels together.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_group {
    /// The handle's number; 0 is no group.
    pub id: u64,
}

/// An iteration space: tasks that recur in each time step, which schedulers distribute.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_space {
    /// The handle's number; 0 is no space.
    pub id: u64,
}

/// A submitted task.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_submitted {
    /// The handle's number; 0 is no task.
    pub id: u64,
}

/// Makes a group.
///
/// # Safety
/// `group` points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_group_new(rt: tw_runtime, group: *mut tw_group) -> tw_status {
    const CALL: &str = "tw_group_new";
    call(|| {
        let id = insert(CALL, &GROUPS, runtime(CALL, rt)?.group())?;
        // SAFETY: `group` points to a variable, by this function's contract.
        unsafe { put(CALL, group, tw_group { id }) }
    })
}

/// Waits for the group's tasks.
#[unsafe(no_mangle)]
pub extern "C" fn tw_group_wait(group: tw_group) -> tw_status {
    call(|| {
        let group = get("tw_group_wait", "group", &GROUPS, group.id)?.clone();
        group.wait().map_err(Problem::from)
    })
}

/// Waits for the group's tasks, at most for this time. Returns `TW_TIMEOUT` if some are not done.
#[unsafe(no_mangle)]
pub extern "C" fn tw_group_wait_timeout(group: tw_group, seconds: f64) -> tw_status {
    const CALL: &str = "tw_group_wait_timeout";
    call(|| {
        let group = get(CALL, "group", &GROUPS, group.id)?.clone();
        timed(CALL, seconds, "the group's tasks are", |time| group.wait_timeout(time))
    })
}

/// Cancels the group: tasks that have not begun are skipped, and no more are accepted.
#[unsafe(no_mangle)]
pub extern "C" fn tw_group_cancel(group: tw_group) -> tw_status {
    call(|| {
        get("tw_group_cancel", "group", &GROUPS, group.id)?.cancel();
        Ok(())
    })
}

/// Releases the handle of a group. Its tasks go on.
#[unsafe(no_mangle)]
pub extern "C" fn tw_group_free(group: tw_group) -> tw_status {
    call(|| take("tw_group_free", "group", &GROUPS, group.id).map(drop))
}

/// Makes an iteration space with one index per weight. The weights are read during the call.
///
/// # Safety
/// `weights` points to `count` numbers, `name` is null or ends with a zero byte, and `space` points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_space_new(
    name: *const c_char,
    weights: *const f64,
    count: usize,
    space: *mut tw_space,
) -> tw_status {
    const CALL: &str = "tw_space_new";
    call(|| {
        // SAFETY: the text is null or ends with a zero byte, by this function's contract.
        let name = unsafe { text(CALL, "name", name) }?.unwrap_or_else(|| "space".to_owned());
        // SAFETY: `weights` has `count` numbers, by this function's contract.
        let weights = unsafe { entries(CALL, weights, count, "its weights are null") }?.to_vec();
        if let Some(wrong) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
            return Err(Problem::invalid(CALL, &format!("a weight is {wrong}; try finite numbers, 0 or more")));
        }
        let id = insert(CALL, &SPACES, IterationSpace::new(name, weights))?;
        // SAFETY: `space` points to a variable, by this function's contract.
        unsafe { put(CALL, space, tw_space { id }) }
    })
}

/// Begins the next time step of an iteration space.
#[unsafe(no_mangle)]
pub extern "C" fn tw_space_begin(space: tw_space) -> tw_status {
    call(|| {
        get("tw_space_begin", "space", &SPACES, space.id)?.begin();
        Ok(())
    })
}

/// Releases an iteration space.
#[unsafe(no_mangle)]
pub extern "C" fn tw_space_free(space: tw_space) -> tw_status {
    call(|| take("tw_space_free", "space", &SPACES, space.id).map(drop))
}

/// Waits for a task. Returns `TW_FAILED` if it has failed.
#[unsafe(no_mangle)]
pub extern "C" fn tw_submitted_wait(task: tw_submitted) -> tw_status {
    call(|| {
        let task = get("tw_submitted_wait", "task", &TASKS, task.id)?.clone();
        task.wait().map_err(Problem::from)
    })
}

/// Waits for a task, at most for this time. Returns `TW_TIMEOUT` if it is not done, and `TW_FAILED` if it has failed.
#[unsafe(no_mangle)]
pub extern "C" fn tw_submitted_wait_timeout(task: tw_submitted, seconds: f64) -> tw_status {
    const CALL: &str = "tw_submitted_wait_timeout";
    call(|| {
        let task = get(CALL, "task", &TASKS, task.id)?.clone();
        timed(CALL, seconds, "the task is", |time| task.wait_timeout(time))
    })
}

/// Releases the handle of a task. The task goes on.
#[unsafe(no_mangle)]
pub extern "C" fn tw_submitted_free(task: tw_submitted) -> tw_status {
    call(|| take("tw_submitted_free", "task", &TASKS, task.id).map(drop))
}
