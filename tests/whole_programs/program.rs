//! Random programs: a tree of acts, mostly tasks, and the machine that the program runs on.
//!
//! Every task, every data object and every observation has a unique ID. A result is a data object with the ID of its
//! task. Accesses to objects that do not exist at that point, such as a result that was taken, are ignored. A program
//! therefore stays valid if parts of it are removed.

use crate::steps::{End, Part};
use std::collections::HashSet;

/// ID of a data object.
pub(crate) type Object = usize;

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) acts: Vec<Act>,
    /// For each group, whether it is nested in the previous group.
    pub(crate) groups: Vec<bool>,
    pub(crate) machine: Machine,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) units: &'static str,
    pub(crate) scheduler: &'static str,
    pub(crate) hosted: bool,
    /// Memory of each device beyond what the largest task needs.
    pub(crate) spare_bytes: [u64; 2],
}

/// The kinds of data objects, and their extents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Line(usize),
    Square(usize, usize),
    Cube(usize, usize, usize),
    Value,
    Token,
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Creates a data object, which belongs to the place where the act is performed.
    Make(Object, Kind),
    Task(Task),
    Loop(Loop),
    /// Waits for all tasks or, in a body, for the task's children.
    Wait(usize),
    /// Reads all of an object, in one piece or element by element.
    Read(usize, Object, bool),
    /// Takes a result, an array or a value out of the runtime.
    Take(usize, Object),
    /// Drops a handle.
    Drop(Object),
    Clear(Part),
    /// Lends these arrays to tasks of a scope.
    Scope {
        n: usize,
        lent: Vec<(Object, Kind)>,
        acts: Vec<Act>,
    },
    /// Performs these acts concurrently on another thread, on separate objects.
    Aside(Vec<Act>),
    /// Cancels a group, at once or some time later.
    Cancel(usize, bool),
    WaitForGroup(usize, usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) n: usize,
    /// Name in messages: the ID of the task or of its loop.
    pub(crate) name: usize,
    pub(crate) accesses: Vec<Access>,
    /// The tasks whose results this task reads.
    pub(crate) results: Vec<Object>,
    pub(crate) body: Body,
    pub(crate) end: End,
    pub(crate) units: Units,
    pub(crate) group: Option<usize>,
    pub(crate) urgent: bool,
    /// Whether the program keeps a handle to observe the task's end.
    pub(crate) watched: bool,
    /// The acts that the body performs before it changes any data.
    pub(crate) acts: Vec<Act>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Access {
    pub(crate) part: Part,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    In,
    Outcome,
    After,
    Out,
    Inout,
    Commutative,
    Concurrent,
    Sum,
    Accumulate,
    WeakIn,
    WeakInout,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Body {
    Plain,
    Returns,
    /// Another thread ends the task.
    Detached,
    /// A future that waits this many times.
    Async(u32),
}

/// The units that have a body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Units {
    Any,
    Cores,
    Devices,
}

/// One task for each tile of an array, submitted in one call.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    pub(crate) n: usize,
    pub(crate) reads: Vec<Part>,
    pub(crate) whole: Part,
    pub(crate) tile: [usize; 3],
    /// Access mode. If it is weak, each iteration has a child that updates the tile.
    pub(crate) mode: Mode,
    /// Index of the iteration that fails; `None` if all succeed.
    pub(crate) fails: Option<usize>,
    /// Whether the iterations belong to an iteration space.
    pub(crate) in_space: bool,
}

impl Kind {
    pub(crate) fn extents(self) -> [usize; 3] {
        match self {
            Self::Line(x) => [1, 1, x],
            Self::Square(x, y) => [1, x, y],
            Self::Cube(x, y, z) => [x, y, z],
            Self::Value | Self::Token => [1; 3],
        }
    }

    pub(crate) fn is_array(self) -> bool {
        !matches!(self, Self::Value | Self::Token)
    }

    pub(crate) fn all_of(self, object: Object) -> Part {
        Part { data: object, ranges: self.extents().map(|extent| 0..extent) }
    }
}

impl Mode {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::In | Self::Outcome | Self::After | Self::WeakIn)
    }

    pub(crate) fn is_weak(self) -> bool {
        matches!(self, Self::WeakIn | Self::WeakInout)
    }

    /// Returns whether concurrent tasks in this mode do not conflict.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Self::Commutative | Self::Concurrent | Self::Sum | Self::Accumulate)
    }
}

impl Task {
    /// Returns a task that only computes.
    pub(crate) fn new(n: usize, accesses: Vec<Access>) -> Self {
        Self {
            n,
            name: n,
            accesses,
            results: vec![],
            body: Body::Plain,
            end: End::Returns,
            units: Units::Any,
            group: None,
            urgent: false,
            watched: false,
            acts: vec![],
        }
    }
}

impl Loop {
    fn tiles(&self) -> Vec<Part> {
        let along = |d: usize| {
            let range = self.whole.ranges[d].clone();
            let (end, size) = (range.end, self.tile[d]);
            range.step_by(size).map(move |start| start..end.min(start + size)).collect::<Vec<_>>()
        };
        let (mut tiles, [xs, ys, zs]) = (vec![], [0, 1, 2].map(along));
        for x in &xs {
            for y in &ys {
                tiles.extend(zs.iter().map(|z| Part { ranges: [x, y, z].map(Clone::clone), ..self.whole.clone() }));
            }
        }
        tiles
    }

    /// Returns the tasks of the loop.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let tiles = self.tiles();
        let count = tiles.len();
        let task = |(i, tile): (usize, Part)| {
            let reads = self.reads.iter().map(|part| Access { part: part.clone(), mode: Mode::In });
            let accesses = reads.chain([Access { part: tile.clone(), mode: self.mode }]).collect();
            let mut task = Task { name: self.n, ..Task::new(self.n + 1 + i, accesses) };
            if self.fails == Some(i) {
                task.end = End::Fails;
            }
            if self.mode == Mode::WeakInout {
                let access = Access { part: tile, mode: Mode::Inout };
                task.acts.push(Act::Task(Task::new(self.n + 1 + count + i, vec![access])));
            }
            task
        };
        tiles.into_iter().enumerate().map(task).collect()
    }

    /// Returns how many IDs the loop needs.
    pub(crate) fn numbers(&self) -> usize {
        1 + 2 * self.tiles().len()
    }
}

impl Program {
    /// Returns the total size of the regions of the largest task, in bytes.
    pub(crate) fn largest_task_bytes(&self) -> u64 {
        let mut bytes = 8;
        each_task(&self.acts, &mut |task| {
            let own: usize = task.accesses.iter().map(|access| access.part.volume()).sum();
            bytes = bytes.max(8 * own as u64);
        });
        bytes
    }
}

fn each_task(acts: &[Act], visit: &mut impl FnMut(&Task)) {
    for act in acts {
        match act {
            Act::Task(task) => {
                visit(task);
                each_task(&task.acts, visit);
            }
            Act::Loop(all) => all.tasks().iter().for_each(|task| {
                visit(task);
                each_task(&task.acts, visit);
            }),
            Act::Scope { acts, .. } | Act::Aside(acts) => each_task(acts, visit),
            _ => {}
        }
    }
}

impl Task {
    /// Returns the objects that the task's acts may use.
    pub(crate) fn mentioned(&self) -> HashSet<Object> {
        let mut all = HashSet::new();
        each_task(&self.acts, &mut |task| {
            all.extend(task.accesses.iter().map(|access| access.part.data));
            all.extend(&task.results);
        });
        all
    }
}
