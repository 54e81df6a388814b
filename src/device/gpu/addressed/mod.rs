//! The [`Backend`] for interfaces whose device memory has addresses: CUDA and HIP, which differ mostly in names.
//!
//! Memory and events are reused rather than freed, unless memory comes from the driver's pool. One thread per stream
//! waits for the events for which callbacks are registered. Compiled programs are cached on disk. Invariants:
//! 1. Every call to the interface is made after [`Api::bind`] on the same thread. Calls that take a stream or an
//!    event rely on the last binding, because the interface returns an error if it is wrong; all other calls bind
//!    again. They may block, with a few exceptions ([`Device::call_at_once`]).
//! 2. Each raw object has a single owner in [`objects`], which destroys it and keeps the device open.

mod api;
mod arguments;
mod backend;
mod compile;
mod compiler;
mod discovery;
mod error;
mod extra;
mod graph;
mod objects;
mod peers;
mod platform;
mod recycler;
#[cfg(test)]
mod tests;
mod times;
mod transfer;
mod watcher;

pub(in crate::device) use api::{Api, Handle, KernelCall, PoolAccess};
pub(in crate::device) use compile::compile_for;
pub(in crate::device) use compiler::{Compiler, RawUnit};
pub(in crate::device) use discovery::{all_are_peers, find, survey};
pub(in crate::device) use error::ApiError;
pub(in crate::device) use platform::{Found, Platform};
pub(in crate::device) use transfer::{Direction, Pitched, Transfer};

use self::error::INVALID_VALUE;
use self::extra::Extra;
use self::objects::{Device, Function, Module, Stream};
use self::peers::Peers;
use self::recycler::Recycler;
use self::times::Anchor;
use self::transfer::transfers;
use super::{Backend, Cache, GraphNode, Recipe, Slab, no_code};
use crate::error::DeviceError;
use crate::kernel::KernelText;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device of an interface. Implements [`Backend`].
pub(in crate::device) struct Addressed<A: Api> {
    device: Arc<Device<A>>,
    free_bytes: u64,
    threads_at_once: u64,
    reaches_unified: bool,
    /// Whether memory is allocated as it is requested, and not reused.
    is_exact: bool,
    /// The device's architecture.
    target: String,
    /// The recipes that compile for the architecture, the best first, or the reason why there are none.
    recipes: Result<Vec<Recipe>, DeviceError>,
    cache: Cache,
    peers: Peers,
    anchor: Mutex<Option<Arc<Anchor<A>>>>,
}

/// The maximum number of resident threads on a multiprocessor of either vendor.
const THREADS_OF_A_PROCESSOR: u64 = 2048;

/// The dynamic shared memory that every function may have without permission.
const SHARED_BYTES: u32 = 48 << 10;

/// The size of the page-locked memory for which staging memory is allocated ahead.
const HOST_BYTES: usize = 1 << 30;

/// Returns whether the environment requests memory from the driver's pool. Without this, memory is reused here
/// ([`recycler`]).
fn pool_is_wanted() -> bool {
    match std::env::var("THALWEG_DEVICE_MEMORY").as_deref() {
        Ok("pool") => true,
        Ok("" | "recycler") | Err(_) => false,
        Ok(other) => {
            log!(warn, "cannot allocate device memory by THALWEG_DEVICE_MEMORY={other}; try pool or recycler");
            false
        }
    }
}

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
        let is_exact = std::env::var("THALWEG_EXACT_MEMORY").is_ok_and(|value| value.trim() == "1");
        let mut device = Device {
            api,
            number,
            name,
            memory: Recycler::passing_on(),
            pool: None,
            host_memory: Recycler::of_memory(HOST_BYTES),
            events: Mutex::default(),
            timed_events: Mutex::default(),
        };
        let free_bytes = device.call(A::free_bytes)?;
        if !is_exact && pool_is_wanted() {
            let others = discovery::accesses_of_others::<A>(device.api.number());
            device.pool = others.map_or(Ok(None), |others| device.call(|api| api.open_pool(&others)))?;
            if device.pool.is_none() {
                log!(warn, "{} has no pool of memory that all devices reach; the runtime reuses its own", device.name);
            }
        }
        if !is_exact && device.pool.is_none() {
            device.memory = Recycler::of_memory(usize::try_from(free_bytes).unwrap_or(usize::MAX));
        }
        let reaches_unified = device.call(A::reaches_unified)?;
        let cache = Cache::from_environment();
        let threads_at_once = u64::from(processors) * THREADS_OF_A_PROCESSOR;
        Ok(Self {
            device: Arc::new(device),
            free_bytes,
            reaches_unified,
            is_exact,
            threads_at_once,
            target: target.to_owned(),
            recipes,
            cache,
            peers: Peers::default(),
            anchor: Mutex::default(),
        })
    }

    fn unsupported(&self, kernel: &KernelText, why: String) -> DeviceError {
        DeviceError::Unsupported { kernel: kernel.name.to_owned(), device: self.device.name.clone(), why }
    }

    /// Lets a function be launched with this much dynamic shared memory.
    fn allow_shared(&self, function: &Function<A>, kernel: &KernelText, bytes: u32) -> Result<(), DeviceError> {
        if bytes <= function.allowed_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = self.device.call(A::most_shared_bytes)?;
        // SAFETY: the function's module is loaded.
        let allowed = self.device.try_call(|api| unsafe { api.allow_shared(function.raw, bytes) });
        match allowed {
            Ok(()) if bytes <= most.cast_unsigned() => {
                function.allowed_bytes.fetch_max(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(refusal) if refusal.code != INVALID_VALUE => Err(self.device.error(refusal)),
            _ => Err(self.unsupported(
                kernel,
                format!(
                    "it requests {bytes} bytes of dynamic shared memory per group, and a group has at most {most}, \
                     less those that the kernel declares; try less"
                ),
            )),
        }
    }

    /// Returns whether a single range of page-locked memory contains these bytes. Copies of memory that is locked only
    /// in part are refused.
    fn is_locked(&self, first: usize, bytes: usize) -> bool {
        let range = self.device.try_call(|api| api.locked_range(first));
        range.is_ok_and(|(start, len)| start <= first && first + bytes <= start + len)
    }

    /// Loads code that contains its own length, or null-terminated text.
    fn load(&self, image: &[u8]) -> Result<Arc<Module<A>>, ApiError> {
        let raw = self.device.try_call(|api| api.load_module(image))?;
        Ok(Arc::new(Module { device: self.device.clone(), raw }))
    }

    /// Returns the module for a program text, compiled now or loaded from the cache.
    fn compiled(&self, name: &str, source: &str, extra: &Extra) -> Result<Arc<Module<A>>, DeviceError> {
        let (device, key) = (&self.device, extra.key(source));
        let recipes = match &self.recipes {
            Ok(recipes) => recipes,
            Err(none) => {
                let image = self.cache.get_any(&self.target, &key).ok_or_else(|| none.clone())?;
                return self.load(&image).map_err(|refusal| device.error(refusal));
            }
        };
        let mut refused = String::new();
        for recipe in recipes {
            let recipe = extra.add_to(recipe);
            let compile = || compile::compile::<A>(name, source, &recipe, &device.name);
            let image = match extra.has_own_headers {
                true => compile()?,
                false => self.cache.get_or_compile(&recipe, &key, compile)?,
            };
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

    /// Returns the device that owns this memory, and whether this device can access it. The first call for a device
    /// requests the access.
    fn reach_owner(&self, base: usize) -> Result<(usize, bool), ApiError> {
        self.device.try_call(|api| {
            // SAFETY: the memory belongs to a task that is being enqueued or to a copy, so the device that owns it is
            // open.
            unsafe {
                let owner = api.owner(base)?;
                Ok((owner, owner == api.id() || self.peers.reach(api, &self.device.name, owner)))
            }
        })
    }

    /// Enqueues a copy in a direction, from memory of the device `owner` if the copy is between devices.
    ///
    /// # Safety
    /// The same requirements as for [`Backend::copy_in`].
    unsafe fn copy(
        &self,
        stream: &Stream<A>,
        (direction, owner): (Direction, usize),
        from: usize,
        to: usize,
        slab: &Slab,
    ) -> Result<(), DeviceError> {
        self.device.call_stream(|api| {
            for transfer in transfers(direction, from, to, slab) {
                // SAFETY: the transfer is part of the slab, and the caller keeps both ends of the slab valid until
                // the copy has ended.
                match unsafe { api.copy(stream.raw, &transfer, owner) } {
                    Err(ApiError { code: INVALID_VALUE, .. }) if direction != Direction::Across => {
                        for piece in transfer.by_pages() {
                            // SAFETY: the piece is part of the transfer, so the same argument applies.
                            unsafe { copy_halves(api, stream.raw, &piece, owner)? };
                        }
                    }
                    result => result?,
                }
            }
            Ok(())
        })
    }
}

/// Enqueues a contiguous copy. If the interface refuses it, copies the halves: other code may have page-locked a part
/// of the host's memory.
///
/// # Safety
/// The same requirements as for [`Api::copy`].
unsafe fn copy_halves<A: Api>(api: &A, stream: Handle, piece: &Transfer, owner: usize) -> Result<(), ApiError> {
    // SAFETY: the caller's promise.
    match (unsafe { api.copy(stream, piece, owner) }, piece.halves()) {
        (Err(ApiError { code: INVALID_VALUE, .. }), Some(halves)) => halves.iter().try_for_each(|half| {
            // SAFETY: the half is part of the piece, so the caller's promise covers it.
            unsafe { copy_halves(api, stream, half, owner) }
        }),
        (result, _) => result,
    }
}
