//! The devices of a runtime: replicas' memory, copy engines, and the addresses that bodies get.

#![allow(unsafe_code)] // addresses of replicas are computed here; every use states its reason

use crate::coherence::{CopyId, ReplicaId};
use crate::depend::{AccessRecord, OwnedTask, Site};
use crate::device::{Buffer, Device};
use crate::engine::{Command, CopyOrder, Event, Where};
use crate::ids::{DataId, DeviceId};
use crate::memory::{BoxCopy, DataCell, strides_of};
use crate::region::{Block, MAX_DIMS};
use dashmap::DashMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// All devices of one runtime.
pub(crate) struct Devices {
    devices: Vec<Box<dyn Device>>,
    replicas: DashMap<ReplicaId, Buffer>,
    homes: DashMap<DataId, Home>,
    engines: Vec<Sender<CopyJob>>,
}

#[derive(Debug, Clone, Copy)]
struct Home(*mut u8);

// SAFETY: only an address; who dereferences it answers for that.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// What a device's copy engine is told.
pub(crate) enum CopyJob {
    /// Make a copy.
    Copy(CopyId, BoxCopy),
    /// End.
    Stop,
}

// SAFETY: the addresses belong to replicas that are pinned until the copy is reported as arrived.
unsafe impl Send for CopyJob {}

impl Devices {
    /// The devices, and for each the jobs of its copy engine, which a thread is to serve.
    pub(crate) fn new(devices: Vec<Box<dyn Device>>) -> (Self, Vec<Receiver<CopyJob>>) {
        let (engines, jobs) = devices.iter().map(|_| channel()).unzip();
        (Self { devices, replicas: DashMap::new(), homes: DashMap::new(), engines }, jobs)
    }

    /// Registers where a data is at home.
    pub(crate) fn add_home(&self, cell: &DataCell) {
        self.homes.insert(cell.datum.id, Home(cell.base()));
    }

    /// Forgets a data's home.
    pub(crate) fn remove_home(&self, data: DataId) {
        self.homes.remove(&data);
    }

    /// Runs a body at the device's speed.
    pub(crate) fn run(&self, device: DeviceId, body: &mut dyn FnMut()) {
        self.devices[device.index()].run(body);
    }

    /// Where a launched task's regions lie.
    pub(crate) fn sites(&self, task: &OwnedTask, places: &[Where]) -> Vec<Site> {
        let mut sites = Vec::with_capacity(places.len());
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            sites.push(self.site(&places[sites.len()], block, datum.element_bytes));
        });
        sites
    }

    /// Carries out what concerns memory. Copies that are made here and now are reported to `happened` at once.
    pub(crate) fn carry_out(&self, command: Command, happened: impl FnOnce(Event)) {
        match command {
            Command::Release { replica } => drop(self.replicas.remove(&replica)),
            Command::Copy(order) => self.copy(&order, happened),
            Command::Run(_) | Command::Launch(_) | Command::Skip(_) | Command::Nothing => {
                unreachable!("these do not concern memory")
            }
        }
    }

    fn copy(&self, order: &CopyOrder, happened: impl FnOnce(Event)) {
        let copy = BoxCopy {
            from: self.site(&order.from, &order.block, order.element_bytes),
            to: self.site(&order.to, &order.block, order.element_bytes),
            extents: order.block.extents(),
            element_bytes: order.element_bytes,
        };
        let device = order.to.space.device().or(order.from.space.device());
        let device = device.expect("a copy has a device at one end at least");
        if self.devices[device.index()].copies_apart(copy.bytes()) {
            let job = CopyJob::Copy(order.copy, copy);
            if self.engines[device.index()].send(job).is_ok() {
                return;
            }
        }
        self.perform(device, &copy);
        happened(Event::Copied(order.copy));
    }

    /// Does what a device's copy engine was told; the copy that has arrived, or none at the end.
    pub(crate) fn serve(&self, device: DeviceId, job: &CopyJob) -> Option<CopyId> {
        let CopyJob::Copy(id, copy) = job else { return None };
        self.perform(device, copy);
        Some(*id)
    }

    /// Ends all copy engines.
    pub(crate) fn stop(&self) {
        for engine in &self.engines {
            let _ = engine.send(CopyJob::Stop); // an engine that is gone has ended
        }
    }

    fn perform(&self, device: DeviceId, copy: &BoxCopy) {
        // SAFETY: both replicas are pinned by the copy; the directory lets nobody write what is being read or use what is
        // being filled until it has arrived; the boxes lie inside what the replicas hold.
        unsafe { self.devices[device.index()].copy(copy) }
    }

    /// Where a block lies in a replica.
    fn site(&self, place: &Where, block: &Block, element_bytes: usize) -> Site {
        let base = match place.space.device() {
            None => self.homes.get(&place.data).expect("a data in use has a home").0,
            Some(device) => {
                let bytes = (place.holds.volume() * element_bytes) as u64;
                let allocate = || self.devices[device.index()].allocate(bytes);
                self.replicas.entry(place.replica).or_insert_with(allocate).base()
            }
        };
        let strides = strides_of(&place.holds.extents());
        let offset: usize = (0..MAX_DIMS).map(|d| (block.lo()[d] - place.holds.lo()[d]) * strides[d]).sum();
        let first = base.wrapping_add(offset * element_bytes);
        Site { first, strides }
    }
}
