//! Report about all tasks of a runtime: which tasks run, which wait, and why.
//!
//! Each waiting task is written below one of the tasks that it waits for, so the text is a forest whose roots wait for
//! no other task through an edge. The report is meant for people, so its size is limited. If several tasks wait for
//! the same reason in the same place, only one of them is described. The others are counted, as are all omitted tasks.

use super::WaitStep;
use super::chain::{comes_after, is_shown, step};
use super::scan::{Queues, Root, Scan, Standing};
use super::words::Scene;
use crate::depend::WalkedTask;
use crate::driver::shared::Shared;
use crate::sync::Next;
use rustc_hash::FxHashMap;
use std::fmt;

/// Maximum number of tasks that the scan visits.
const MOST_MET: usize = 1 << 14;
/// Maximum number of tasks that the scan takes out of deques.
const MOST_TAKEN: usize = 1 << 8;
/// Maximum number of tasks described on the first level, and also on all other levels together.
const MOST_DESCRIBED: usize = 24;
/// Maximum number of tasks described below one task.
const MOST_BELOW: usize = 4;
/// Maximum depth of the forest.
const MOST_LEVELS: usize = 4;

/// Activities and waits of the tasks of a runtime ([`Runtime::explain`](crate::Runtime::explain)).
///
/// `Display` writes one line per task. A task that waits for another task is indented below that task. The text is
/// meant for people, so its wording may change.
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
/// let tasks = rt.explain();
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
    /// Number of tasks that were submitted and have not finished.
    pub pending: u64,
    /// The described tasks. Each task comes before the tasks that wait for it.
    pub tasks: Vec<PendingTask>,
    /// Number of further tasks that were found but are not listed.
    pub left_out: usize,
    /// Whether any task waits for something other than the end of its own body.
    any_waits: bool,
}

/// An entry of [`PendingTasks`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// for task in rt.explain().tasks {
///     println!("{}{}", "  ".repeat(task.depth), task.step);
/// }
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingTask {
    /// Depth in the forest. The task waits for the nearest preceding task in the list whose depth is smaller by 1.
    pub depth: usize,
    /// The task, and why it has not ended.
    pub step: WaitStep,
    /// Number of further tasks that wait in the same place for the same reason and are not listed.
    pub alike: usize,
}

impl PendingTasks {
    /// Returns whether any task waits for something other than the end of its own body.
    pub(crate) fn any_waits(&self) -> bool {
        self.any_waits
    }

    /// Writes one line per task.
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

/// Explains what every task of a runtime is doing or waiting for.
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
    // Tasks that have begun come first, followed by the others from oldest to newest. They have to be sorted because
    // the tables behind the queues are unordered.
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

/// Tasks that wait for other tasks through edges.
#[derive(Default)]
struct Forest {
    /// Described tasks, and roots that other tasks wait for, by their index in the walk.
    trees: FxHashMap<usize, Tree>,
    /// Indices in the walk of these roots, by root index.
    roots: FxHashMap<usize, usize>,
    described: usize,
    left_out: usize,
}

#[derive(Default)]
struct Tree {
    depth: usize,
    /// Description of the task; `None` for a root until the scan is over.
    step: Option<WaitStep>,
    alike: usize,
    /// Indices in the walk of the tasks that wait for this task.
    below: Vec<usize>,
}

impl Forest {
    /// Describes a task that the scan has met below the root with this index, unless too many tasks are already
    /// described.
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

    /// Counts the described tasks that were not moved to the list.
    fn count_rest(&mut self) {
        self.left_out +=
            self.trees.values().filter(|tree| tree.step.is_some()).map(|tree| 1 + tree.alike).sum::<usize>();
    }
}
