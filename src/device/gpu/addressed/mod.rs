//! The [`Backend`] for interfaces whose device memory has addresses: CUDA and HIP, which differ mostly in names.
//!
//! Memory and events are reused rather than freed. One thread per stream waits for the events for which callbacks are
//! registered. Compiled programs are cached on disk. Invariants:
//! 1. Every call to the interface is made after [`Api::bind`] on the same thread. Calls that take a stream or an
//!    event rely on the last binding, because the interface returns an error if it is wrong; all other calls bind
//!    again.
//! 2. Each raw object has a single owner in [`objects`], which destroys it and keeps the device open.

mod api;
mod arguments;
mod backend;
mod compile;
mod compiler;
mod discovery;
mod error;
mod graph;
mod objects;
mod peers;
mod platform;
mod recycler;
#[cfg(test)]
mod tests;
mod transfer;
mod watcher;

pub(in crate::device) use api::{Api, Handle, KernelCall};
pub(in crate::device) use compile::compile_for;
pub(in crate::device) use compiler::{Compiler, RawUnit};
pub(in crate::device) use discovery::{all_are_peers, find, survey};
pub(in crate::device) use error::ApiError;
pub(in crate::device) use platform::{Found, Platform};
pub(in crate::device) use transfer::{Direction, Pitched, Transfer};

use self::error::INVALID_VALUE;
use self::objects::{Device, Module, Stream};
use self::peers::Peers;
use self::recycler::Recycler;
use self::transfer::transfers;
use super::{Backend, Cache, GraphNode, Recipe, Slab, no_code};
use crate::error::DeviceError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device of an interface. Implements [`Backend`].
pub(in crate::device) struct Addressed<A: Api> {
    device: Arc<Device<A>>,
    free_bytes: u64,
    threads_at_once: u64,
    reaches_unified: bool,
    /// The device's architecture.
    target: String,
    /// The recipes that compile for the architecture, the best first, or the reason why there are none.
    recipes: Result<Vec<Recipe>, DeviceError>,
    cache: Cache,
    peers: Peers,
}

/// The maximum number of resident threads on a multiprocessor of either vendor.
const THREADS_OF_A_PROCESSOR: u64 = 2048;

impl<A: Api> Addressed<A> {
    /// Opens a discovered device.
    fn open(
        api: A,
        name: String,
        processors: u32,
        target: &str,
        recipes: Result<Vec<Recipe>, DeviceError>,
    ) -> Result<Self, DeviceError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        let device = Device {
            api,
            number,
            name,
            memory: Recycler::default(),
            host_memory: Recycler::default(),
            events: Mutex::default(),
        };
        let free_bytes = device.call(A::free_bytes)?;
        let reaches_unified = device.call(A::reaches_unified)?;
        let cache = Cache::from_environment();
        let threads_at_once = u64::from(processors) * THREADS_OF_A_PROCESSOR;
        Ok(Self {
            device: Arc::new(device),
            free_bytes,
            reaches_unified,
            threads_at_once,
            target: target.to_owned(),
            recipes,
            cache,
            peers: Peers::default(),
        })
    }

    /// Loads code that contains its own length, or null-terminated text.
    fn load(&self, image: &[u8]) -> Result<Arc<Module<A>>, ApiError> {
        let raw = self.device.try_call(|api| api.load_module(image))?;
        Ok(Arc::new(Module { device: self.device.clone(), raw }))
    }

    /// Returns the module for a program text, compiled now or loaded from the cache.
    fn compiled(&self, name: &str, source: &str) -> Result<Arc<Module<A>>, DeviceError> {
        let device = &self.device;
        let recipes = match &self.recipes {
            Ok(recipes) => recipes,
            Err(none) => {
                let image = self.cache.get_any(&self.target, source).ok_or_else(|| none.clone())?;
                return self.load(&image).map_err(|refusal| device.error(refusal));
            }
        };
        let mut refused = String::new();
        for recipe in recipes {
            let compile = || compile::compile::<A>(name, source, recipe, &device.name);
            let image = self.cache.get_or_compile(recipe, source, compile)?;
            match self.load(&image) {
                Err(refusal) if refusal.refuses_code() => {
                    let (layer, name, version) = (A::LAYER, A::NAME, A::version());
                    let (compiler, what) = (&recipe.compiler, A::describe(refusal.code));
                    refused = format!(
                        "{layer} ({name} {version}) refuses the code of {compiler}: {what} (error {}); try a compiler \
                         that is not newer than {layer}, by LD_LIBRARY_PATH",
                        refusal.code
                    );
                }
                loaded => return loaded.map_err(|refusal| device.error(refusal)),
            }
        }
        let (program, device) = (name.to_owned(), device.name.clone());
        Err(DeviceError::NoCompiler { program, device, why: refused })
    }

    /// # Safety
    /// The same requirements as for [`Backend::copy_in`].
    unsafe fn copy(
        &self,
        stream: &Stream<A>,
        direction: Direction,
        from: usize,
        to: usize,
        slab: &Slab,
    ) -> Result<(), DeviceError> {
        let mut owner = self.device.api.id();
        if direction == Direction::Across {
            owner = self.device.call(|api| {
                // SAFETY: the caller keeps both ends valid until the copy has ended, so the device that owns the
                // memory is open.
                unsafe {
                    let owner = api.owner(from)?;
                    if owner != api.id() {
                        let _ = self.peers.reach(api, &self.device.name, owner); // otherwise through the host
                    }
                    Ok(owner)
                }
            })?;
        }
        self.device.call_stream(|api| {
            for transfer in transfers(direction, from, to, slab) {
                // SAFETY: the transfer is part of the slab, and the caller keeps both ends of the slab valid until
                // the copy has ended.
                match unsafe { api.copy(stream.raw, &transfer, owner) } {
                    Err(ApiError { code: INVALID_VALUE, .. }) if direction != Direction::Across => {
                        for piece in transfer.by_pages() {
                            // SAFETY: the piece is part of the transfer, so the same argument applies.
                            unsafe { api.copy(stream.raw, &piece, owner)? };
                        }
                    }
                    result => result?,
                }
            }
            Ok(())
        })
    }
}
