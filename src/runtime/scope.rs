//! Scopes: tasks that borrow from the frame that waits for them.
//!
//! A scope consists of a group of tasks and a list of the memory that it has borrowed. [`Runtime::scope`] ends the
//! scope whatever the closure does: it waits until no task of the group is left, has modified data copied home, and
//! releases each borrowed data object with a task that comes after all its users, just as the memory of other data
//! objects is released. Only then does it return or unwind, because it must not leave a frame that a task can still
//! touch. If the runtime has broken, it is unknown whether a task still can, so the process is aborted.
//!
//! The lifetimes of closures and homes are erased on submission, in a single place (`memory/lease.rs`). A borrowed home
//! has its own strides; gaps between its rows are never touched, and a borrowed home is not page-locked. The runtime
//! cannot be shut down while one of its scopes is open.

use super::door::Door;
use super::for_each::LoopBuilder;
use super::group::TaskGroup;
use super::release::release;
use super::runtime::Runtime;
use super::submit::TaskBuilder;
use crate::Context;
use crate::depend::TaskRef;
use crate::error::{RunError, SubmitError};
use crate::ids::DataId;
use crate::memory::{DataCell, Element, Lease, NoBody, Shape};
use crate::sync::CallSite;
use crate::task::{Accesses, Borrowed, BorrowedMut, Data, LoopAccesses};
use ndarray::{ArrayView, ArrayViewMut};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

impl Runtime {
    /// Calls `f` with a scope, in which tasks can use the calling function's variables: arrays are borrowed in place,
    /// and bodies borrow anything that outlives the scope. Returns the result of `f` when all of the scope's tasks
    /// have ended and the borrowed arrays are valid in host memory again. On CPU units nothing is moved or copied.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (mut grid, table, name) = (vec![0.0; 1000], vec![2.0; 1000], String::from("grid"));
    /// let tasks = rt.scope(|s| {
    ///     let (x, y) = (s.borrow(&table), s.borrow_mut(&mut grid[..]).named("grid"));
    ///     let parts = blocks(1000, 100);
    ///     for part in parts.clone() {
    ///         s.task("fill", (x.slice(part.clone()).input(), y.slice(part).output()))
    ///             .cpu(|_, (x, y)| {
    ///                 y.copy_from_slice(x);
    ///                 assert_eq!(name, "grid"); // borrowed, not moved
    ///             })
    ///             .submit()?;
    ///     }
    ///     Ok::<_, SubmitError>(parts.count())
    /// })??;
    /// assert_eq!((tasks, grid[999]), (10, 2.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The tasks of a scope form a [group](Scope::group). Only their accesses order them, both among each other and
    /// with tasks outside the scope, and they may use ordinary data too. If the thread that waits at the end of the
    /// scope hosts a unit, it executes tasks while it waits. Scopes can be nested.
    ///
    /// If `f` panics, or a submission is refused, the tasks submitted before still run; a panic continues when they
    /// have ended. Leaking handles or the scope's tasks with `mem::forget` does not change this. If an internal thread
    /// of the runtime dies while tasks of the scope are left, the runtime cannot know which tasks still use the frame,
    /// so the process is aborted.
    ///
    /// In a simulation, no body runs, so borrowed arrays remain unchanged.
    ///
    /// # Errors
    /// Returns the failures that kept tasks of the scope from completing or left a borrowed array without a value; the
    /// affected parts of the array then contain whatever was left there. The call is refused inside a body, or after
    /// the runtime has ended.
    #[track_caller]
    pub fn scope<'env, F, R>(&self, f: F) -> Result<R, RunError>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        run(self.group(), f)
    }
}

impl Context {
    /// Like [`Runtime::scope`], for children of this task: they can borrow the body's variables, including parts of its
    /// views. This lets a body divide its work among units and continue when all of the work is done.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let x = rt.data(vec![1; 1000]);
    /// rt.task("double", x.inout())
    ///     .cpu(|cx, x| {
    ///         cx.scope(|s| {
    ///             let x = s.borrow_mut(x);
    ///             s.for_each("part", x.blocks(100).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()
    ///         })??;
    ///         Ok::<_, RunError>(())
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [2; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If the task is a member of a group, the scope's group is a part of that group ([`group`](Self::group)).
    ///
    /// # Errors
    /// As for [`Runtime::scope`], except that the call is refused on a thread other than the body's own, in a body for
    /// devices, and in a destructor.
    #[track_caller]
    pub fn scope<'env, F, R>(&self, f: F) -> Result<R, RunError>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        run(self.group(), f)
    }
}

/// Calls `f` with a scope of this group's tasks, and ends it.
#[track_caller]
fn run<'env, F, R>(group: TaskGroup, f: F) -> Result<R, RunError>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let door = group.door.clone();
    door.may_wait("scope")?;
    door.shared().broken()?;
    let open = door.scopes.open()?;
    let lease = Lease::of_scope(); // its promise is kept below: nothing returns or unwinds before the end
    let scope = Scope { group, lent: Mutex::default(), lease, env: PhantomData };
    let at = CallSite::caller();
    let returned = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let ended = catch_unwind(AssertUnwindSafe(|| scope.end(at)));
    if !matches!(ended, Ok(Ok(()))) {
        scope.give_up();
    }
    drop(open);
    match (returned, ended) {
        // Failures are not reported here; the runtime reports them later.
        (Err(panic), _) | (_, Err(panic)) => resume_unwind(panic),
        (_, Ok(Err(broken))) => Err(broken.into()),
        (Ok(value), Ok(Ok(()))) => match door.failures_of(&scope.group.group) {
            none if none.is_empty() => Ok(value),
            failures => Err(RunError::Failed(failures)),
        },
    }
}

/// A scope in which tasks can borrow. Made by [`Runtime::scope`].
///
/// `'scope` is the lifetime of the scope, and `'env` is the lifetime of the memory borrowed from outside it, as in
/// [`std::thread::Scope`].
pub struct Scope<'scope, 'env: 'scope> {
    group: TaskGroup,
    lent: Mutex<Vec<Lent>>,
    lease: Lease<'scope>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A borrowed data object.
#[derive(Clone)]
struct Lent {
    cell: Arc<DataCell>,
    /// Functions that copy modified parts home; `None` if the object was borrowed for reading only.
    home: Option<Home>,
}

/// The functions that need the types of a borrowed data object.
#[derive(Clone, Copy)]
struct Home {
    /// Submits a task after all writers of the data object. That task copies modified parts home; if a value is
    /// missing, its poison says why.
    bring: fn(&Door, Arc<DataCell>) -> Result<TaskRef, SubmitError>,
    /// Accepts the data object's content as it is.
    accept: fn(&Door, Arc<DataCell>) -> Result<(), SubmitError>,
}

impl Home {
    fn of<T: Element, S: Shape>() -> Self {
        Self {
            bring: |door, cell| door.bring_home(Data::<T, S>::borrowed(cell, door.owner()).all()),
            accept: |door, cell| door.accept(Data::<T, S>::borrowed(cell, door.owner()).all()),
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Begins the description of a task of this scope; see [`Runtime::task`]. Its bodies may borrow anything that
    /// outlives the scope, and so may the futures and results that they return. A result that borrows nothing can be
    /// accessed by a later task; for a result that borrows, the program can only wait.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (text, mut ghost, message) = (String::from("to be or not to be"), vec![0.0; 3], [1.0, 2.0, 3.0]);
    /// let longest = rt.scope(|s| {
    ///     let find = s.task("longest", ()).returns(|_, ()| text.split(' ').max_by_key(|word| word.len()));
    ///     let (longest, count) = (find.submit()?, s.task("count", ()).returns(|_, ()| text.len()).submit()?);
    ///     s.task("print", count.input()).cpu(|_, count| println!("{count} bytes")).submit()?;
    ///
    ///     let ghost = s.borrow_mut(&mut ghost);
    ///     s.task("receive", ghost.output())
    ///         .host_detached_until_event(|_, mut ghost: Lent<[f64]>| {
    ///             ghost.copy_from_slice(&message);
    ///             std::thread::spawn(move || ghost.finish()); // a transport would do so when the message has arrived
    ///         })
    ///         .submit()?;
    ///     longest.get()
    /// })??;
    /// assert_eq!((longest, &ghost[..]), (Some("not"), &message[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task<A: Accesses>(
        &'scope self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
    ) -> TaskBuilder<'scope, A, NoBody, Lease<'scope>> {
        // The task cannot be added to another group: a builder with a lease has no method for that.
        self.group.task(name, accesses).kept_by(self.lease)
    }

    /// Begins the description of a loop whose iterations are tasks of this scope. Its bodies may borrow anything that
    /// outlives the scope; otherwise it is like [`Runtime::for_each`].
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (factor, table, mut x) = (String::from("3"), vec![1, 2, 3, 4], vec![1; 4]);
    /// rt.scope(|s| {
    ///     let (table, x) = (s.borrow(&table), s.borrow_mut(&mut x));
    ///     s.for_each("scale", (table.blocks(2).input(), x.blocks(2).inout()))
    ///         .cpu(|_, (table, x)| x.iter_mut().zip(table).for_each(|(x, t)| *x *= t * factor.len()))
    ///         .submit()
    /// })??;
    /// assert_eq!(x, table);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each<A: LoopAccesses>(
        &'scope self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
    ) -> LoopBuilder<'scope, A, NoBody, Lease<'scope>> {
        self.group.for_each(name, accesses).kept_by(self.lease)
    }

    /// Lends a slice to the scope's tasks, for reading and writing.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let mut x = [1, 2, 3, 4];
    /// rt.scope(|s| {
    ///     let x = s.borrow_mut(&mut x[1..]);
    ///     s.task("negate", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x = -*x)).submit()
    /// })??;
    /// assert_eq!(x, [1, -2, -3, -4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn borrow_mut<T: Element>(&'scope self, slice: &'scope mut [T]) -> BorrowedMut<'scope, T> {
        let (runtime, id) = self.next();
        let cell = self.lease.slice_mut(runtime, id, slice);
        BorrowedMut::new(self.lend(cell, Some(Home::of::<T, ndarray::Ix1>())), self.group.door.owner())
    }

    /// Lends a slice to the scope's tasks, for reading.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (weights, largest) = (vec![1.0, 3.0, 2.0], rt.scalar(0.0f64));
    /// rt.scope(|s| {
    ///     let x = s.borrow(&weights);
    ///     s.task("largest", (x.input(), largest.output()))
    ///         .cpu(|_, (x, largest)| largest[0] = x.iter().copied().fold(0.0, f64::max))
    ///         .submit()
    /// })??;
    /// assert_eq!(rt.read(&largest)?[0], 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn borrow<T: Element>(&'scope self, slice: &'scope [T]) -> Borrowed<'scope, T> {
        let (runtime, id) = self.next();
        Borrowed::new(self.lend(self.lease.slice(runtime, id, slice), None), self.group.door.owner())
    }

    /// Lends an array of one to four dimensions to the scope's tasks, for reading and writing. There may be gaps
    /// between its rows, so a part of a larger array can be lent; tasks do not touch the gaps.
    ///
    /// ```
    /// use ndarray::{Array2, s};
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let mut field = Array2::<f64>::zeros((6, 8));
    /// rt.scope(|scope| {
    ///     let inner = scope.borrow_array_mut(field.slice_mut(s![1..5, 2..6]))?;
    ///     scope.task("fill", (inner.block((.., 1..)).output(),)).cpu(|_, (mut x,)| x.fill(1.0)).submit()
    /// })??;
    /// assert_eq!((field.sum(), field[[1, 3]]), (12.0, 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`SubmitError::Layout`] if the array is not in row-major order or has gaps inside its rows.
    /// Transposed, reversed, stepped and broadcast views are such arrays.
    pub fn borrow_array_mut<T: Element, S: Shape>(
        &'scope self,
        array: ArrayViewMut<'scope, T, S>,
    ) -> Result<BorrowedMut<'scope, T, S>, SubmitError> {
        let (runtime, id) = self.next();
        let cell = self.lease.array_mut(runtime, id, array)?;
        Ok(BorrowedMut::new(self.lend(cell, Some(Home::of::<T, S>())), self.group.door.owner()))
    }

    /// Lends an array of one to four dimensions to the scope's tasks, for reading.
    ///
    /// ```
    /// use ndarray::array;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (matrix, trace) = (array![[1, 2], [3, 4]], rt.scalar(0));
    /// rt.scope(|s| {
    ///     let a = s.borrow_array(matrix.view())?;
    ///     s.task("trace", (a.input(), trace.output())).cpu(|_, (a, trace)| trace[0] = a.diag().sum()).submit()
    /// })??;
    /// assert_eq!(rt.read(&trace)?[0], 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`borrow_array_mut`](Self::borrow_array_mut).
    pub fn borrow_array<T: Element, S: Shape>(
        &'scope self,
        array: ArrayView<'scope, T, S>,
    ) -> Result<Borrowed<'scope, T, S>, SubmitError> {
        let (runtime, id) = self.next();
        Ok(Borrowed::new(self.lend(self.lease.array(runtime, id, &array)?, None), self.group.door.owner()))
    }

    /// Returns the scope's tasks as a group: to wait for those submitted so far, or to cancel those that have not
    /// begun.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let mut x = [1, 2];
    /// rt.scope(|s| {
    ///     let x = s.borrow_mut(&mut x);
    ///     s.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
    ///     s.group().wait()?;
    ///     assert_eq!(rt.read(&x)?, [2, 4]);
    ///     Ok::<_, RunError>(())
    /// })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self) -> &TaskGroup {
        &self.group
    }

    /// Returns the runtime's ID and the ID of the next data object.
    fn next(&self) -> (u64, DataId) {
        let door = &self.group.door;
        (door.id, door.next_data())
    }

    /// Registers a data object that is released at the end of the scope.
    fn lend(&self, mut cell: DataCell, home: Option<Home>) -> Arc<DataCell> {
        let door = &self.group.door;
        door.mark(&mut cell);
        let cell = Arc::new(cell);
        // Enter the object in the list first, so that every owner of its home forgets it at the end, whatever happens.
        self.lent.lock().push(Lent { cell: cell.clone(), home });
        door.driver.register(&cell);
        cell
    }

    /// Waits for all tasks and borrowed regions; `at` is the call site.
    ///
    /// # Errors
    /// Fails if the runtime is broken; tasks or borrowed regions may then be left.
    fn end(&self, at: CallSite) -> Result<(), SubmitError> {
        let door = &self.group.door;
        // Bodies may borrow as well; once none is left, nothing else borrows.
        self.group.wait_until_empty(at)?;
        let lent = self.lent.lock().clone();
        if lent.is_empty() {
            return Ok(());
        }
        let bring =
            |Lent { cell, home }: &Lent| home.map(|home| Ok((home, cell.clone(), (home.bring)(door, cell.clone())?)));
        let brought = lent.iter().filter_map(bring).collect::<Result<Vec<_>, SubmitError>>()?;
        if !door.on_fast_path {
            for (home, cell, task) in &brought {
                door.await_end_in_any_case(task)?;
                if task.poison().is_some() {
                    (home.accept)(door, cell.clone())?; // comes before the release below
                }
            }
        }
        let released = lent.into_iter().map(|lent| release(&door.driver, lent.cell, true));
        released.collect::<Result<Vec<_>, _>>()?.iter().try_for_each(|task| door.await_end_in_any_case(task))?;
        brought.iter().filter_map(|(_, _, task)| task.poison()).for_each(|cause| self.group.group.note(&cause));
        self.lent.lock().clear();
        Ok(())
    }

    /// Called if the runtime is broken, or if a panic of a policy or an internal panic has propagated to this point.
    /// Returns only if nothing of the scope is left, and aborts the process otherwise.
    #[cold]
    fn give_up(&self) {
        let driver = &self.group.door.driver;
        if driver.shared().is_in_child() {
            return; // no thread is left that could use borrowed memory
        }
        if !driver.may_wait_in_body() {
            driver.stop(); // its threads end after the bodies that they are running
        }
        let unfinished = self.group.pending();
        if unfinished == 0 && (self.lent.lock().is_empty() || driver.shared().progress.pending() == 0) {
            return;
        }
        let why = driver.shared().broken().err().map_or_else(|| "it panicked".to_owned(), |broken| broken.to_string());
        eprintln!(
            "thalweg: the runtime cannot end a scope ({why}): {unfinished} tasks of it may still use what they have \
             borrowed, so the process is aborted"
        );
        std::process::abort();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("pending", &self.group.pending()).finish_non_exhaustive()
    }
}
