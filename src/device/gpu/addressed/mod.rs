//! The [`Backend`] for interfaces whose device memory has addresses: CUDA and HIP, which differ mostly in names.
//!
//! Memory and events are reused rather than freed. One thread per stream waits for the events for which callbacks are
//! registered. Compiled programs are cached on disk. Invariants:
//! 1. Every call to the interface is made after [`Api::bind`] on the same thread. Calls that take a stream or an
//!    event rely on the last binding, because the interface returns an error if it is wrong; all other calls bind
//!    again.
//! 2. Each raw object has a single owner in this module, which destroys it and keeps the device open.

mod api;
mod arguments;
mod compile;
mod compiler;
mod discovery;
mod error;
mod extra;
mod graph;
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

use self::arguments::Arguments;
use self::error::{ALREADY_REGISTERED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY, OUT_OF_MEMORY};
use self::extra::Extra;
use self::graph::Graph;
use self::peers::Peers;
use self::recycler::Recycler;
use self::transfer::transfers;
use self::watcher::{Watch, Watcher};
use super::{Backend, Cache, GraphNode, Recipe, Slab, no_code};
use crate::device::visit::{self, Visit};
use crate::error::DeviceError;
use crate::kernel::{self, ArgumentValue, Code, Groups, KernelText, Program, RawHandles};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// The dynamic shared memory that every function may have without permission.
const SHARED_BYTES: u32 = 48 << 10;

thread_local! {
    /// The device that this thread was last bound to, as [`Device::number`]; 0 if it was bound to none.
    static BOUND: Cell<u64> = const { Cell::new(0) };
}

/// An open device. It stays open as long as any of its objects is alive.
struct Device<A: Api> {
    api: A,
    /// A number that is unique to the device within this process.
    number: u64,
    name: String,
    memory: Recycler,
    /// Recycled page-locked host memory.
    host_memory: Recycler,
    /// Unused events, kept for reuse.
    events: Mutex<Vec<Handle>>,
}

pub(in crate::device) struct Memory<A: Api> {
    device: Arc<Device<A>>,
    base: usize,
    bytes: usize,
}

struct UnifiedMemory<A: Api> {
    device: Arc<Device<A>>,
    base: usize,
}

pub(in crate::device) struct HostMemory<A: Api> {
    device: Arc<Device<A>>,
    base: usize,
    bytes: usize,
}

pub(in crate::device) struct Stream<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
    watch: Watch<Arc<Event<A>>>,
}

pub(in crate::device) struct Event<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
    watcher: Watcher<Arc<Event<A>>>,
}

pub(in crate::device) struct Module<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
}

pub(in crate::device) struct Function<A: Api> {
    raw: Handle,
    /// The most dynamic shared memory with which it may be launched, in bytes.
    allowed_bytes: AtomicU32,
    /// Must stay loaded.
    _module: Arc<Module<A>>,
}

struct PageLock<A: Api> {
    device: Arc<Device<A>>,
    first: Handle,
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
    /// Binds this device and calls the interface.
    fn call<T>(&self, call: impl FnOnce(&A) -> Result<T, ApiError>) -> Result<T, DeviceError> {
        self.try_call(call).map_err(|refusal| self.error(refusal))
    }

    fn try_call<T>(&self, call: impl FnOnce(&A) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let _visit = Visit::begin();
        self.bind()?;
        call(&self.api)
    }

    fn bind(&self) -> Result<(), ApiError> {
        visit::save(A::NAME, || A::current().ok(), restore::<A>);
        self.api.bind()?;
        BOUND.set(self.number);
        Ok(())
    }

    /// Makes a call that takes a stream or an event, for which the last binding suffices.
    fn call_stream<T>(&self, call: impl FnMut(&A) -> Result<T, ApiError>) -> Result<T, DeviceError> {
        self.try_call_stream(call).map_err(|refusal| self.error(refusal))
    }

    fn try_call_stream<T>(&self, mut call: impl FnMut(&A) -> Result<T, ApiError>) -> Result<T, ApiError> {
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
    fn clean_up(&self, call: impl FnOnce(&A) -> Result<(), ApiError>) {
        if let Err(refusal) = self.try_call(call) {
            log!(debug, "{}", self.error(refusal));
        }
    }

    fn error(&self, refusal: ApiError) -> DeviceError {
        A::error(refusal, &self.name)
    }

    fn free(&self, base: usize) {
        // SAFETY: the recycler passes only unused blocks, and each of them once.
        self.clean_up(|api| unsafe { api.free(base) });
    }

    fn free_host(&self, base: usize) {
        // SAFETY: the recycler passes only unused blocks, and each of them once.
        self.clean_up(|api| unsafe { api.free_host(base) });
    }
}

impl<A: Api> Drop for Device<A> {
    fn drop(&mut self) {
        self.memory.clear(|base| self.free(base));
        self.host_memory.clear(|base| self.free_host(base));
        for event in self.events.lock().drain(..) {
            // SAFETY: no `Event` refers to this raw event any more.
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
        self.device.free(self.base);
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
            memory: Recycler::from_environment(),
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
        self.device.call(|api| {
            let mut owner = api.id();
            if direction == Direction::Across {
                // SAFETY: the caller keeps both ends valid until the copy has ended, so the device that owns the
                // memory is open.
                unsafe {
                    owner = api.owner(from)?;
                    if owner != api.id() {
                        let _ = self.peers.reach(api, &self.device.name, owner); // otherwise through the host
                    }
                }
            }
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

impl<A: Api> Backend for Addressed<A> {
    const API: &'static str = A::NAME;
    const KIND: UnitKind = A::KIND;

    type Memory = Memory<A>;
    type HostMemory = HostMemory<A>;
    type Stream = Stream<A>;
    type Event = Arc<Event<A>>;
    type Module = Arc<Module<A>>;
    type Function = Function<A>;
    type Graph = Graph<A>;

    const NODES_CHANGE: bool = true;

    fn name(&self) -> &str {
        &self.device.name
    }

    fn domain(&self) -> usize {
        self.device.api.domain()
    }

    fn reach(&self, base: usize) -> bool {
        let reached = self.device.try_call(|api| {
            // SAFETY: the region belongs to a task that is being enqueued, so the device that owns the memory is
            // open.
            unsafe {
                let owner = api.owner(base)?;
                Ok(owner == api.id() || self.peers.reach(api, &self.device.name, owner))
            }
        });
        reached.unwrap_or(false)
    }

    fn threads_at_once(&self) -> u64 {
        self.threads_at_once
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes / 4 * 3 // leaves a quarter for scratch memory
    }

    fn dlpack(&self) -> Option<DlDevice> {
        Some(DlDevice { device_type: A::DLPACK, device_id: self.device.api.number() })
    }

    fn owns(&self, first: usize, bytes: usize) -> Result<bool, DeviceError> {
        let number = self.device.api.number();
        // SAFETY: the interface accepts any address, and returns an error for addresses that it does not know.
        let is_ours = |address| match self.device.try_call(|api| unsafe { api.device_of(address) }) {
            Ok(device) => Ok(device == number),
            Err(ApiError { code: INVALID_VALUE, .. }) => Ok(false),
            Err(refusal) => Err(self.device.error(refusal)),
        };
        Ok(is_ours(first)? && is_ours(first + bytes.saturating_sub(1))?)
    }

    fn settle(&self) -> Result<(), DeviceError> {
        self.device.call(A::synchronize_default)
    }

    fn allocate(&self, bytes: usize) -> Result<(Memory<A>, usize), DeviceError> {
        let device = &self.device;
        let block =
            device.memory.take(bytes, |bytes| device.try_call(|api| api.allocate(bytes)), |base| device.free(base));
        let (base, bytes) = block.map_err(|refusal| match refusal.code {
            // A size can only be invalid because it is too large.
            code @ (OUT_OF_MEMORY | INVALID_VALUE) => DeviceError::OutOfMemory {
                device: device.name.clone(),
                needed_bytes: bytes as u64,
                in_use_bytes: 0,
                api: A::NAME,
                code,
            },
            _ => device.error(refusal),
        })?;
        Ok((Memory { device: device.clone(), base, bytes }, base))
    }

    fn reuses_memory(&self) -> bool {
        !self.device.memory.is_exact
    }

    fn reaches_unified(&self) -> bool {
        self.reaches_unified
    }

    fn allocate_unified(&self, bytes: usize) -> Result<(Box<dyn Send + Sync>, usize), DeviceError> {
        let base = self.device.call(|api| api.allocate_unified(bytes))?;
        Ok((Box::new(UnifiedMemory { device: self.device.clone(), base }), base))
    }

    unsafe fn prefetch(
        &self,
        stream: &Stream<A>,
        first: usize,
        bytes: usize,
        to_host: bool,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps the memory alive until the prefetch has ended.
        self.device.call_stream(|api| unsafe { api.prefetch(stream.raw, first, bytes, to_host) })
    }

    fn host_memory(&self, bytes: usize) -> Result<Option<(HostMemory<A>, *mut u8)>, DeviceError> {
        let device = &self.device;
        let allocate = |bytes| device.try_call(|api| api.allocate_host(bytes));
        match device.host_memory.take(bytes, allocate, |base| device.free_host(base)) {
            Ok((base, bytes)) => {
                let memory = HostMemory { device: device.clone(), base, bytes };
                Ok(Some((memory, std::ptr::with_exposed_provenance_mut(base))))
            }
            Err(ApiError { code: OUT_OF_MEMORY, .. }) => Ok(None), // the system may limit page-locked memory
            Err(refusal) => Err(device.error(refusal)),
        }
    }

    fn stream(&self) -> Result<Stream<A>, DeviceError> {
        let watch = Watch::spawn(|event: &Arc<Event<A>>| {
            // SAFETY: the event is alive. A failure is ignored here, because the notified thread will get it when it
            // queries the event.
            let _ = event.device.try_call_stream(|api| unsafe { api.synchronize(event.raw) });
        });
        let watch = watch.map_err(|error| DeviceError::Call {
            device: self.device.name.clone(),
            call: "starting a thread",
            api: "system",
            code: error.raw_os_error().unwrap_or_default(),
            what: error.to_string(),
        })?;
        let raw = self.device.call(A::create_stream)?;
        Ok(Stream { device: self.device.clone(), raw, watch })
    }

    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        // SAFETY: the caller keeps the memory valid until the returned lock is dropped.
        match self.device.try_call(|api| unsafe { api.pin_memory(first, bytes) }) {
            Ok(()) => Some(Box::new(PageLock { device: self.device.clone(), first: Handle(first.cast()) })),
            // Other code has locked the memory, or some of it. It also unlocks the memory, which makes copies slow
            // from then on.
            Err(ApiError { code: ALREADY_REGISTERED, .. }) if self.is_locked(first.addr(), bytes) => Some(Box::new(())),
            Err(refusal) => {
                log!(debug, "{bytes} bytes are not page-locked: {}", self.device.error(refusal));
                None
            }
        }
    }

    unsafe fn copy_in(&self, stream: &Stream<A>, from: *const u8, to: usize, slab: &Slab) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe { self.copy(stream, Direction::In, from.expose_provenance(), to, slab) }
    }

    unsafe fn copy_out(&self, stream: &Stream<A>, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe { self.copy(stream, Direction::Out, from, to.expose_provenance(), slab) }
    }

    unsafe fn copy_across(&self, stream: &Stream<A>, from: usize, to: usize, slab: &Slab) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe { self.copy(stream, Direction::Across, from, to, slab) }
    }

    fn module(&self, program: &Program) -> Result<Arc<Module<A>>, DeviceError> {
        self.compiled(program.name(), &program.source(), &Extra::default())
    }

    fn own_module(&self, module: &kernel::Module) -> Result<Arc<Module<A>>, DeviceError> {
        let loaded = match module.code(A::KIND) {
            Some(Code::Text(text)) => return self.compiled(module.name(), text, &Extra::of::<A>(module, text)),
            Some(Code::Ptx(text)) => self.load(&[text.as_bytes(), b"\0"].concat()),
            // The image is copied to aligned memory, because drivers may read it in words.
            Some(Code::Image(image)) if !image.is_empty() => {
                let mut words = vec![0u64; image.len().div_ceil(size_of::<u64>())];
                bytemuck::cast_slice_mut(&mut words)[..image.len()].copy_from_slice(image);
                self.load(bytemuck::cast_slice(&words))
            }
            Some(Code::Image(_) | Code::SpirV(_)) | None => return Err(no_code(self, module)),
        };
        loaded.map_err(|refusal| match refusal.refuses_code() {
            true => DeviceError::NoCompiler {
                program: module.name().to_owned(),
                device: self.device.name.clone(),
                why: format!(
                    "{} ({} {}) refuses the module's code for {}: {} (error {}); try its text instead, or code for this \
                     architecture",
                    A::LAYER,
                    A::NAME,
                    A::version(),
                    self.target,
                    A::describe(refusal.code),
                    refusal.code
                ),
            },
            false => self.device.error(refusal),
        })
    }

    fn function(&self, module: &Arc<Module<A>>, kernel: &KernelText) -> Result<Self::Function, DeviceError> {
        let name = CString::new(kernel.name).expect("a kernel's name is an identifier");
        // SAFETY: the module is loaded.
        let raw = self.device.call(|api| unsafe { api.function(module.raw, &name) })?;
        Ok(Function { raw, allowed_bytes: AtomicU32::new(SHARED_BYTES), _module: module.clone() })
    }

    fn check(&self, function: &Function<A>, kernel: &KernelText, groups: Groups) -> Result<(), DeviceError> {
        let fits = |d: usize| {
            groups[d] <= A::MOST_GROUPS[d] && u64::from(groups[d]) * u64::from(kernel.group[d]) <= A::MOST_THREADS
        };
        if !(0..3).all(fits) {
            let threads = std::array::from_fn(|d| groups[d] as usize * kernel.group[d] as usize);
            return Err(DeviceError::Geometry { kernel: kernel.name.to_owned(), threads });
        }
        if groups.has_attributes()
            && let Some(why) = self.device.call(|api| api.lacks(&groups))?
        {
            return Err(self.unsupported(kernel, why.to_owned()));
        }
        self.allow_shared(function, kernel, groups.shared_bytes)
    }

    unsafe fn launch(
        &self,
        stream: &Stream<A>,
        function: &Function<A>,
        group: [u32; 3],
        groups: Groups,
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        let mut arguments = Arguments::new(arguments);
        self.device.call_stream(|api| {
            // SAFETY: the caller passes arguments that match the kernel's parameters, and keeps their memory valid
            // until the kernel has ended. The values are read before the call returns.
            unsafe {
                let arguments = &mut arguments.pointers();
                api.launch(stream.raw, KernelCall { function: function.raw, groups, group, arguments })
            }
        })
    }

    fn has_graphs(&self) -> bool {
        self.device.api.has_graphs()
    }

    unsafe fn graph(&self, nodes: &[GraphNode<'_, Self>], edges: &[Vec<u32>]) -> Result<Graph<A>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { Graph::new(&self.device, nodes, edges) }
    }

    unsafe fn set_node(
        &self,
        graph: &mut Graph<A>,
        number: usize,
        node: &GraphNode<'_, Self>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { graph.set(number, node) }
    }

    unsafe fn launch_graph(&self, stream: &Stream<A>, graph: &Graph<A>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { graph.launch(stream.raw) }
    }

    fn raw(&self, stream: &Stream<A>) -> Result<RawHandles, DeviceError> {
        let Device { api, .. } = &*self.device;
        self.device.bind().map_err(|refusal| self.device.error(refusal))?;
        let stream = stream.raw.0.expose_provenance();
        Ok(RawHandles { stream, context: api.context(), device: api.number() as usize })
    }

    fn after_raw(&self, _: &Stream<A>) {
        BOUND.set(0);
    }

    fn record(&self, stream: &Stream<A>) -> Result<Arc<Event<A>>, DeviceError> {
        let used = self.device.events.lock().pop();
        let raw = used.map_or_else(|| self.device.call(A::create_event), Ok)?;
        let event = Event { device: self.device.clone(), raw, watcher: stream.watch.watcher() };
        // SAFETY: the stream and the event are alive.
        self.device.call_stream(|api| unsafe { api.record(stream.raw, raw) })?;
        Ok(Arc::new(event))
    }

    fn wait(&self, stream: &Stream<A>, event: &Arc<Event<A>>) -> Result<(), DeviceError> {
        // SAFETY: the stream and the event are alive.
        self.device.call_stream(|api| unsafe { api.wait(stream.raw, event.raw) })
    }

    fn is_complete(&self, event: &Arc<Event<A>>) -> Result<bool, DeviceError> {
        // SAFETY: the event is alive.
        match self.device.try_call_stream(|api| unsafe { api.query(event.raw) }) {
            Err(ApiError { code: NOT_READY, .. }) => Ok(false),
            result => result.map(|()| true).map_err(|refusal| self.device.error(refusal)),
        }
    }

    fn notify(&self, event: &Arc<Event<A>>, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        event.watcher.watch(event.clone(), then);
        Ok(())
    }

    fn synchronize(&self, event: &Arc<Event<A>>) -> Result<(), DeviceError> {
        // SAFETY: the event is alive.
        self.device.call_stream(|api| unsafe { api.synchronize(event.raw) })
    }
}
