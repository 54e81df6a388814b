//! The same for all tasks: what runs, what waits, and why.
//!
//! Each task that waits is written below one of the tasks that it waits for, so the text is a forest whose roots wait
//! for no other task by an edge. It is meant to be read by a person, so its size is limited. Of tasks that wait for the
//! same reason in the same place, one is described; the others are counted, like all that are left out.

use super::WaitStep;
use super::chain::{comes_after, is_shown, step};
use super::scan::{Queues, Root, Scan, Standing};
use super::words::Scene;
use crate::depend::WalkedTask;
use crate::driver::shared::Shared;
use crate::sync::Next;
use rustc_hash::FxHashMap;
use std::fmt;

/// The maximum number of tasks that are met.
const MOST_MET: usize = 1 << 14;
/// The maximum number of tasks that are taken out of deques.
const MOST_TAKEN: usize = 1 << 8;
/// The maximum number of tasks that are described on the first level, and on all others together.
const MOST_DESCRIBED: usize = 24;
/// The maximum number of tasks that are described below one task.
const MOST_BELOW: usize = 4;
/// The maximum depth of the forest.
const MOST_LEVELS: usize = 4;

/// Activities and waits of the tasks of a runtime ([`Runtime::explain_all`](crate::Runtime::explain_all)).
///
/// `Display` writes a line for each task; a task that waits for another one is indented below it. It is meant for
/// people; its wording may change.
///
/// ```
/// use std::sync::mpsc::channel;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0.0; 100]);
/// let ((open, opened), (begin, begun)) = (channel::<()>(), channel());
/// rt.task("load", x.output()).cpu(move |_, _| { _ = begin.send(()); _ = opened.recv() }).submit()?;
/// rt.task("sum", x.input()).cpu(|_, _| ()).submit()?;
/// begun.recv()?;
///
/// let tasks = rt.explain_all();
/// assert_eq!((tasks.pending, tasks.tasks.len()), (2, 2));
/// assert!(tasks.tasks[0].step.because.starts_with("runs on unit 0"));
/// assert_eq!((tasks.tasks[1].depth, tasks.tasks[1].step.name.as_str()), (1, "sum"));
/// println!("{tasks}");
/// drop(open);
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingTasks {
    /// The runtime's name, if it has one ([`Builder::name`](crate::Builder::name)).
    pub runtime: Option<String>,
    /// The number of tasks that are submitted and have not finished.
    pub pending: u64,
    /// Tasks, each before those that wait for it.
    pub tasks: Vec<PendingTask>,
    /// The number of further tasks that were found.
    pub left_out: usize,
    /// Whether a task waits for anything but the end of its own body.
    any_waits: bool,
}

/// One of the tasks in [`PendingTasks`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// for task in rt.explain_all().tasks {
///     println!("{}{}", "  ".repeat(task.depth), task.step);
/// }
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingTask {
    /// The depth in the forest: the task waits for the nearest task before it in the list whose depth is smaller by 1.
    pub depth: usize,
    /// The task, and why it has not ended.
    pub step: WaitStep,
    /// The number of further tasks that wait in the same place for the same reason, and are not in the list.
    pub alike: usize,
}

impl PendingTasks {
    /// Returns whether a task waits for anything but the end of its own body.
    pub(crate) fn any_waits(&self) -> bool {
        self.any_waits
    }

    /// Writes the lines of the tasks.
    pub(crate) fn write_tasks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PendingTask { depth, step, alike } in &self.tasks {
            write!(f, "\n{:indent$}{step}", "", indent = 2 * depth + 2)?;
            match alike {
                0 => {}
                1 => f.write_str(" (and 1 more task likewise)")?,
                more => write!(f, " (and {more} more tasks likewise)")?,
            }
        }
        if self.left_out > 0 {
            write!(f, "\n  and {} more tasks, which wait", self.left_out)?;
        }
        Ok(())
    }
}

impl fmt::Display for PendingTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.runtime {
            write!(f, "runtime `{name}`: ")?;
        }
        match self.pending {
            1 => f.write_str("1 task is pending")?,
            pending => write!(f, "{pending} tasks are pending")?,
        }
        self.write_tasks(f)
    }
}

/// Explains what all tasks of a runtime do and wait for.
pub(crate) fn explain_all(shared: &Shared, queues: &dyn Queues) -> PendingTasks {
    let (runtime, pending) = (shared.name().map(str::to_owned), shared.progress.pending());
    if shared.is_in_child() || pending == 0 {
        return PendingTasks { runtime, pending, tasks: Vec::new(), left_out: 0, any_waits: false };
    }
    let since = shared.sight();
    let (mut scan, mut forest) = (Scan::new(shared, None, MOST_MET), Forest::default());
    scan.run(queues, MOST_TAKEN, &mut |met, root, _| {
        forest.meet(met, root);
        Next::Beyond
    });
    let scene = Scene { shared, roots: &scan.roots, since: &since };
    let (mut tasks, mut described) = (Vec::new(), 0);
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    let mut any_waits = forest.described > 0;
    // Tasks that have begun come first, then the oldest ones: tables of queues have no order.
    let begun = |root: &Root| matches!(root.standing, Standing::Begun { .. });
    let mut order: Vec<_> = scan.roots.iter().enumerate().filter(|(_, root)| !root.internal).collect();
    order.sort_by_key(|(_, root)| (!begun(root), (!begun(root)).then_some(root.id)));
    for (number, root) in order {
        any_waits |= !matches!(root.standing, Standing::Begun { waits_at: None, .. });
        let step = scene.step(root, scan.holder_of(root));
        if let Some(place) = places.get(&step.because) {
            let first: &mut PendingTask = &mut tasks[*place];
            first.alike += 1;
        } else if described == MOST_DESCRIBED {
            forest.left_out += 1;
        } else {
            described += 1;
            places.entry(step.because.clone()).or_insert(tasks.len());
            tasks.push(PendingTask { depth: 0, step, alike: 0 });
            forest.append(number, &mut tasks);
        }
    }
    forest.count_rest();
    PendingTasks { runtime, pending, tasks, left_out: forest.left_out, any_waits }
}

/// The tasks that wait for others by an edge.
#[derive(Default)]
struct Forest {
    /// The tasks that are described, and roots that others wait for, by their places in the walk.
    trees: FxHashMap<usize, Tree>,
    /// The places of these roots, by their numbers.
    roots: FxHashMap<usize, usize>,
    described: usize,
    left_out: usize,
}

#[derive(Default)]
struct Tree {
    depth: usize,
    /// Absent for a root, which is described when the scan is over.
    step: Option<WaitStep>,
    alike: usize,
    /// The places of the tasks that wait for it.
    below: Vec<usize>,
}

impl Forest {
    /// Describes a task that the scan has met below the root of this number, unless there are too many.
    fn meet(&mut self, met: &WalkedTask<'_>, root: usize) {
        let Some(mut above) = met.before().filter(|_| is_shown(met)) else { return };
        while let Some(next) = above.before().filter(|_| !is_shown(&above)) {
            above = next;
        }
        if above.before().is_none() {
            self.roots.insert(root, above.place());
            self.trees.entry(above.place()).or_default();
        }
        let place = above.place();
        let Some(Tree { depth, below, .. }) = self.trees.get(&place).filter(|tree| tree.depth < MOST_LEVELS) else {
            return self.left_out += 1;
        };
        let (depth, is_full) = (depth + 1, below.len() == MOST_BELOW || self.described == MOST_DESCRIBED);
        let step = step(met.task().shared(), comes_after(met, &above));
        let is_alike = |place: &&usize| {
            let other = self.trees[*place].step.as_ref();
            other.is_some_and(|other| (&other.name, &other.because) == (&step.name, &step.because))
        };
        if let Some(first) = below.iter().find(is_alike).copied() {
            self.trees.entry(first).and_modify(|first| first.alike += 1);
        } else if is_full {
            self.left_out += 1;
        } else {
            self.described += 1;
            self.trees.entry(place).and_modify(|above| above.below.push(met.place()));
            self.trees.insert(met.place(), Tree { depth, step: Some(step), ..Tree::default() });
        }
    }

    /// Moves the tasks below a root to the list.
    fn append(&mut self, root: usize, tasks: &mut Vec<PendingTask>) {
        let mut next: Vec<usize> = self.roots.get(&root).copied().into_iter().collect();
        while let Some(Tree { depth, step, alike, below }) = next.pop().and_then(|place| self.trees.remove(&place)) {
            tasks.extend(step.map(|step| PendingTask { depth, step, alike }));
            next.extend(below.into_iter().rev());
        }
    }

    /// Counts the tasks that are described and were not moved to the list.
    fn count_rest(&mut self) {
        self.left_out +=
            self.trees.values().filter(|tree| tree.step.is_some()).map(|tree| 1 + tree.alike).sum::<usize>();
    }
}
