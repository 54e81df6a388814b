//! Settings of the threads that execute tasks, and of the number of pending tasks.

use super::Builder;
use crate::coherence::Eviction;

impl Builder {
    /// Lets the thread that builds the runtime execute tasks as CPU unit 0 whenever it waits, instead of starting a
    /// thread for that unit.
    ///
    /// This way a machine with as many units as cores is not oversubscribed. While the building thread neither waits
    /// nor submits, other units take the tasks queued at unit 0; if there is only one unit, no task runs during that
    /// time. If threads are bound, the building thread is moved to the unit's core once, but is not bound to it. The
    /// call has no effect on a machine without CPU units.
    ///
    /// Executing tasks prolongs a wait of that thread only while a body is computing on the thread. If such a body
    /// itself waits, it is left suspended, and continues when the same thread waits again or ends. The body runs on a
    /// stack of [`stack_bytes`](Self::stack_bytes). If another thread waits in the meantime, it executes the tasks of
    /// unit 0 instead, and does not return from its wait before the bodies that it has begun have ended.
    pub fn use_current_thread(mut self, yes: bool) -> Self {
        self.use_current_thread = yes;
        self
    }

    /// Sets whether the units' threads are bound to their cores. A bound thread may run on all cores of its unit, and
    /// so may the threads that a body starts. A thread that hosts a unit because of
    /// [`use_current_thread`](Self::use_current_thread) is never bound.
    ///
    /// | the first of these that is set | threads are bound |
    /// | --- | --- |
    /// | `pin_threads(yes)` | if `yes` |
    /// | [`places`](Self::places) | always |
    /// | the variable `OMP_PROC_BIND` | unless it is `false` |
    /// | the variable `OMP_PLACES` | always |
    /// | none of them | if the units use each core of the process once, and no other runtime has bound threads to one
    /// of them |
    ///
    /// "Other runtimes" means runtimes of this process and, on Linux, of other processes. If this runtime still
    /// shares cores with another one, there is a [warning](crate::machine::Machine::warnings); the first such warning
    /// is also written to standard error.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").pin_threads(false).build()?; // the system places it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pin_threads(mut self, yes: bool) -> Self {
        self.pin_threads = Some(yes);
        self
    }

    /// Sets the size in bytes of the stacks that bodies run on. The stack of a thread that hosts a unit because of
    /// [`use_current_thread`](Self::use_current_thread) does not change. The default is 8 MiB, or the value of the
    /// environment variable `RUST_MIN_STACK` if that is larger. The minimum is 64 KiB; with a smaller size, building
    /// the runtime fails.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").stack_bytes(64 << 20).build()?;
    /// let body = |_: &thalweg::Context, ()| assert_eq!(std::hint::black_box(&[0u8; 16 << 20])[99], 0);
    /// rt.task("deep", ()).cpu(body).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets how many tasks may be pending before a submission waits until half of them have finished. A submitter that
    /// hosts a unit executes pending tasks while it waits. The default is 512 per unit and at least 1024, which is
    /// enough for the scheduler to look ahead and small enough for the caches. Submissions inside bodies do not wait.
    ///
    /// A body that such a submitter executes must not wait for anything that the same thread does after the submission,
    /// because it would wait forever. A program with such bodies needs a window large enough for all tasks that it
    /// submits before the awaited action, or a submitter that hosts no unit.
    ///
    /// This is not a hard limit, because a thread checks it only at least once every 32 submissions. If nothing
    /// finishes because every task waits for tasks that are yet to be submitted, the submission stops waiting after a
    /// while: after four times the recent duration of a task, and at least 50 ms while a body computes. If the body
    /// sleeps, it may be waiting for the submitter, so the submission waits only half as long.
    pub fn max_pending_tasks(mut self, tasks: usize) -> Self {
        self.window = Some(tasks);
        self
    }

    /// Sets how many bytes the pending tasks may allocate together, as declared by
    /// [`TaskBuilder::allocates`](crate::TaskBuilder::allocates). A submission that would exceed the number waits until
    /// enough tasks have finished. A task that alone exceeds it waits until no other task that allocates is pending. By
    /// default there is no limit.
    ///
    /// Everything else is as with [`max_pending_tasks`](Self::max_pending_tasks), which limits the number of tasks at
    /// the same time: a submitter that hosts a unit executes tasks while it waits, submissions inside bodies do not
    /// wait, and a submission stops waiting after a while if nothing finishes. Tasks of a recording that is replayed
    /// as a whole are not counted.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").max_pending_bytes(4 << 20).build()?;
    /// let sum = rt.scalar(0u64);
    /// for n in 0..100u64 {
    ///     let buffer = vec![n; 1 << 17]; // 1 MiB, so at most four of them exist at a time, and the one made here
    ///     let add = move |_: &thalweg::Context, sum: &mut [u64]| sum[0] += buffer[7];
    ///     rt.task("add", sum.commutative()).cpu(add).allocates(1 << 20).submit()?;
    /// }
    /// assert_eq!(rt.read(&sum)?, [4950]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending_bytes(mut self, bytes: u64) -> Self {
        self.window_bytes = Some(bytes);
        self
    }

    /// Limits the host memory that the arrays of the runtime take, in bytes. Arrays that no task uses are evicted to a
    /// file ([`spill_to`](Self::spill_to), which is required), and reloaded before the next task that uses them. By
    /// default there is no limit.
    ///
    /// An array is evicted as a whole, the least recently used first; if it has not been written since it was reloaded,
    /// nothing is copied. So split data that exceed the memory into several arrays. Arrays of zeros
    /// ([`Runtime::zeros`](crate::Runtime::zeros)) take no memory before their first task. A task is refused if its
    /// arrays do not fit together ([`SubmitError::WorkingSet`](crate::error::SubmitError::WorkingSet)).
    ///
    /// The limit applies to arrays that the runtime owns. Borrowed and imported arrays, arrays of
    /// [`zeros_together`](crate::Runtime::zeros_together), values, results, and private copies of reductions are not
    /// counted, and arrays that are reduced into stay in memory. The limit is exceeded if the program registers more
    /// arrays at once than fit, until they are evicted; and if the bodies of all tasks in memory wait.
    ///
    /// Only machines of CPU units can have a limit.
    pub fn host_memory(mut self, bytes: u64) -> Self {
        self.host_bytes = Some(bytes);
        self
    }

    /// Sets the directory of the file to which arrays are evicted when [`host_memory`](Self::host_memory) is full. The
    /// file has no name, so nothing is left of it however the process ends.
    ///
    /// Checksums of the content are verified when it is reloaded. If the content has changed or cannot be read, the
    /// task that needs it fails; if an array cannot be written, as on a full disk, it stays, and the task that needs
    /// the memory fails. In both cases, nothing else is lost.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let folder = std::env::temp_dir();
    /// let rt = Runtime::builder().compute_units("2:CPU:1").host_memory(1 << 20).spill_to(folder).build()?;
    /// // Four times as much as fits.
    /// let tiles: Vec<Data<f64>> = (0..32).map(|_| rt.zeros(1 << 14)).collect();
    /// for _ in 0..2 {
    ///     for tile in &tiles {
    ///         rt.task("add", tile.inout()).cpu(|_, tile| tile.iter_mut().for_each(|x| *x += 1.0)).submit()?;
    ///     }
    /// }
    /// for tile in tiles {
    ///     assert_eq!(rt.take(tile)?, vec![2.0; 1 << 14]);
    /// }
    /// assert!(rt.statistics().evictions >= 24);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spill_to(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
        self.spill = Some(directory.into());
        self
    }

    /// Sets which data are evicted when a memory is full: that of a device, or limited
    /// [`host_memory`](Self::host_memory). The default is [`Eviction::LeastRecent`].
    ///
    /// ```
    /// use thalweg::Eviction;
    /// use thalweg::prelude::*;
    /// let copied = |eviction| -> Result<u64, Box<dyn std::error::Error>> {
    ///     let builder = Runtime::builder().compute_units("1:EMU:1").device_memory_bytes(8 << 13);
    ///     let rt = builder.eviction(eviction).build()?;
    ///     let tiles: Vec<Data<f64>> = (0..10).map(|_| rt.zeros(1 << 10)).collect();
    ///     for tile in tiles.iter().cycle().take(100) {
    ///         rt.task("read", tile.input()).cpu(|_, _| ()).submit()?;
    ///     }
    ///     rt.wait()?;
    ///     Ok(rt.statistics().links.iter().map(|link| link.copies).sum())
    /// };
    /// // The least recently used of ten tiles in turn is always the one that is needed next.
    /// assert!(copied(Eviction::FurthestUse)? < copied(Eviction::LeastRecent)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = eviction;
        self
    }

    /// Adds a function that idle threads call to advance external events that tasks wait for, such as messages. It
    /// returns whether an event is on its way, so another call soon may be worthwhile.
    ///
    /// Several threads may call it at the same time, each between two searches for a task. A thread whose calls return
    /// `true` searches for up to a millisecond, yielding its core meanwhile, and then sleeps. So the function must
    /// return soon and must not wait for tasks, and something else has to handle events that arrive while all threads
    /// sleep or execute tasks. Simulations and explorations of schedules do not call it.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use thalweg::memory::Lent;
    /// use thalweg::prelude::*;
    ///
    /// static EXPECTED: Mutex<Option<Lent<[f64]>>> = Mutex::new(None);
    /// let receive = || {
    ///     let expected = EXPECTED.lock().unwrap().take();
    ///     expected.into_iter().for_each(|mut ghost| {
    ///         ghost[0] = 1.5; // the message
    ///         ghost.finish();
    ///     });
    ///     false // nothing else is on its way
    /// };
    /// let rt = Runtime::builder().compute_units("1:CPU:1").while_idle(receive).build()?;
    /// let ghost = rt.data(vec![0.0]);
    /// rt.task("receive", (ghost.output(),))
    ///     .host_detached_until_event(|_, (ghost,): (Lent<[f64]>,)| *EXPECTED.lock().unwrap() = Some(ghost))
    ///     .submit()?;
    /// assert_eq!(rt.take(ghost)?, [1.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn while_idle(mut self, poll: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.while_idle.push(Box::new(poll));
        self
    }

    /// Sets whether a submission waits while too many tasks are pending, which is the default. Otherwise submissions
    /// never wait, and the program calls [`Runtime::wait_for_room`](crate::Runtime::wait_for_room) where it may wait.
    ///
    /// It is meant for programs that submit where they must not wait: in an async executor, or while they hold a lock
    /// that bodies need, such as an interpreter's.
    pub fn throttle_submissions(mut self, yes: bool) -> Self {
        self.throttle_submissions = yes;
        self
    }
}
