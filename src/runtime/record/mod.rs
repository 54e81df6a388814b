//! Recordings: tasks that are described once, and then submitted again and again by a single call.
//!
//! A [`Recorder`] accepts task descriptions as the runtime does, but stores the tasks instead of submitting them
//! ([`step`]). A [`Recording`] replays them. Replaying means submitting the same tasks once more, in the order in which
//! they were recorded, and nothing else. Everything that makes a replay faster than that is an optimisation. When no
//! optimisation applies, the tasks are submitted one by one, which works on every kind of unit, with placement, and in
//! simulation.
//!
//! Nothing in this module executes a task or looks at a history.

mod batches;
mod condition;
mod explanation;
mod freeze;
mod losses;
mod plan;
mod repeat;
mod run;
mod step;
mod task;

pub use explanation::Explanation;
pub(super) use task::Recorded;

use self::explanation::Obstacle;
use self::freeze::Frozen;
use self::plan::{Piece, Plan};
use self::step::{RecordedRegion, Step};
use super::door::Door;
use super::entrance::{EntranceOf, Kin};
use super::for_each::LoopBuilder;
use super::runtime::Runtime;
use super::submit::TaskBuilder;
use crate::depend::running;
use crate::error::{Called, SubmitError};
use crate::memory::{AnySetting, NoBody, Setting};
use crate::task::{Accesses, IterationSpace, LoopAccesses, Parameter};
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

impl Runtime {
    /// Records tasks. Each [replay](Recording::replay) of the returned recording submits them; the call itself
    /// submits none.
    ///
    /// Use it for tasks that a program submits many times with the same data, such as a solver step, an iteration or a
    /// frame. A replay means the same as submitting the same tasks in the same order. The replayed tasks are ordered
    /// with all other tasks by the regions that they access, and failures spread as usual: the regions that a failed
    /// task should have written are missing.
    ///
    /// Bodies are called once in each replay, so they are `Fn`. To change values between replays, let bodies read them
    /// from [parameters](Recorder::parameter). In a recording that is replayed as a whole, bodies and their children
    /// can wait only for descendants of the same recorded task; other waits are refused
    /// ([`SubmitError::InsideReplay`]). A recorded task returns nothing; it can leave a value for other tasks in a
    /// [`Value`](crate::task::Value).
    ///
    /// The recording keeps the data objects that it uses registered as long as it exists.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (old, new) = (rt.data(vec![1.0f64; 1000]), rt.data(vec![0.0f64; 1000]));
    /// let mut step = rt.record(|r| {
    ///     r.for_each("halve", (old.blocks(100).input(), new.blocks(100).output()))
    ///         .cpu(|_, (old, new)| new.iter_mut().zip(old).for_each(|(new, old)| *new = 0.5 * old))
    ///         .submit()?;
    ///     r.task("copy", (new.input(), old.output())).cpu(|_, (new, old)| old.copy_from_slice(new)).submit()
    /// })?;
    /// for _ in 0..3 {
    ///     step.replay()?;
    /// }
    /// assert_eq!(rt.read(&old)?, [0.125; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of `program`, which is the refusal of a task. Also fails if two parameters have the same name.
    pub fn record(
        &self,
        program: impl FnOnce(&Recorder<'_>) -> Result<(), SubmitError>,
    ) -> Result<Recording, SubmitError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.shared().in_own_process()?;
        let (steps, spaces, settings) = (RefCell::default(), RefCell::default(), RefCell::default());
        let recorder = Recorder { door: &self.door, id: NEXT.fetch_add(1, Ordering::Relaxed), steps, spaces, settings };
        program(&recorder)?;
        let Recorder { id, steps, spaces, settings, .. } = recorder;
        let (settings, spaces) = (settings.into_inner(), spaces.into_inner());
        let is_repeated =
            |(i, one): (usize, &Arc<dyn AnySetting>)| settings[..i].iter().any(|other| other.name() == one.name());
        if let Some(repeated) = settings.iter().enumerate().find(|one| is_repeated((one.0, one.1))) {
            let problem = "the recording has two parameters of this name".to_owned();
            return Err(SubmitError::Parameter { parameter: repeated.1.name().to_owned(), problem });
        }
        let (steps, door) = (steps.into_inner(), Arc::downgrade(&self.door));
        let (frozen, explanation) = (Frozen::Unknown, Explanation::NotReplayed);
        Ok(Recording { id, door, steps, spaces, settings, frozen, plan: None, explanation })
    }
}

/// Collects the tasks of a recording; see [`Runtime::record`].
pub struct Recorder<'rt> {
    door: &'rt Door,
    id: u64,
    steps: RefCell<Vec<Box<dyn Step>>>,
    spaces: RefCell<Vec<IterationSpace>>,
    settings: RefCell<Vec<Arc<dyn AnySetting>>>,
}

impl Recorder<'_> {
    /// Begins the description of a task, as [`Runtime::task`] does.
    pub fn task<A: Accesses>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
    ) -> TaskBuilder<'_, A, NoBody, Recorded<'_, A::Stored>> {
        let task = TaskBuilder::new(EntranceOf::Front(self.door), Kin::None, name.into(), accesses);
        task.kept_by(Recorded::by(self))
    }

    /// Begins the description of a loop, as [`Runtime::for_each`] does.
    pub fn for_each<A: LoopAccesses>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
    ) -> LoopBuilder<'_, A, NoBody, &Recorder<'_>> {
        LoopBuilder::new(EntranceOf::Front(self.door), Kin::None, name.into(), accesses).kept_by(self)
    }

    /// Adds a parameter: a value that recorded tasks read ([`Parameter::input`]) and that the program may change
    /// between replays. The name must be unique in the recording.
    pub fn parameter<T: Send + Sync + 'static>(&self, name: &str, value: T) -> Parameter<T> {
        let parameter = Parameter::new(name, self.id, value);
        self.settings.borrow_mut().push(parameter.setting.clone());
        parameter
    }

    /// Begins a new instance of an iteration space in each replay, as [`IterationSpace::begin`] does.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let x = rt.data(vec![0; 4]);
    /// let space = IterationSpace::new("parts", vec![1.0; 4]);
    /// let mut step = rt.record(|r| {
    ///     r.begin(&space);
    ///     r.for_each("add", (x.blocks(1).inout(),)).cpu(|_, (x,)| x[0] += 1).at(&space).submit().map(drop)
    /// })?;
    /// (0..3).try_for_each(|_| step.replay())?;
    /// assert_eq!(space.instances(), 3);
    /// assert_eq!(rt.take(x)?, [3; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin(&self, space: &IterationSpace) {
        self.spaces.borrow_mut().push(space.clone());
        self.steps.borrow_mut().push(Box::new(space.clone()));
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("steps", &self.steps.borrow().len()).finish_non_exhaustive()
    }
}

/// Recorded tasks, which can be submitted any number of times; see [`Runtime::record`].
#[must_use = "nothing is submitted before the first replay"]
pub struct Recording {
    id: u64,
    door: Weak<Door>,
    steps: Vec<Box<dyn Step>>,
    /// The iteration spaces; each replay begins a new instance of each.
    spaces: Vec<IterationSpace>,
    settings: Vec<Arc<dyn AnySetting>>,
    frozen: Frozen,
    /// The submission plan if the scheduler places tasks; `None` until a replay has needed it.
    plan: Option<Plan>,
    explanation: Explanation,
}

impl Recording {
    /// Submits all tasks of the recording, in the order in which they were recorded. Like a submission, it does not
    /// wait for them.
    ///
    /// # Errors
    /// Fails if a data object was taken back or the runtime is ending, and inside a body for the same reasons as the
    /// submission of a task there. On failure nothing is submitted, with one exception: if another thread takes a data
    /// object during the call, the tasks before the refused task are submitted.
    #[track_caller]
    pub fn replay(&mut self) -> Result<(), SubmitError> {
        let door = self.door.upgrade().ok_or(SubmitError::ShutDown)?;
        door.shared().in_own_process()?;
        self.explanation = match self.replay_frozen(&door, None).called_here()? {
            None => Explanation::Frozen,
            Some(Obstacle::Placement) => self.replay_placed(&door).called_here()?,
            Some(obstacle) => {
                self.resubmit(&door).called_here()?;
                Explanation::Resubmitted(obstacle.to_string())
            }
        };
        Ok(())
    }

    fn resubmit(&self, door: &Door) -> Result<(), SubmitError> {
        self.check()?;
        let ancestry = running::ancestry(door.id);
        if !ancestry.is_empty() {
            for step in &self.steps {
                let accesses: Vec<_> = step.regions().iter().map(RecordedRegion::record).collect();
                ancestry.admit(step.name(), &accesses)?;
            }
        }
        self.steps.iter().try_for_each(|step| step.resubmit(door, Kin::None, &mut |_| ()))
    }

    /// Replays when the scheduler places tasks. The scheduler treats tasks that one device launches as a whole as one
    /// task.
    fn replay_placed(&mut self, door: &Door) -> Result<Explanation, SubmitError> {
        let obstacle = match () {
            () if running::is_inside(door.id) => Some(Obstacle::Body),
            () if door.shared().engine.records_graph() => Some(Obstacle::Graph),
            () => None,
        };
        if let Some(obstacle) = obstacle {
            self.resubmit(door)?;
            return Ok(Explanation::Resubmitted(obstacle.to_string()));
        }
        self.check()?;
        let Self { steps, plan, .. } = self;
        let Plan { pieces, obstacle } = plan.get_or_insert_with(|| Plan::new(steps, door));
        let (mut graphs, mut tasks, mut others) = (0, 0, obstacle.clone());
        for piece in pieces {
            match piece {
                Piece::Step(step) => steps[*step].resubmit(door, Kin::None, &mut |_| ())?,
                Piece::Run(run) if run.submit(steps, door)? => {
                    (graphs, tasks) = (graphs + 1, tasks + run.len());
                }
                Piece::Run(run) => others = others.or_else(|| Some(run.obstacle())),
            }
        }
        Ok(match others {
            others if graphs == 0 => Explanation::Resubmitted(others.unwrap_or(Obstacle::Nothing).to_string()),
            others => Explanation::Graphs { graphs, tasks, others: others.as_ref().map(Obstacle::to_string) },
        })
    }

    /// Refuses a recording that can no longer be submitted.
    fn check(&self) -> Result<(), SubmitError> {
        self.steps.iter().try_for_each(|step| step.check())
    }

    /// Sets the value of a parameter for subsequent replays.
    ///
    /// # Errors
    /// Fails if the parameter belongs to another recording.
    pub fn set<T: Send + Sync + 'static>(&mut self, parameter: &Parameter<T>, value: T) -> Result<(), SubmitError> {
        if parameter.setting.recording() != self.id {
            let problem = "it belongs to another recording".to_owned();
            return Err(SubmitError::Parameter { parameter: parameter.setting.name().to_owned(), problem });
        }
        drop(parameter.setting.set(value));
        Ok(())
    }

    /// Like [`set`](Self::set), but finds the parameter by its name.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.scalar(0);
    /// let mut step = rt.record(|r| {
    ///     r.task("add", (r.parameter("n", 1).input(), x.inout())).cpu(|_, (n, x)| x[0] += n).submit()
    /// })?;
    /// step.set_by_name("n", 5)?;
    /// step.replay()?;
    /// assert_eq!(rt.take(x)?, [5]);
    /// let refused = step.set_by_name("m", 5).unwrap_err().to_string();
    /// assert_eq!(refused, "cannot use parameter `m`: the recording has no parameter of this name; try one of `n`");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if there is no parameter with this name, or if its type is not `T`.
    pub fn set_by_name<T: Send + Sync + 'static>(&mut self, name: &str, value: T) -> Result<(), SubmitError> {
        let refuse = |problem: String| SubmitError::Parameter { parameter: name.to_owned(), problem };
        let Some(setting) = self.settings.iter().find(|setting| setting.name() == name) else {
            let known: Vec<_> = self.settings.iter().map(|setting| format!("`{}`", setting.name())).collect();
            let known =
                if known.is_empty() { "r.parameter(..)".to_owned() } else { format!("one of {}", known.join(", ")) };
            return Err(refuse(format!("the recording has no parameter of this name; try {known}")));
        };
        let any: &dyn Any = &**setting;
        let Some(setting) = any.downcast_ref::<Setting<T>>() else {
            return Err(refuse(format!("it is a `{}`, not a `{}`", setting.type_name(), std::any::type_name::<T>())));
        };
        drop(setting.set(value));
        Ok(())
    }

    /// Returns the number of tasks that each replay submits.
    pub fn len(&self) -> usize {
        self.steps.iter().filter(|step| step.is_task()).count()
    }

    /// Returns whether the recording has no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how the last replay was submitted and, if it was not on the fast path, why not.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
    /// let x = rt.scalar(0);
    /// let mut step = rt.record(|r| r.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit())?;
    /// step.replay()?;
    /// println!("{}", step.explain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> &Explanation {
        &self.explanation
    }
}

impl Drop for Recording {
    /// Lets the replayed tasks complete.
    fn drop(&mut self) {
        if let (Frozen::Graph(replays), Some(door)) = (&self.frozen, self.door.upgrade())
            && let Some(threads) = door.driver.fast_path()
        {
            threads.interrupt_replays(Some(replays));
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<_> = self.settings.iter().map(|setting| setting.name()).collect();
        (f.debug_struct("Recording").field("tasks", &self.len()).field("parameters", &parameters))
            .field("last", &self.explanation)
            .finish_non_exhaustive()
    }
}
