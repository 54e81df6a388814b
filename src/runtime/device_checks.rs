//! Checks of tasks that are assigned to a device or run across the devices of a unit, and the reasons for which they
//! are refused.
//!
//! Their placement is in `engine/placement/queue.rs` and `engine/placement/multi_device.rs`.

use super::door::Door;
use crate::depend::{AccessRecord, Kinds, Mode};
use crate::engine::bytes_in_each;
use crate::error::SubmitError;
use crate::ids::DeviceId;
use crate::machine::UnitKind;

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

/// Checks that some unit has room for the parts of a task. `ends` contains the end of each part's accesses in the list;
/// `usable` selects the kinds of unit.
pub(super) fn check_parts(
    door: &Door,
    task: &str,
    ends: &[usize],
    usable: impl Fn(UnitKind) -> bool,
    records: &[AccessRecord<'_>],
    at_home: bool,
) -> Result<(), SubmitError> {
    if let Some(access) = records.iter().find(|access| matches!(access.mode, Mode::Reduction(_))) {
        return Err(SubmitError::ReductionAcrossDevices { task: task.into(), data: access.datum.to_string() });
    }
    let machine = &door.driver.shared().machine;
    let mut least_lacking: Option<(u64, u64)> = None;
    for unit in machine.units().iter().filter(|unit| usable(unit.kind)) {
        let spaces: Vec<_> = machine.spaces_of(unit.id).collect();
        let bytes = bytes_in_each(ends, &spaces, |visit| records.iter().for_each(|record| visit(*record)));
        let of_spaces = bytes
            .iter()
            .zip(&spaces)
            .map(|(bytes, space)| (*bytes, door.driver.shared().machine.capacity_bytes(*space)));
        let lacking = of_spaces.max_by_key(|(needed, capacity)| needed.saturating_sub(*capacity));
        match lacking {
            Some((needed, capacity)) if needed > capacity && !at_home => {
                let before = least_lacking.get_or_insert((needed, capacity));
                if needed - capacity < before.0 - before.1 {
                    *before = (needed, capacity);
                }
            }
            _ => return Ok(()),
        }
    }
    let Some((needed_bytes, capacity_bytes)) = least_lacking else { return Ok(()) };
    Err(SubmitError::WorkingSet { task: task.into(), needed_bytes, capacity_bytes })
}
