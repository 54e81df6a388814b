//! The [`Backend`] methods of an [`Addressed`] device, one call or a few each.

use super::api::{Api, Handle, KernelCall};
use super::arguments::Arguments;
use super::error::{ALREADY_REGISTERED, ApiError, INVALID_VALUE, NOT_READY, OUT_OF_MEMORY};
use super::extra::Extra;
use super::graph::Graph;
use super::objects::{BOUND, Device, Event, Function, HostMemory, Memory, Module, PageLock, Stream, UnifiedMemory};
use super::times::Stamp;
use super::transfer::Direction;
use super::watcher::Watch;
use super::{Addressed, Backend, GraphNode, SHARED_BYTES, Slab, no_code};
use crate::error::DeviceError;
use crate::kernel::{self, ArgumentValue, Code, Groups, KernelText, Program, RawHandles};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
use crate::sync::may_block;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

impl<A: Api> Backend for Addressed<A> {
    const API: &'static str = A::NAME;
    const KIND: UnitKind = A::KIND;

    type Memory = Memory<A>;
    type HostMemory = HostMemory<A>;
    type Stream = Stream<A>;
    type Event = Arc<Event<A>>;
    type Stamp = Stamp<A>;
    type Begun = Stamp<A>;
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
        self.reach_owner(base).is_ok_and(|(_, reached)| reached)
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
        let block = device.memory.take(bytes, |bytes| device.allocate(bytes), |base| device.free(base));
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
        !self.is_exact
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

    fn copies_block(&self) -> bool {
        true
    }

    fn host_memory(&self, bytes: usize) -> Result<Option<(HostMemory<A>, *mut u8)>, DeviceError> {
        let device = &self.device;
        let allocate = |bytes| device.try_call(|api| api.allocate_host(bytes));
        // Few sizes, so that few chunks are page-locked.
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        match device.host_memory.take(bytes, allocate, |base| device.free_host(base)) {
            Ok((base, bytes)) => {
                let memory = HostMemory { device: device.clone(), base, bytes };
                Ok(Some((memory, std::ptr::with_exposed_provenance_mut(base))))
            }
            Err(ApiError { code: OUT_OF_MEMORY, .. }) => Ok(None), // the system may limit page-locked memory
            Err(refusal) => Err(device.error(refusal)),
        }
    }

    fn queues(&self) -> usize {
        let (variable, usual) = A::QUEUES;
        std::env::var(variable).ok().and_then(|number| number.trim().parse().ok()).unwrap_or(usual)
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

    fn locks_pages(&self) -> bool {
        true
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
        unsafe { self.copy(stream, (Direction::In, self.device.api.id()), from.expose_provenance(), to, slab) }
    }

    unsafe fn copy_out(&self, stream: &Stream<A>, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe { self.copy(stream, (Direction::Out, self.device.api.id()), from, to.expose_provenance(), slab) }
    }

    fn source(&self, base: usize) -> Result<usize, DeviceError> {
        let (owner, _) = self.reach_owner(base).map_err(|refusal| self.device.error(refusal))?;
        Ok(owner)
    }

    unsafe fn copy_across(
        &self,
        stream: &Stream<A>,
        source: usize,
        [from, to]: [usize; 2],
        slab: &Slab,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe { self.copy(stream, (Direction::Across, source), from, to, slab) }
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
        unsafe { Graph::new(&self.device, nodes, edges, None) }
    }

    fn has_loops(&self) -> bool {
        self.device.api.has_loops()
    }

    unsafe fn loop_graph(
        &self,
        nodes: &[GraphNode<'_, Self>],
        edges: &[Vec<u32>],
        last: &GraphNode<'_, Self>,
    ) -> Result<Graph<A>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { Graph::new(&self.device, nodes, edges, Some(last)) }
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
        let raw = used.map_or_else(|| self.device.call_at_once(|api| api.create_event(false)), Ok);
        let raw = raw.map_err(|refusal| self.device.error(refusal))?;
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
        may_block();
        // SAFETY: the event is alive.
        self.device.call_stream(|api| unsafe { api.synchronize(event.raw) })
    }

    fn begin_work(&self, stream: &Stream<A>) -> Result<Stamp<A>, DeviceError> {
        self.stamp(stream)
    }

    fn end_work(&self, stream: &Stream<A>, begun: Stamp<A>) -> Result<[Stamp<A>; 2], DeviceError> {
        Ok([begun, self.stamp(stream)?])
    }

    fn time_of(&self, stamp: &Stamp<A>) -> Result<Option<i64>, DeviceError> {
        stamp.time()
    }

    fn anchor(&self, stamp: Stamp<A>) -> Result<(), DeviceError> {
        self.set_anchor(stamp)
    }
}
