//! The real driver: threads that execute tasks, and the front door to it all.
//!
//! [`Runtime`] owns a thread per compute unit (the building thread may host unit 0), pinned, and one per device for its
//! copies. All of them do the same: take a task, run it, tell the engine, carry out what the engine says.

mod accelerators;
#[cfg(feature = "sim")]
mod build_simulated;
mod builder;
mod conflict;
mod core;
mod devices;
mod handle;
mod host;
mod progress;
mod ready;
mod recovery;
mod simulated;
mod statistics;
mod submit;
mod thief;
mod threads;
mod wait;
mod waiters;
mod watch;
mod window;

pub use builder::Builder;
pub use handle::TaskHandle;
pub use statistics::{LinkStatistics, Statistics};
pub use submit::TaskBuilder;
pub use watch::{RunningTask, Stall};

use self::core::{Core, Description};
use self::host::Host;
use self::submit::LargestByKind;
use crate::depend::Side;
#[cfg(feature = "graph")]
use crate::depend::TaskGraph;
use crate::error::SubmitError;
use crate::ids::{DataId, SpaceId};
use crate::machine::{CoresTaken, Machine, Warning};
use crate::memory::{DataCell, Element, HostBuffer, Out, Payload, Shape};
use crate::task::{Accesses, Data, IntoRegion, IterationSpace, Owner, ReleasedCell};
use ndarray::{Array, Dimension, IntoDimension, Ix1};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;
#[cfg(feature = "sim")]
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// A dataflow task-graph runtime.
///
/// ```
/// use thalweg::prelude::*;
///
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let x = rt.data(vec![1.0f64; 1000]);
/// let y = rt.data(vec![2.0f64; 1000]);
/// for part in blocks(1000, 100) {
///     rt.task("axpy", (x.slice(part.clone()).input(), y.slice(part).inout()))
///         .cpu(|_, (x, y)| for (y, x) in y.iter_mut().zip(x) { *y += 0.5 * x })
///         .submit()?;
/// }
/// rt.wait()?;
/// assert_eq!(rt.take(y)?, [2.5; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the runtime waits for all tasks (inside a body it does not wait, and they run all the same); while the
/// program is unwinding from a panic, tasks that have not started are cancelled instead.
pub struct Runtime {
    core: Arc<Core>,
    owner: Arc<Releaser>,
    threads: Mutex<Threads>,
    /// Who holds it executes for unit 0, if that has no thread of its own; inside is a guest's part in the runtime.
    seat: Option<Mutex<Seat>>,
    configuration: String,
    capacities_bytes: Vec<u64>,
    largest_by_kind: LargestByKind,
    warnings: Vec<Warning>,
    /// Where the scheduler's performance model is kept between runs.
    #[cfg(feature = "sim")]
    model_file: Option<PathBuf>,
    next_data: AtomicU32,
    next_space: AtomicU32,
}

/// What goes when the runtime ends.
#[derive(Default)]
struct Threads {
    ended: bool,
    units: Vec<JoinHandle<()>>,
    copies: Vec<JoinHandle<()>>,
    /// Of unit 0, if its host is a thread of the user's.
    pool: Option<Arc<rayon::ThreadPool>>,
    /// The cores that are taken.
    cores: Option<CoresTaken>,
}

/// What a thread needs that executes for unit 0 in its host's absence.
struct Seat(Rc<Host>);

#[allow(unsafe_code)] // an `Rc` moves between threads here
// SAFETY: the `Rc` is never cloned out of the seat, so it is one owner that moves with the lock.
unsafe impl Send for Seat {}

impl std::ops::Deref for Seat {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.0
    }
}

/// Frees data whose handles are all gone, in the order of dependences.
struct Releaser(Weak<Core>);

impl Owner for Releaser {
    fn release(&self, ReleasedCell(cell): ReleasedCell) {
        let Some(core) = self.0.upgrade() else { return };
        // SAFETY of the order: this task overwrites all of the data, so it comes after every task that uses it.
        let whole = cell.datum.whole();
        let record = crate::depend::AccessRecord { datum: &cell.datum, block: &whole, mode: crate::depend::Mode::Out };
        let kept = cell.clone();
        let forget = move |_: &mut [u8]| drop(kept);
        let nothing = Out::<u8, Ix1>(crate::memory::Declared::of_nothing(&cell));
        let payload = Payload::sole(nothing, forget);
        let side = Side { space: Some(SpaceId::HOST), forget: Some(cell.datum.id), ..Side::default() };
        let (name, location) = (Cow::Borrowed("release"), Location::caller());
        let description = Description { name, location, priority: 0, internal: true, side: Some(Box::new(side)) };
        let released = core.submit(description, payload, &[record], |_| ());
        // Otherwise it was taken between the last look and now, and there is nothing to free.
        if let Err(SubmitError::ShutDown | SubmitError::Broken { .. } | SubmitError::InsidePolicy { .. }) = released {
            core.keep(cell); // other threads may still be using it
        }
    }
}

impl Runtime {
    /// Starts to describe a runtime.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Registers a vector as a one-dimensional data.
    pub fn data<T: Element>(&self, elements: Vec<T>) -> Data<T> {
        let shape = [elements.len()];
        self.register(|_| HostBuffer::new(elements), &shape)
    }

    /// Registers one value, as a data object of one element.
    pub fn scalar<T: Element>(&self, value: T) -> Data<T> {
        self.data(vec![value])
    }

    /// Registers an array of one to four dimensions; its elements are put into row-major order if they are not.
    pub fn array<T: Element, S: Shape>(&self, array: Array<T, S>) -> Data<T, S> {
        let shape = array.shape().to_vec();
        let elements = if array.is_standard_layout() {
            let (elements, offset) = array.into_raw_vec_and_offset();
            let first = offset.unwrap_or(0);
            let len: usize = shape.iter().product();
            if first == 0 && elements.len() == len { elements } else { elements[first..first + len].to_vec() }
        } else {
            array.iter().copied().collect()
        };
        self.register(|_| HostBuffer::new(elements), &shape)
    }

    /// Registers an array of zeros, of one to four dimensions. Large ones lie better in the cache than what was
    /// allocated elsewhere; [`take`](Self::take) closes the gap before them, which is a pass over the memory.
    ///
    /// In a simulation it has no memory, so that a program can be simulated whose data no machine at hand could hold:
    /// [`read`](Self::read) and [`take`](Self::take) give zeros.
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
    /// If the array would have more elements, or more bytes, than memory has addresses (`isize::MAX`).
    pub fn zeros<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        let shape = shape.into_dimension();
        let len = elements_of::<T>(shape.slice());
        if self.core.simulation().is_some() {
            let id = DataId(self.next_data.fetch_add(1, Ordering::Relaxed));
            return self.handle(DataCell::phantom::<T>(self.core.id, id, shape.slice()));
        }
        self.register(|id| HostBuffer::zeros::<T>(len, id.0), shape.slice())
    }

    fn register<T: Element, S: Shape>(&self, home: impl FnOnce(DataId) -> HostBuffer, shape: &[usize]) -> Data<T, S> {
        let id = DataId(self.next_data.fetch_add(1, Ordering::Relaxed));
        let cell = DataCell::new::<T>(self.core.id, id, shape, home(id));
        if let Some(devices) = self.core.devices() {
            devices.add_home(&cell);
        }
        self.handle(cell)
    }

    fn handle<T: Element, S: Shape>(&self, cell: DataCell) -> Data<T, S> {
        let owner: Weak<dyn Owner> = Arc::downgrade(&self.owner) as Weak<dyn Owner>;
        Data::new(cell, owner)
    }

    /// Begins the description of a task with these accesses: a tuple, as a rule; see [`Accesses`]. Bodies can do so
    /// too; what holds for them is said at [`TaskBuilder::submit`].
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'_, A> {
        TaskBuilder::new(self, name.into(), accesses)
    }

    /// Makes an iteration space with one index per weight; a weight is the relative work at its index.
    pub fn iteration_space(&self, name: impl Into<String>, weights: Vec<f64>) -> IterationSpace {
        IterationSpace::new(self.next_space.fetch_add(1, Ordering::Relaxed), name.into(), weights)
    }

    /// The units and address spaces.
    pub fn machine(&self) -> &Machine {
        &self.core.machine
    }

    /// The time since the runtime was built, or in a simulation the virtual time.
    ///
    /// Programs that take times from here say in simulation what they would have taken on the machine that is
    /// simulated.
    pub fn now(&self) -> Duration {
        match self.core.simulation() {
            Some(simulation) => Duration::from_nanos(simulation.now()),
            None => self.core.built.elapsed(),
        }
    }

    /// Whether the runtime simulates a machine ([`Builder::simulate`]): then no body is run and no result is computed.
    pub fn is_simulated(&self) -> bool {
        self.core.simulation().is_some()
    }

    /// The units as a configuration string.
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// What was not as asked for, such as fewer cores than units.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The address spaces in which all of a region is valid at this moment.
    pub fn valid_in<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Vec<SpaceId> {
        let region = region.into_region();
        let data = region.data.cell.datum.id;
        let placement = self.core.engine.placement();
        placement.map_or_else(|| vec![SpaceId::HOST], |placement| placement.lock().valid_in(data, &region.block))
    }

    /// How many bytes an address space holds; the host's are not counted.
    pub fn capacity_bytes(&self, space: SpaceId) -> u64 {
        self.capacities_bytes.get(space.index()).copied().unwrap_or(0)
    }

    /// The graph of the tasks submitted so far, if [`Builder::record_graph`] was asked for.
    #[cfg(feature = "graph")]
    pub fn graph(&self) -> Option<TaskGraph> {
        self.core.engine.graph()
    }

    /// What ran where, and what moved.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(&self.core)
    }

    /// Conflicts between running tasks, if [`Builder::detect_conflicts`] was asked for: none, unless the runtime is
    /// wrong.
    pub fn conflicts(&self) -> Vec<String> {
        self.core.conflicts.as_ref().map_or_else(Vec::new, |detector| detector.found())
    }
}

/// The number of elements of an array, whose offsets and bytes can all be counted then.
///
/// # Panics
/// If they can not.
fn elements_of<T>(shape: &[usize]) -> usize {
    // An extent of 0 must not hide the others, which strides are made of.
    let most =
        shape.iter().filter(|extent| **extent > 0).try_fold(1usize, |product, extent| product.checked_mul(*extent));
    let is_countable =
        most.is_some_and(|most| std::alloc::Layout::array::<T>(most).is_ok() && isize::try_from(most).is_ok());
    assert!(
        is_countable,
        "cannot register an array of {shape:?} elements of {} bytes each: no memory has so many addresses; \
         try smaller extents, or several arrays",
        size_of::<T>()
    );
    shape.iter().product()
}

impl Runtime {
    /// Writes what the scheduler has learned, for the next run.
    #[cfg(feature = "sim")]
    fn save_model(&self) {
        let (Some(path), Some(placement)) = (&self.model_file, self.core.engine.placement()) else { return };
        let Some(text) = placement.lock().model().filter(|model| !model.is_empty()).map(crate::sched::Model::to_text)
        else {
            return;
        };
        // In one step: a run that is killed here, or one beside it, leaves a whole file.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        if let Err(problem) = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path)) {
            tracing::warn!("the performance model can not be written to {}: {problem}", path.display());
        }
    }

    /// Ends the threads, after all that is pending. A second call changes nothing.
    fn end(&self) {
        self.wait_for_quiescence();
        self.core.progress.close();
        self.wait_for_quiescence(); // for what another thread submitted just before
        let ended = Threads { ended: true, ..Threads::default() };
        let Threads { units, copies, pool, cores, ended: false } = std::mem::replace(&mut *self.threads.lock(), ended)
        else {
            return;
        };
        #[cfg(feature = "sim")]
        self.save_model();
        self.core.shut_down();
        for thread in units {
            let _ = thread.join(); // what it died of is known
        }
        if let Some(devices) = self.core.devices() {
            devices.stop();
        }
        for thread in copies {
            let _ = thread.join();
        }
        drop((pool, cores));
    }

    /// Ends on a thread of its own: a body that drops the last handle of its runtime can not wait for itself.
    fn end_elsewhere(&mut self) {
        let rest = ManuallyDrop::new(Self {
            core: self.core.clone(),
            owner: self.owner.clone(),
            threads: std::mem::take(&mut self.threads),
            seat: self.seat.take(),
            configuration: String::new(),
            capacities_bytes: Vec::new(),
            largest_by_kind: self.largest_by_kind,
            warnings: Vec::new(),
            #[cfg(feature = "sim")]
            model_file: self.model_file.take(),
            next_data: AtomicU32::new(0),
            next_space: AtomicU32::new(0),
        });
        let end = move || drop(ManuallyDrop::into_inner(rest));
        if let Err(error) = std::thread::Builder::new().name("thalweg-end".to_owned()).spawn(end) {
            tracing::error!("no thread to end a runtime that was dropped in a task's body ({error}): its own stay");
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if Host::in_body(self.core.id) {
            return self.end_elsewhere();
        }
        if std::thread::panicking() {
            self.core.cancelled.store(true, Ordering::Relaxed);
        }
        self.end();
        for failure in self.core.engine.failures().take_unreported() {
            tracing::warn!("{failure}, and nobody waited for it");
        }
        Host::leave(self.core.id);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placed = self.core.engine.placement().map(|placement| placement.lock().stall());
        f.debug_struct("Runtime")
            .field("units", &self.configuration)
            .field("pending", &self.core.progress.pending())
            .field("waiting", &self.core.waiters.len())
            .field("placed", &placed)
            .finish_non_exhaustive()
    }
}
