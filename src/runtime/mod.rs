//! The public entry point: the calls that a program makes.
//!
//! [`Runtime`] is a [driver](crate::driver) with a [`Door`], through which bodies enter as well. It also contains the
//! parts that only the program uses: ending the runtime, and the output written at that point. Submission ([`submit`]),
//! waiting and reading ([`wait`]), recovery ([`recovery`]) and building ([`builder`], [`build`]) are in separate files,
//! which use this one.
//!
//! Nothing in this module executes a task or knows about threads.

mod admission;
mod any_driver;
mod bodies;
mod build;
mod builder;
mod capacities;
mod children;
mod detached;
mod door;
#[cfg(feature = "dynamic")]
mod dynamic;
mod end;
mod explain;
mod fill;
mod for_each;
mod foreign_memory;
mod futures;
mod group;
mod handle;
mod join;
mod lend;
mod live;
mod made_inside;
mod multi_device;
mod on_device;
mod pending;
mod raw;
mod record;
mod recovery;
mod release;
mod returning;
mod scope;
mod statistics;
mod submit;
mod take;
mod values;
mod wait;

pub use crate::driver::reasons::{PendingTask, PendingTasks, WaitReason, WaitStep};
pub use crate::driver::watch::{RunningTask, Stall};
pub use builder::Builder;
pub use for_each::{LoopBody, LoopBuilder};
pub use futures::Reading;

pub use group::{CancelOnDrop, TaskGroup};
pub use handle::TaskHandle;
pub use pending::{Pending, ResultFuture};
pub use record::{Explanation, Obstacle, Recorder, Recording};
pub use recovery::{Accept, Clear};
pub use returning::Returning;
pub use scope::Scope;
pub use statistics::{LinkStatistics, Statistics};
pub use submit::TaskBuilder;

pub(crate) use self::door::Door;
#[cfg(feature = "graph")]
use crate::depend::TaskGraph;
use crate::driver::shared::Shared;
use crate::energy::Account;
use crate::ids::SpaceId;
use crate::machine::{Machine, Warning};
use crate::memory::{Element, Shape};
use crate::task::{Data, IntoRegion, IterationSpace};
use ndarray::{Array, IntoDimension};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    ended: AtomicBool,
    warnings: Vec<Warning>,
    /// The file that stores the scheduler's performance model between runs.
    model_file: Option<PathBuf>,
    next_space: AtomicU64,
    energy: Account,
    live: live::Live,
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
    fn shared(&self) -> &Shared {
        self.door.shared()
    }

    /// Creates an iteration space with one index per weight; a weight is the relative work at its index.
    ///
    /// # Panics
    /// Panics if a weight is negative, infinite or NaN.
    #[track_caller]
    pub fn iteration_space(&self, name: impl Into<String>, weights: Vec<f64>) -> IterationSpace {
        IterationSpace::new(self.next_space.fetch_add(1, Ordering::Relaxed), name.into(), weights)
    }

    /// Returns the units and address spaces.
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

    /// Returns whether the runtime simulates a machine ([`Builder::simulate`]). If so, it runs no bodies and computes
    /// no results.
    pub fn is_simulated(&self) -> bool {
        self.door.driver.simulated().is_some()
    }

    /// Returns the units as a configuration string.
    pub fn configuration(&self) -> &str {
        &self.door.configuration
    }

    /// Returns what could not be set up as requested, such as fewer cores than units.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the address spaces in which the whole region is currently valid.
    pub fn valid_in<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Vec<SpaceId> {
        let region = region.into_region();
        self.shared().engine.valid_in(region.data.cell.datum.id, &region.block)
    }

    /// Returns the capacity of an address space in bytes; host memory is not counted.
    pub fn capacity_bytes(&self, space: SpaceId) -> u64 {
        self.door.capacities.bytes(space)
    }

    /// Returns the graph of the tasks submitted so far, if [`Builder::record_graph`] was set.
    #[cfg(feature = "graph")]
    pub fn graph(&self) -> Option<TaskGraph> {
        if self.shared().is_in_child() { None } else { self.shared().engine.graph() }
    }

    /// Returns which unit ran which tasks, and how much was copied. In a child of `fork`, returns only how many tasks
    /// each unit had finished before the fork.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.shared(), &self.energy, self.now())
    }

    /// Returns conflicts between running tasks, if [`Builder::detect_conflicts`] was set. There are none unless the
    /// runtime has an error.
    pub fn conflicts(&self) -> Vec<String> {
        let conflicts = self.shared().conflicts.as_ref().filter(|_| !self.shared().is_in_child());
        conflicts.map_or_else(Vec::new, |detector| detector.found())
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { engine, progress, waiters, .. } = self.shared();
        if self.shared().is_in_child() {
            return f.debug_struct("Runtime").field("units", &self.door.configuration).finish_non_exhaustive();
        }
        f.debug_struct("Runtime")
            .field("units", &self.door.configuration)
            .field("pending", &progress.pending())
            .field("waiting", &waiters.len())
            .field("placed", &engine.stall())
            .finish_non_exhaustive()
    }
}
