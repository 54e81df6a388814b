//! Guarded copies of regions in the memory of accelerators, for the access sanitizer.
//!
//! A task under the sanitizer finds each region in a separate buffer with guard zones, which is filled through the host
//! before the body is called. When the task has ended, the buffer is read back and compared with the content from
//! before. If nothing was found, the region gets the new content.
//!
//! Tasks across several devices, parts of a replay that a device repeats by itself, and unified memory have no copies.
//! Nor has a region if the device has no memory left for its copy.

use super::Devices;
use crate::depend::{Mode, OwnedTask, Site};
use crate::device::{Buffer, Device, DeviceCopy, End};
use crate::error::{AccessFaults, DeviceError};
use crate::ids::DeviceId;
use crate::kernel::DeviceSite;
use crate::memory::GuardedCopy;
use crate::memory::sanitize::{self, is_changed, is_copied};

/// A region's copy on a device.
pub(super) struct Sanitized {
    access: usize,
    mode: Mode,
    element_bytes: usize,
    original: DeviceSite,
    /// The content from before the body, with its zones.
    before: GuardedCopy,
    /// Memory for the content after the body. It exists before the body runs, so that no result is lost for want of it.
    after: GuardedCopy,
    buffer: Buffer,
}

// SAFETY: the addresses are those of memory that the value owns, or of a replica that the task pins, so any thread may
// use them.
unsafe impl Send for Sanitized {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Sanitized {}

impl Devices {
    /// Copies a task's regions to guarded buffers, and changes the sites accordingly. The task's predecessors have
    /// ended, because a sanitizing runtime releases no successor earlier.
    pub(in crate::driver::threads) fn guard(
        &self,
        device: DeviceId,
        task: &OwnedTask,
        sites: &mut [DeviceSite],
    ) -> Result<(), DeviceError> {
        if task.body().parts().is_some() {
            return Ok(());
        }
        let on = &*self.devices[device.index()];
        let (mut access, mut copies) = (0, Vec::new());
        task.body().accesses(&mut |record| {
            if is_copied(record.mode) && !record.datum.is_unified() {
                copies.push((access, record.mode, record.datum.element_bytes));
            }
            access += 1;
        });
        let mut guards = Vec::new();
        for (access, mode, element_bytes) in copies {
            let original = sites[access];
            let copy = || GuardedCopy::new(original.extents, original.strides, element_bytes);
            let (Some(mut before), Some(after)) = (copy(), copy()) else { continue };
            let buffer = match on.allocate(before.bytes().len() as u64, element_bytes) {
                Ok(buffer) => buffer,
                Err(error @ DeviceError::OutOfMemory { .. }) => {
                    log!(warn, "task `{}` runs without a guarded copy of access {access}: {error}", task.shared().name);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let base = buffer.base();
            if mode == Mode::Out {
                before.mark_unwritten();
            } else {
                let to = host_end(before.site());
                // SAFETY: the region is valid on the device, and no task writes it; the copy has its extents.
                unsafe { on.copy_now(&DeviceCopy { from: on.end(original), to, ..shape(&original, element_bytes) })? };
            }
            let (from, to, flat) = whole(on, &mut before, base);
            // SAFETY: both memories are separate, have all of these bytes, and are known only here.
            unsafe { on.copy_now(&DeviceCopy { from, to, ..flat })? };
            sites[access] = DeviceSite { base, offset_bytes: before.front(), strides: before.strides(), ..original };
            guards.push(Sanitized { access, mode, element_bytes, original, before, after, buffer });
        }
        if !guards.is_empty() {
            self.sanitized.insert(task.shared().id, guards);
        }
        Ok(())
    }

    /// Compares the guarded copies of a task that has ended with its declaration. If the task kept to it, copies the
    /// results back; otherwise returns the findings.
    pub(in crate::driver::threads) fn unguard(
        &self,
        device: DeviceId,
        task: &OwnedTask,
    ) -> Result<Option<AccessFaults>, DeviceError> {
        let Some((_, mut guards)) = self.sanitized.remove(&task.shared().id) else { return Ok(None) };
        let on = &*self.devices[device.index()];
        for Sanitized { after, buffer, .. } in &mut guards {
            let (to, from, flat) = whole(on, after, buffer.base());
            // SAFETY: both memories are separate and have all of these bytes, and the task's kernels have ended.
            unsafe { on.copy_now(&DeviceCopy { from, to, ..flat })? };
        }
        let (mut faults, mut access, mut next) = (Vec::new(), 0, guards.iter().peekable());
        task.body().accesses(&mut |record| {
            if let Some(Sanitized { before, after, .. }) = next.next_if(|guard| guard.access == access) {
                let find = sanitize::Finding { access, record };
                // SAFETY: the content from before has the region's extents, and belongs to this function.
                unsafe { find.all(after, before.site_to_read(), &mut faults) };
            }
            access += 1;
        });
        if !faults.is_empty() {
            return Ok(Some(AccessFaults(faults)));
        }
        for Sanitized { element_bytes, original, after, .. } in guards.iter().filter(|guard| is_changed(guard.mode)) {
            let from = host_end(after.site_to_read());
            let copy = DeviceCopy { from, to: on.end(*original), ..shape(original, *element_bytes) };
            // SAFETY: the task has not ended yet, so the region is still the task's; the copy has its extents.
            unsafe { on.copy_now(&copy)? };
        }
        Ok(None)
    }

    /// Forgets the guarded copies of a task that has failed, after its work has stopped.
    pub(in crate::driver::threads) fn drop_guards(&self, task: &OwnedTask) {
        drop(self.sanitized.remove(&task.shared().id));
    }
}

fn host_end(Site { first, strides }: Site) -> End {
    End::Host { first, strides, locked: false }
}

/// Returns a copy between two places, still to be set, of a region of this shape.
fn shape(site: &DeviceSite, element_bytes: usize) -> DeviceCopy {
    let nowhere = End::Device(*site);
    DeviceCopy { from: nowhere, to: nowhere, extents: site.extents, element_bytes }
}

/// Returns the ends of a copy of everything, on the host and on the device, and its shape.
fn whole(on: &dyn Device, copy: &mut GuardedCopy, base: usize) -> (End, End, DeviceCopy) {
    let bytes = copy.bytes_mut();
    let (extents, strides) = ([1, 1, 1, bytes.len()], [bytes.len(), bytes.len(), bytes.len(), 1]);
    let host = End::Host { first: bytes.as_mut_ptr(), strides, locked: false };
    let device = DeviceSite { base, offset_bytes: 0, strides, extents };
    (host, on.end(device), shape(&device, 1))
}
