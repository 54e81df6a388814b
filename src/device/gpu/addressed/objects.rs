//! The objects of an interface: an open device, and the memory, streams, events, modules, functions and page locks that
//! it owns.
//!
//! Each raw object has one owner here, which destroys it, or keeps it for reuse, and keeps the device open.

use super::api::{Api, Handle};
use super::error::{ApiError, INVALID_CONTEXT, INVALID_HANDLE};
use super::recycler::Recycler;
use super::watcher::{Watch, Watcher};
use crate::device::visit::{self, Visit};
use crate::error::DeviceError;
use crate::sync::may_block;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

thread_local! {
    /// The device that this thread was last bound to, as [`Device::number`]; 0 if it was bound to none.
    pub(super) static BOUND: Cell<u64> = const { Cell::new(0) };
}

/// An open device. It stays open as long as any of its objects is alive.
pub(super) struct Device<A: Api> {
    pub(super) api: A,
    /// A number that is unique to the device within this process.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) memory: Recycler,
    /// The stream in whose order the driver's pool allocates and frees memory, if the pool is used.
    pub(super) pool: Option<Handle>,
    /// Recycled page-locked host memory.
    pub(super) host_memory: Recycler,
    /// Unused events, kept for reuse.
    pub(super) events: Mutex<Vec<Handle>>,
    /// Unused events with times, kept for reuse.
    pub(super) timed_events: Mutex<Vec<Handle>>,
}

pub(in crate::device) struct Memory<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) base: usize,
    pub(super) bytes: usize,
}

pub(super) struct UnifiedMemory<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) base: usize,
}

pub(in crate::device) struct HostMemory<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) base: usize,
    pub(super) bytes: usize,
}

pub(in crate::device) struct Stream<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) raw: Handle,
    pub(super) watch: Watch<Arc<Event<A>>>,
}

pub(in crate::device) struct Event<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) raw: Handle,
    pub(super) watcher: Watcher<Arc<Event<A>>>,
}

pub(in crate::device) struct Module<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) raw: Handle,
}

pub(in crate::device) struct Function<A: Api> {
    pub(super) raw: Handle,
    /// The most dynamic shared memory with which it may be launched, in bytes.
    pub(super) allowed_bytes: AtomicU32,
    /// Must stay loaded.
    pub(super) _module: Arc<Module<A>>,
}

pub(super) struct PageLock<A: Api> {
    pub(super) device: Arc<Device<A>>,
    pub(super) first: Handle,
}

/// Makes the context current that a user's thread had before.
fn restore<A: Api>(context: usize) {
    BOUND.set(0);
    // SAFETY: the context was current when the runtime's calls began, on this thread. If the user has destroyed it
    // since, the interface returns an error.
    if let Err(ApiError { call, code }) = unsafe { A::restore(context) } {
        log!(debug, "{call}: {}", A::describe(code));
    }
}

impl<A: Api> Device<A> {
    /// Binds this device and makes a call that may block.
    pub(super) fn call<T>(&self, call: impl FnOnce(&A) -> Result<T, ApiError>) -> Result<T, DeviceError> {
        self.try_call(call).map_err(|refusal| self.error(refusal))
    }

    pub(super) fn try_call<T>(&self, call: impl FnOnce(&A) -> Result<T, ApiError>) -> Result<T, ApiError> {
        may_block();
        self.call_at_once(call)
    }

    /// Binds this device and makes a call that waits for nothing.
    pub(super) fn call_at_once<T>(&self, call: impl FnOnce(&A) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let _visit = Visit::begin();
        self.bind()?;
        call(&self.api)
    }

    pub(super) fn bind(&self) -> Result<(), ApiError> {
        visit::save(A::NAME, || A::current().ok(), restore::<A>);
        self.api.bind()?;
        BOUND.set(self.number);
        Ok(())
    }

    /// Makes a call that takes a stream or an event, for which the last binding suffices, and that waits for nothing.
    pub(super) fn call_stream<T>(&self, call: impl FnMut(&A) -> Result<T, ApiError>) -> Result<T, DeviceError> {
        self.try_call_stream(call).map_err(|refusal| self.error(refusal))
    }

    pub(super) fn try_call_stream<T>(&self, mut call: impl FnMut(&A) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let _visit = Visit::begin();
        if BOUND.get() != self.number {
            self.bind()?;
        }
        match call(&self.api) {
            // Other code has bound the thread to another device in the meantime.
            Err(ApiError { code: INVALID_CONTEXT | INVALID_HANDLE, .. }) => {
                self.bind()?;
                call(&self.api)
            }
            result => result,
        }
    }

    /// Makes a call where an error cannot be returned to a caller, as in destructors; errors are logged.
    pub(super) fn clean_up(&self, call: impl FnOnce(&A) -> Result<(), ApiError>) {
        if let Err(refusal) = self.try_call(call) {
            log!(debug, "{}", self.error(refusal));
        }
    }

    pub(super) fn error(&self, refusal: ApiError) -> DeviceError {
        A::error(refusal, &self.name)
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<usize, ApiError> {
        self.try_call(|api| match self.pool {
            // SAFETY: the device keeps its stream until all memory is freed.
            Some(stream) => unsafe { api.allocate_pooled(stream, bytes) },
            None => api.allocate(bytes),
        })
    }

    pub(super) fn free(&self, base: usize) {
        // SAFETY: the recycler passes only unused blocks, and each of them once. They come from `allocate`.
        self.clean_up(|api| unsafe {
            match self.pool {
                Some(stream) => api.free_pooled(stream, base),
                None => api.free(base),
            }
        });
    }

    pub(super) fn free_host(&self, base: usize) {
        // SAFETY: the recycler passes only unused blocks, and each of them once.
        self.clean_up(|api| unsafe { api.free_host(base) });
    }
}

impl<A: Api> Drop for Device<A> {
    fn drop(&mut self) {
        self.memory.clear(|base| self.free(base));
        self.host_memory.clear(|base| self.free_host(base));
        if let Some(stream) = self.pool {
            // SAFETY: all memory is freed, so nothing uses the stream any more.
            self.clean_up(|api| unsafe { api.destroy_stream(stream) });
        }
        let timed = std::mem::take(self.timed_events.get_mut());
        for event in std::mem::take(self.events.get_mut()).into_iter().chain(timed) {
            // SAFETY: no `Event` or `Stamp` refers to this raw event any more.
            self.clean_up(|api| unsafe { api.destroy_event(event) });
        }
    }
}

impl<A: Api> Drop for Memory<A> {
    fn drop(&mut self) {
        self.device.memory.give_back(self.base, self.bytes, |base| self.device.free(base));
    }
}

impl<A: Api> Drop for UnifiedMemory<A> {
    fn drop(&mut self) {
        // SAFETY: this value is the memory's only owner, and nothing uses the memory any more.
        self.device.clean_up(|api| unsafe { api.free(self.base) });
    }
}

impl<A: Api> Drop for HostMemory<A> {
    fn drop(&mut self) {
        self.device.host_memory.give_back(self.base, self.bytes, |base| self.device.free_host(base));
    }
}

impl<A: Api> Drop for Stream<A> {
    fn drop(&mut self) {
        // SAFETY: the owner of the raw stream is being dropped, so nothing else uses the stream.
        self.device.clean_up(|api| unsafe { api.destroy_stream(self.raw) });
    }
}

impl<A: Api> Drop for Event<A> {
    fn drop(&mut self) {
        // Each wait refers to the work that was recorded when the wait was enqueued, so the event may be recorded
        // again at once.
        self.device.events.lock().push(self.raw);
    }
}

impl<A: Api> Drop for Module<A> {
    fn drop(&mut self) {
        // SAFETY: the owner of the raw module is being dropped, and the runtime drops kernels only after all of their
        // launches have ended.
        self.device.clean_up(|api| unsafe { api.unload_module(self.raw) });
    }
}

impl<A: Api> Drop for PageLock<A> {
    fn drop(&mut self) {
        // SAFETY: this value locked the memory, and the memory is still valid.
        self.device.clean_up(|api| unsafe { api.page_unlock(self.first.0.cast()) });
    }
}
