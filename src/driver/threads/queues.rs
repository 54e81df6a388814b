//! The threads' queues, as seen by a scan that explains why tasks wait ([`crate::driver::reasons`]).
//!
//! Queues with a lock are inspected while their lock is held. The deques of the fast path have no lock, so their tasks
//! are taken out as if they were stolen, inspected, and put into the queue that every thread checks. This changes the
//! order in which ready tasks run, so an explanation does it only if the chain cannot be found otherwise.
//!
//! This module runs no tasks.

use super::state::Threads;
use crate::depend::OwnedTask;
use crate::driver::reasons::{Queues, Spot};
use crate::ids::UnitId;

/// Tasks taken out of deques. They are put back when this value is dropped.
struct TakenOut<'a> {
    threads: &'a Threads,
    tasks: Vec<OwnedTask>,
}

impl Drop for TakenOut<'_> {
    fn drop(&mut self) {
        let count = self.tasks.len();
        self.tasks.drain(..).for_each(|task| self.threads.ready.push(task, None));
        if count > 0 {
            self.threads.shared.idle.wake(count);
        }
    }
}

impl Queues for Threads {
    fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Spot)) {
        self.ready.visit(&mut |task, unit| {
            see(task, unit.map_or(Spot::Ready, |unit| Spot::Given(UnitId(unit as u16))));
        });
        if let Some(explored) = self.explored.get() {
            explored.visit(&mut |task, unit| see(task, unit.map_or(Spot::Ready, Spot::Given)));
        }
        if let Some(devices) = &self.devices {
            for device in self.shared.machine.device_units().flat_map(|unit| &unit.devices) {
                devices.queue(*device).visit(&mut |task| see(task, Spot::OnDevice(*device)));
            }
        }
    }

    fn visit_deques(&self, most: usize, see: &mut dyn FnMut(&OwnedTask)) {
        if self.on_fast_path() {
            let taken = TakenOut { threads: self, tasks: self.ready.take_out(most) };
            taken.tasks.iter().for_each(see);
        }
    }
}
