//! Export of a region's memory to other libraries, as a tensor that keeps conflicting tasks waiting.
//!
//! An internal task copies the region to the requested space, and continues without a body until the tensor is given
//! back. While it does, dependences keep other tasks from writing the region, and the replica stays. On a device, this
//! task waits for everything in flight on the device, and the thread that gives the tensor back waits for everything on
//! the default stream. Exported tensors are not counted: a program may end its runtime while it still holds a tensor,
//! which keeps the parts of the runtime that it needs alive.
//!
//! Only this internal task allocates and copies memory.

use super::runtime::Runtime;
use super::wait::{in_vain, internal};
use crate::depend::{Detachment, Hold, Mode, Side, Submitting, running};
use crate::driver::Driver;
use crate::driver::deadlock::key_of_task;
use crate::driver::threads::Threads;
use crate::driver::waiters::own_waker;
use crate::error::{Called, RunError, SubmitError};
use crate::ids::{DeviceId, SpaceId};
use crate::memory::Payload;
use crate::memory::dlpack::{DlDataType, Tensor};
use crate::sealed::INTERNAL;
use crate::task::{Exported, Kept, UntypedAccess};
use std::sync::Arc;

impl Runtime {
    /// Waits for a region's value, copies it to an address space if it is not there yet, and exports it to another
    /// library, which uses it in place. The access is the region's `input` or `inout`. The space can be host memory,
    /// including that of an emulated device, or the memory of a CUDA or HIP device.
    ///
    /// Until the tensor is dropped, or its deleter called, the region is held as if by an unfinished task with this
    /// access. After `input`, other tasks may read it, while writers wait, and so does [`take`](Self::take), even in
    /// this thread. Tasks that need the memory on the device wait as well. The memory lives as long as the tensor, even
    /// if all handles of the data object and the runtime are dropped. An array exported by `input` must not be written,
    /// so a runtime refuses to [adopt](Self::from_dlpack) it.
    ///
    /// On a device, no work that touches the region is in flight when the call returns. When the tensor is given back,
    /// the work that its user has enqueued on the device must have ended, except on the default stream, for which the
    /// runtime waits.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
    /// let x = rt.array(ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let device = rt.machine().spaces().nth(1).expect("the device's");
    /// rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit()?;
    /// let lent = rt.to_dlpack(x.block((.., 1..)).input(), device)?;
    /// assert_eq!((lent.shape(), lent.data_type().to_string()), (&[2, 2][..], "float64".to_owned()));
    /// rt.task("clear", (x.output(),)).cpu(|_, (mut x,)| x.fill(0.0)).submit()?; // waits
    /// drop(lent); // or the owner of `lent.into_raw()` calls its deleter
    /// assert_eq!(rt.take(x)?.sum(), 0.0);
    ///
    /// let other = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 100]);
    /// let y: Data<f64> = other.from_dlpack(rt.to_dlpack(x.slice(10..20).inout(), SpaceId::HOST)?)?;
    /// other.task("double", (y.inout(),)).cpu(|_, (y,)| y.iter_mut().for_each(|y| *y *= 2.0)).submit()?;
    /// drop(y); // it is given back when the task has ended
    /// assert_eq!(rt.take(x)?.iter().sum::<f64>(), 110.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the region does not belong to this runtime, or is held by the task whose body makes the call; if the
    /// space does not exist, is too small, is simulated, or belongs to an OpenCL device, whose memory has no addresses
    /// that other libraries could use; or if the value was lost in a failure.
    #[track_caller]
    pub fn to_dlpack<A: Exported>(&self, access: A, space: SpaceId) -> Result<Tensor, RunError> {
        self.export(&access, "to_dlpack", space).called_here()
    }

    #[track_caller]
    fn export<A: Exported>(&self, access: &A, name: &'static str, space: SpaceId) -> Result<Tensor, RunError> {
        self.may_wait(name)?;
        access.check(self.door.id).map_err(|refusal| refusal.of_task(name))?;
        let (kept, UntypedAccess(record)) = (access.kept(), access.record());
        let (cell, block, is_shared) = (kept.cell.clone(), record.block, record.mode == Mode::In);
        let needed_bytes = (block.volume() * cell.datum.element_bytes) as u64;
        self.has_room_for((&cell, needed_bytes), name, space)?;
        let refused = |problem: String| {
            let (data, space) = (cell.datum.to_string(), space.to_string());
            RunError::Refused(SubmitError::Lend { data, space, problem })
        };
        let can_be_shown = |of: &DlDataType| of.lanes == 1 && (is_shared || record.mode == Mode::Inout);
        let Some(data_type) = access.data_type().filter(can_be_shown) else {
            return Err(refused("only `input` and `inout` of numbers can be exported; try one of them".to_owned()));
        };
        let Some(threads) = self.door.driver.real().filter(|threads| threads.can_lend(space)) else {
            let problem =
                "this memory has no addresses that other libraries could use; try host memory, `SpaceId::HOST`";
            return Err(refused(if self.machine().is_simulated() {
                "it is simulated".to_owned()
            } else {
                problem.to_owned()
            }));
        };
        running::ancestry(self.door.id).admit(name, &[record])?; // it would wait for itself
        let detachment = Detachment::new(false);
        let hold = detachment.hold();
        let payload = Payload::lent(access.store(INTERNAL), detachment.clone());
        let side = Side { space: Some(space), lends: true, awaited_by: Some(own_waker()), ..Side::default() };
        let task = self.door.driver.submit(internal(name, side), payload, &[record], Submitting::share)?;
        let left = || u64::from(!(task.is_finished() || detachment.was_away()));
        let waited = self.door.driver.await_told(key_of_task(&task), left);
        waited.map_err(|vain| in_vain(name, vain))?;
        if left() > 0 {
            self.shared().broken()?;
        }
        self.door.outcome_of(&task)?;
        let site = threads.lent(task.shared().id, &cell, block).map_err(|error| refused(error.to_string()))?;
        let owner = Owner { _hold: hold, _cell: kept, threads: threads.clone(), device: space.device() };
        let extents = &block.extents()[..cell.datum.ndim()];
        Ok(Tensor::lent(owner, &site, data_type, extents, is_shared))
    }
}

/// The parts of the runtime that an exported tensor keeps alive.
struct Owner {
    _hold: Hold,
    _cell: Kept,
    threads: Arc<Threads>,
    device: Option<DeviceId>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(device) = self.device
            && !self.threads.shared().is_in_child()
        {
            self.threads.settle_device(device);
        }
    }
}
