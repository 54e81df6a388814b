//! The same for all tasks: what runs, what waits, and why.
//!
//! Each task that waits is written below one of the tasks that it waits for, so the text is a forest whose roots wait
//! for no other task by an edge. Its size is limited; tasks that are left out are counted.

use super::chain::{comes_after, is_shown, step};
use super::WaitStep;
use super::scan::{Queues, Scan, Standing};
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
/// The maximum number of tasks that are described.
const MOST_DESCRIBED: usize = 64;
/// The maximum number of tasks that are described below one task.
const MOST_BELOW: usize = 8;
/// The maximum depth of the forest.
const MOST_LEVELS: usize = 8;

/// What the tasks of a runtime do and wait for ([`Runtime::explain_all`](crate::Runtime::explain_all)).
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
/// assert!(tasks.tasks[0].1.because.starts_with("runs on unit 0"));
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
    /// Tasks, each with its depth in the forest: it waits for the nearest task above that is one level higher.
    pub tasks: Vec<(usize, WaitStep)>,
    /// The number of tasks that were found and are not in the list.
    pub left_out: usize,
    /// Whether a task waits for anything but the end of its own body.
    any_waits: bool,
}

impl PendingTasks {
    /// Returns whether a task waits for anything but the end of its own body.
    pub(crate) fn any_waits(&self) -> bool {
        self.any_waits
    }

    /// Writes the lines of the tasks.
    pub(crate) fn write_tasks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in &self.tasks {
            write!(f, "\n{:indent$}{step}", "", indent = 2 * depth + 2)?;
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
    let (mut tasks, mut left_out) = (Vec::new(), forest.left_out);
    let (mut described, mut any_waits) = (0, left_out > 0);
    for (number, root) in scan.roots.iter().enumerate().filter(|(_, root)| !root.internal) {
        any_waits |= !matches!(root.standing, Standing::Begun { waits_at: None, .. });
        if described == MOST_DESCRIBED {
            left_out += 1;
            continue;
        }
        described += 1;
        tasks.push((0, scene.step(root, scan.holder_of(root))));
        forest.append(number, &mut tasks);
    }
    any_waits |= tasks.iter().any(|(depth, _)| *depth > 0);
    PendingTasks { runtime, pending, tasks, left_out, any_waits }
}

/// The tasks that wait for others by an edge.
#[derive(Default)]
struct Forest {
    /// The tasks that are described, by their places in the walk.
    trees: FxHashMap<usize, Tree>,
    /// The tasks below each root, by its number.
    roots: FxHashMap<usize, Vec<usize>>,
    described: usize,
    left_out: usize,
}

/// A task that is described.
struct Tree {
    step: WaitStep,
    depth: usize,
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
        let (depth, below) = match above.before() {
            None => (1, self.roots.entry(root).or_default()),
            Some(_) => match self.trees.get_mut(&above.place()) {
                Some(tree) if tree.depth < MOST_LEVELS => (tree.depth + 1, &mut tree.below),
                _ => return self.left_out += 1,
            },
        };
        if self.described == MOST_DESCRIBED || below.len() == MOST_BELOW {
            return self.left_out += 1;
        }
        self.described += 1;
        below.push(met.place());
        let step = step(met.task().shared(), comes_after(met, &above));
        self.trees.insert(met.place(), Tree { step, depth, below: Vec::new() });
    }

    /// Appends the tasks below a root.
    fn append(&mut self, root: usize, tasks: &mut Vec<(usize, WaitStep)>) {
        let mut next = self.roots.remove(&root).unwrap_or_default();
        next.reverse();
        while let Some(place) = next.pop() {
            let Some(Tree { step, depth, below }) = self.trees.remove(&place) else { continue };
            tasks.push((depth, step));
            next.extend(below.into_iter().rev());
        }
    }
}
