//! Times of commands: the profiling counters of their events, which queues keep only if they are created for it.
//!
//! A piece of work begins with the start of its first command and ends with the end of its last one, so it needs no
//! further commands. If a body calls OpenCL itself, markers before and after its calls stand for them.

use super::backend::OpenCl;
use super::objects::Stream;
use super::turns::InTurn;
use crate::error::DeviceError;
use cl3::device::get_device_and_host_timer;
use cl3::platform::get_platform_info;
use opencl3::command_queue::CL_QUEUE_PROFILING_ENABLE;
use opencl3::device::Device;
use opencl3::event::Event;
use opencl3::types::{cl_command_queue_properties, cl_int};
use std::sync::Arc;

const PROFILING_INFO_NOT_AVAILABLE: cl_int = -7;
/// `CL_PLATFORM_HOST_TIMER_RESOLUTION`, which OpenCL 2.1 introduced.
const HOST_TIMER_RESOLUTION: u32 = 0x0905;

/// A point in a queue's work.
pub(in crate::device) enum Stamp {
    Start(Arc<InTurn<Event>>),
    End(Arc<InTurn<Event>>),
}

/// The begin of a piece of work: the first command of the work that it interrupts, if any.
pub(in crate::device) struct Begun(Option<Arc<InTurn<Event>>>);

/// Returns the properties of queues.
pub(super) fn queue_properties(is_timed: bool) -> cl_command_queue_properties {
    if is_timed { CL_QUEUE_PROFILING_ENABLE } else { 0 }
}

impl OpenCl {
    /// Returns whether the host can read the device's clock.
    pub(super) fn has_readable_clock(device: &Device) -> bool {
        let resolution = device.platform().and_then(|platform| Ok(get_platform_info(platform, HOST_TIMER_RESOLUTION)?));
        resolution.is_ok_and(|resolution| u64::from(resolution) > 0) && get_device_and_host_timer(device.id()).is_ok()
    }

    pub(super) fn begin(stream: &Stream) -> Begun {
        Begun(stream.first.lock().take())
    }

    pub(super) fn end(&self, stream: &Stream, Begun(interrupted): Begun) -> Result<[Stamp; 2], DeviceError> {
        let first = std::mem::replace(&mut *stream.first.lock(), interrupted);
        let last = self.last(stream)?;
        Ok([first.map_or_else(|| Stamp::End(last.clone()), Stamp::Start), Stamp::End(last)])
    }

    pub(super) fn time(&self, stamp: &Stamp) -> Result<Option<i64>, DeviceError> {
        let time = match stamp {
            Stamp::Start(event) => event.profiling_command_start(),
            Stamp::End(event) => event.profiling_command_end(),
        };
        match time {
            Ok(time) => Ok(Some(time as i64)),
            Err(error) if error.0 == PROFILING_INFO_NOT_AVAILABLE => Ok(None),
            Err(error) => Err(self.failed("clGetEventProfilingInfo", error)),
        }
    }

    /// Reads the device's clock, if that is possible.
    pub(super) fn read_clock(&self) -> Option<i64> {
        let [device, _host] = self.has_clock.then(|| get_device_and_host_timer(self.id).ok()).flatten()?;
        Some(device as i64)
    }
}
