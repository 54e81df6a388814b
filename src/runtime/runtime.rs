//! The runtime that a program owns: a door, creation of data, and queries.

use super::door::Door;
use super::live::Live;
use super::statistics::Statistics;
#[cfg(feature = "graph")]
use crate::depend::TaskGraph;
use crate::driver::shared::Shared;
use crate::energy::Account;
use crate::machine::Machine;
use crate::memory::{Element, Shape};
use crate::task::Data;
use ndarray::{Array, IntoDimension};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A dataflow task-graph runtime.
///
/// ```
/// use thalweg::prelude::*;
///
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let x = rt.data(vec![1.0f64; 1000]);
/// let y = rt.data(vec![2.0f64; 1000]);
/// rt.for_each("axpy", (x.blocks(100).input(), y.blocks(100).inout()))
///     .cpu(|_, (x, y)| for (y, x) in y.iter_mut().zip(x) { *y += 0.5 * x })
///     .submit()?;
/// rt.wait()?;
/// assert_eq!(rt.take(y)?, [2.5; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the runtime waits for all tasks. (Inside a body, dropping does not wait, but the tasks still run.) While
/// the program is unwinding from a panic, tasks that have not started are cancelled instead.
pub struct Runtime {
    pub(crate) door: Arc<Door>,
    pub(super) ended: AtomicBool,
    /// The file that stores the scheduler's performance model between runs.
    pub(super) model_file: Option<PathBuf>,
    pub(super) energy: Account,
    pub(super) live: Live,
}

#[cfg(feature = "macros")]
impl crate::loops::support::Counts for Runtime {
    fn count_spared(&self, bytes: u64) {
        self.shared().spared.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Runtime {
    /// Registers a vector as a one-dimensional data object.
    pub fn data<T: Element>(&self, elements: Vec<T>) -> Data<T> {
        self.door.vector(elements)
    }

    /// Registers a single value as a data object with one element.
    pub fn scalar<T: Element>(&self, value: T) -> Data<T> {
        self.data(vec![value])
    }

    /// Registers an array of one to four dimensions. If its elements are not in row-major order, they are rearranged.
    pub fn array<T: Element, S: Shape>(&self, array: Array<T, S>) -> Data<T, S> {
        self.door.array(array)
    }

    /// Registers an array of zeros, of one to four dimensions.
    ///
    /// Large arrays are placed so that they use the cache better than memory allocated by the program. This placement
    /// leaves a gap before the array, which [`take`](Self::take) closes by moving the elements, a pass over the memory.
    /// Arrays of 4 MiB and more request huge pages if Linux leaves that choice to programs. From 32 MiB on, a page gets
    /// memory when it is first touched, near the unit whose task writes it first.
    ///
    /// In a simulation, the array has no memory, so you can simulate a program whose data would not fit into the memory
    /// of any machine at hand; [`read`](Self::read) and [`take`](Self::take) return zeros.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let u: Data<f64, Ix3> = rt.zeros([4, 8, 16]);
    /// assert_eq!(u.shape(), [4, 8, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`.
    #[track_caller]
    pub fn zeros<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        self.door.zeros(shape)
    }

    /// Registers several arrays of zeros, one for each shape, adjacent to each other in one piece of memory.
    ///
    /// Use this call if a program repeatedly goes through many arrays of less than a few megabytes each. The arrays
    /// share huge pages if Linux leaves that choice to programs; each array alone would be too small for a huge page. A
    /// page gets memory when it is first touched. The piece of memory is freed when its last array is gone;
    /// [`take`](Self::take) copies the elements.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let zones: Vec<Data<f64, Ix3>> = rt.zeros_together((0..16).map(|zone| [28, 20 + zone % 4, 30]));
    /// for zone in &zones {
    ///     rt.task("fill", zone.output()).cpu(|_, mut zone| zone.fill(1.0)).submit()?;
    /// }
    /// assert_eq!(zones[5].shape(), [28, 21, 30]);
    /// assert_eq!(rt.read(&zones[5])?.sum(), 28.0 * 21.0 * 30.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the number of elements or bytes of an array would exceed `isize::MAX`, or if the system does not have
    /// enough address space left for all arrays.
    #[track_caller]
    pub fn zeros_together<T: Element, I: IntoDimension>(
        &self,
        shapes: impl IntoIterator<Item = I>,
    ) -> Vec<Data<T, I::Dim>>
    where
        I::Dim: Shape,
    {
        self.door.zeros_together(shapes)
    }

    /// The state that all threads share.
    pub(super) fn shared(&self) -> &Shared {
        self.door.shared()
    }

    /// Returns the machine: its units and address spaces, and how the runtime uses them.
    pub fn machine(&self) -> &Machine {
        &self.shared().machine
    }

    /// Returns the time since the runtime was built, or the virtual time in a simulation.
    ///
    /// If a program measures time with this call, it reports the times of the simulated machine when it runs in a
    /// simulation.
    pub fn now(&self) -> Duration {
        self.door.driver.now()
    }

    /// Returns a function that returns the nanoseconds since the trace began, as times in the trace count; `None`
    /// without a trace, and in a simulation. For libraries that align the traces of several runtimes.
    #[doc(hidden)]
    pub fn trace_clock(&self) -> Option<impl Fn() -> u64 + Send + use<>> {
        self.shared().tracer.as_ref().and_then(|tracer| tracer.clock())
    }

    /// Returns the graph of the tasks submitted so far, if [`Builder::record_graph`](crate::Builder::record_graph) was
    /// set.
    #[cfg(feature = "graph")]
    pub fn graph(&self) -> Option<TaskGraph> {
        if self.shared().is_in_child() { None } else { self.shared().engine.graph() }
    }

    /// Returns which unit ran which tasks, and how much was copied. In a child of `fork`, returns only how many tasks
    /// each unit had finished before the fork.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.shared(), &self.energy, self.now())
    }

    /// Calls `print` while no progress is displayed, so that the display does not garble the output of `print` on a
    /// terminal. Without [`Builder::progress`](crate::Builder), it just calls `print`.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let answer = rt.without_progress(|| {
    ///     println!("half of it is done");
    ///     42
    /// });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn without_progress<R>(&self, print: impl FnOnce() -> R) -> R {
        #[cfg(feature = "progress")]
        if self.live.progress.is_some() && !self.shared().is_in_child() {
            return super::live::progress::suspended(print);
        }
        print()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { engine, progress, waiters, .. } = self.shared();
        if self.shared().is_in_child() {
            return f.debug_struct("Runtime").field("units", &self.machine().configuration()).finish_non_exhaustive();
        }
        f.debug_struct("Runtime")
            .field("units", &self.machine().configuration())
            .field("pending", &progress.pending())
            .field("waiting", &waiters.len())
            .field("placed", &engine.stall())
            .finish_non_exhaustive()
    }
}
