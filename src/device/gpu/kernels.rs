//! A device's compiled kernels, each compiled once, when it is first launched.

use super::Driver;
use crate::error::DeviceError;
use crate::kernel::KernelText;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;

type Functions<D> = FxHashMap<(u64, &'static str), Arc<<D as Driver>::Function>>;
/// What does not compile is not tried again.
type Modules<D> = FxHashMap<u64, Result<<D as Driver>::Module, DeviceError>>;

/// Modules by program, functions by program and name.
pub(super) struct Kernels<D: Driver> {
    functions: RwLock<Functions<D>>,
    modules: Mutex<Modules<D>>,
}

impl<D: Driver> Default for Kernels<D> {
    fn default() -> Self {
        Self { functions: RwLock::default(), modules: Mutex::default() }
    }
}

impl<D: Driver> Kernels<D> {
    /// A kernel, compiled.
    pub(super) fn get(&self, driver: &D, kernel: &KernelText) -> Result<Arc<D::Function>, DeviceError> {
        let key = (kernel.program_key(), kernel.name);
        if let Some(function) = self.functions.read().get(&key) {
            return Ok(function.clone());
        }
        let mut modules = self.modules.lock();
        let module = modules.entry(key.0).or_insert_with(|| driver.module(&kernel.program));
        let module = module.as_ref().map_err(Clone::clone)?;
        let function = Arc::new(driver.function(module, kernel)?);
        self.functions.write().insert(key, function.clone());
        Ok(function)
    }
}
