//! A device's kernels. Each kernel is compiled once, when it is first launched.
//!
//! Programs are compiled and loaded without a lock. If two threads need a new one at once, both compile it, and the
//! first result is kept.

use super::Backend;
use crate::error::DeviceError;
use crate::kernel::{KernelText, Source};
use crate::sync::Brief;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::sync::Arc;

type Functions<B> = FxHashMap<(u64, &'static str), Arc<<B as Backend>::Function>>;
/// Compiled modules by key. Failures are stored too, so that a program that does not compile is not tried again.
type Modules<B> = FxHashMap<u64, Result<Arc<<B as Backend>::Module>, DeviceError>>;

/// The cached modules, by program, and functions, by program and kernel name.
pub(super) struct Kernels<B: Backend> {
    functions: RwLock<Functions<B>>,
    modules: Brief<Modules<B>>,
}

impl<B: Backend> Default for Kernels<B> {
    fn default() -> Self {
        Self { functions: RwLock::default(), modules: Brief::default() }
    }
}

impl<B: Backend> Kernels<B> {
    /// Returns a kernel, compiling it if necessary.
    pub(super) fn get(&self, backend: &B, kernel: &KernelText) -> Result<Arc<B::Function>, DeviceError> {
        let key = (kernel.source_key(), kernel.name);
        if let Some(function) = self.functions.read().get(&key) {
            return Ok(function.clone());
        }
        let known = self.modules.lock().get(&key.0).cloned();
        let module = known.unwrap_or_else(|| {
            let made = match &kernel.source {
                Source::Program(program) => backend.module(program),
                Source::Module(module) => backend.own_module(module),
            };
            let made = made.map(Arc::new);
            self.modules.lock().entry(key.0).or_insert_with(|| made.clone()).clone()
        });
        let function = Arc::new(backend.function(&*module?, kernel)?);
        self.functions.write().insert(key, function.clone());
        Ok(function)
    }
}
