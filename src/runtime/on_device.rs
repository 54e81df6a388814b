//! Checks of tasks that are assigned to a device, and the reasons for which they are refused.
//!
//! The placement of such a task is in `engine/placement/queue.rs`.

use super::Door;
use crate::depend::{AccessRecord, Kinds};
use crate::error::SubmitError;
use crate::ids::DeviceId;

/// Checks that the machine has this device.
pub(super) fn exists(door: &Door, task: &str, device: DeviceId) -> Result<(), SubmitError> {
    let machine = &door.driver.shared().machine;
    if device.index() < machine.num_devices() {
        return Ok(());
    }
    let (units, devices) = (machine.configuration(), machine.num_devices());
    let problem = format!("the machine's units, {units}, have {devices} devices; try one that `Machine::units` lists");
    Err(refused(task, device, problem))
}

/// Checks that this device can run a task with bodies for these kinds of unit, and these accesses.
pub(super) fn check(
    door: &Door,
    task: &str,
    device: DeviceId,
    kinds: Kinds,
    records: &[AccessRecord<'_>],
) -> Result<(), SubmitError> {
    exists(door, task, device)?;
    let machine = &door.driver.shared().machine;
    let kind = machine.unit(machine.unit_of_device(device)).kind;
    let bytes: u64 = records.iter().map(|access| access.bytes_in(device.space())).sum();
    let (capacity, buffer) = (machine.capacity_bytes(device.space()), door.capacities.buffer(device.space()));
    let too_large = |access: &&AccessRecord<'_>| !access.mode.sees_nothing() && access.bytes() > buffer;
    let problem = if !kinds.has(kind) {
        let (bodies, kind) = (kinds.describe(), kind.keyword());
        format!("the device is of kind {kind}, but the task has bodies for {bodies}; try a body for {kind}")
    } else if let Some(access) = records.iter().find(|access| access.is_at_home()) {
        format!("it accesses {} in host memory; try another task for that", access.datum)
    } else if bytes > capacity {
        format!("it needs {bytes} bytes at once, and the device has {capacity}; try smaller regions")
    } else if let Some(access) = records.iter().find(too_large) {
        let (region, bytes) = (access.datum.describe(access.block), access.bytes());
        format!("{region} takes {bytes} bytes in one piece, and the device allocates {buffer}; try smaller regions")
    } else {
        return Ok(());
    };
    Err(refused(task, device, problem))
}

fn refused(task: &str, device: DeviceId, problem: String) -> SubmitError {
    SubmitError::Device { task: task.into(), device: device.to_string(), problem }
}
