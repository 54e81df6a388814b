//! Iteration spaces: tasks that recur every time step under the same index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The indices `0..len` of tasks that recur instance by instance, for instance the zones of a mesh in every time step.
///
/// Work distributions (003, 004 §4) map the indices to units; a task's place is given with
/// [`TaskBuilder::at`](crate::TaskBuilder::at). Made by [`Runtime::iteration_space`](crate::Runtime::iteration_space).
#[derive(Debug, Clone)]
pub struct IterationSpace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: u32,
    name: String,
    weights: Arc<[f64]>,
    begun: AtomicU64,
}

impl IterationSpace {
    pub(crate) fn new(id: u32, name: String, weights: Vec<f64>) -> Self {
        Self { inner: Arc::new(Inner { id, name, weights: weights.into(), begun: AtomicU64::new(0) }) }
    }

    /// Opens the next instance and returns its number, counted from 0.
    pub fn begin(&self) -> u64 {
        self.inner.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// How many instances have been opened.
    pub fn instances(&self) -> u64 {
        self.inner.begun.load(Ordering::Relaxed)
    }

    /// The space's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The number of indices.
    pub fn len(&self) -> usize {
        self.inner.weights.len()
    }

    /// Whether there is no index.
    pub fn is_empty(&self) -> bool {
        self.inner.weights.is_empty()
    }

    /// The relative amount of work at each index, as the user estimates it.
    pub fn weights(&self) -> &[f64] {
        &self.inner.weights
    }

    pub(crate) fn shared_weights(&self) -> Arc<[f64]> {
        self.inner.weights.clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.inner.id
    }
}
