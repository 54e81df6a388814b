//! Memory that the runtime shares with other code: imported, exported and unified memory.

use super::{Devices, Memory};
use crate::coherence::ReplicaId;
use crate::device::{Buffer, Device, End};
use crate::engine::ReplicaRef;
use crate::error::DeviceError;
use crate::ids::DeviceId;
use crate::kernel::DeviceSite;
use crate::memory::dlpack::{DlDevice, LentSite};
use crate::region::{Block, MAX_DIMS};

impl Devices {
    /// Returns the device whose memory the DLPack device `memory` denotes.
    ///
    /// # Errors
    /// If there is no such device, returns the reason.
    pub(in crate::driver::threads) fn of_dlpack(&self, memory: DlDevice) -> Result<DeviceId, String> {
        let all = (0..).map(DeviceId).zip(&self.devices).filter_map(|(id, device)| Some((id, device.dlpack()?)));
        let found = all.clone().find(|(_, theirs)| *theirs == memory).map(|(id, _)| id);
        let alike = all.filter(|(_, theirs)| theirs.device_type == memory.device_type);
        let alike: Vec<_> = alike.map(|(_, theirs)| theirs.device_id.to_string()).collect();
        found.ok_or_else(|| {
            let problem = match (memory.device_type, &alike[..]) {
                (4, _) => {
                    return "an OpenCL buffer belongs to a context, and the runtime has a different one; try host memory"
                        .to_owned();
                }
                (_, []) => format!("have no {} device", memory.interface()),
                (_, alike) => format!("have only {} devices {}", memory.interface(), alike.join(", ")),
            };
            format!("the runtime's units {problem}; try a unit for that device, or copying it to host memory")
        })
    }

    /// Checks whether foreign memory can serve as a replica on a device. Other code has allocated the memory and must
    /// not enqueue any more work that uses it.
    ///
    /// # Errors
    /// If the memory cannot be used, returns the reason.
    pub(in crate::driver::threads) fn look_at(
        &self,
        device: DeviceId,
        first: usize,
        bytes: usize,
    ) -> Result<(), String> {
        if self.is_lost(device) {
            return Err("the device was lost; try copying it from another memory".to_owned());
        }
        let here = &self.devices[device.index()];
        let problem = |error: DeviceError| {
            self.lose(Some(device), &error);
            error.to_string()
        };
        match bytes == 0 || here.owns(first, bytes).map_err(problem)? {
            true => here.settle().map_err(problem),
            false => Err(format!(
                "the device has no such memory ({first:#x}, {bytes} bytes): it may have been freed, or belong to \
                 another device; try keeping it until the tensor is given back"
            )),
        }
    }

    /// Makes a replica use existing memory: memory allocated by other code, or the home itself.
    pub(in crate::driver::threads) fn adopt(&self, replica: ReplicaId, base: usize, strides: [usize; MAX_DIMS]) {
        self.replicas.insert(replica, Memory { buffer: Buffer::new(base, ()), strides: Some(strides) });
    }

    /// Allocates unified memory, which the host and all devices use at the same addresses. Returns `None` if a device
    /// cannot use such memory, or not concurrently with other devices, or if there is not enough memory.
    pub(in crate::driver::threads) fn unified(&self, bytes: usize) -> Option<Buffer> {
        let first = self.devices.first()?;
        let is_apart = |device: &dyn Device| device.domain().0 != first.domain().0 || !device.reaches_unified();
        if bytes == 0 || self.devices.iter().any(|device| is_apart(&**device)) {
            return None;
        }
        for (id, device) in (0..).map(DeviceId).zip(&self.devices).filter(|(id, _)| !self.is_lost(*id)) {
            match device.allocate_unified(bytes) {
                Ok(buffer) => return Some(buffer),
                Err(error) => {
                    log!(debug, "cannot allocate {bytes} bytes of unified memory: {error}");
                    self.lose(Some(id), &error);
                    if !error.is_loss() {
                        break;
                    }
                }
            }
        }
        None
    }

    /// Returns whether other code can use a device's memory by address.
    pub(in crate::driver::threads) fn is_addressed(&self, device: DeviceId) -> bool {
        self.devices[device.index()].dlpack().is_some()
    }

    /// Returns the address of a block of a replica and the DLPack device of its memory. The address stays valid for as
    /// long as the block is exported.
    pub(in crate::driver::threads) fn lend(
        &self,
        place: &ReplicaRef,
        block: &Block,
        element_bytes: usize,
    ) -> Result<LentSite, DeviceError> {
        let memory = place.space.device().and_then(|device| self.devices[device.index()].dlpack());
        let (first, strides) = match self.end(place, block, element_bytes)? {
            End::Host { first, strides, .. } => (first, strides),
            End::Device(DeviceSite { base, offset_bytes, strides, .. }) => {
                (std::ptr::with_exposed_provenance_mut(base + offset_bytes), strides)
            }
        };
        Ok(LentSite { memory: memory.unwrap_or(DlDevice::HOST), first, strides })
    }

    /// Waits for the work that other code has enqueued on a device's default stream.
    pub(in crate::driver::threads) fn settle(&self, device: DeviceId) {
        if let Err(error) = self.devices[device.index()].settle() {
            log!(debug, "{error}");
            self.lose(Some(device), &error);
        }
    }
}
