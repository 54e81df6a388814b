//! A device's kernels. Each kernel is compiled once, when it is first launched.

use super::Backend;
use crate::error::DeviceError;
use crate::kernel::{KernelText, Source};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;

type Functions<B> = FxHashMap<(u64, &'static str), Arc<<B as Backend>::Function>>;
/// Compiled modules by key. Failures are stored too, so that a program that does not compile is not tried again.
type Modules<B> = FxHashMap<u64, Result<<B as Backend>::Module, DeviceError>>;

/// The cached modules, by program, and functions, by program and kernel name.
pub(super) struct Kernels<B: Backend> {
    functions: RwLock<Functions<B>>,
    modules: Mutex<Modules<B>>,
}

impl<B: Backend> Default for Kernels<B> {
    fn default() -> Self {
        Self { functions: RwLock::default(), modules: Mutex::default() }
    }
}

impl<B: Backend> Kernels<B> {
    /// Returns a kernel, compiling it if necessary.
    pub(super) fn get(&self, backend: &B, kernel: &KernelText) -> Result<Arc<B::Function>, DeviceError> {
        let key = (kernel.source_key(), kernel.name);
        if let Some(function) = self.functions.read().get(&key) {
            return Ok(function.clone());
        }
        let mut modules = self.modules.lock();
        let module = modules.entry(key.0).or_insert_with(|| match &kernel.source {
            Source::Program(program) => backend.module(program),
            Source::Module(module) => backend.own_module(module),
        });
        let module = module.as_ref().map_err(Clone::clone)?;
        let function = Arc::new(backend.function(module, kernel)?);
        self.functions.write().insert(key, function.clone());
        Ok(function)
    }
}
