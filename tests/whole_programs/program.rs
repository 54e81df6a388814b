//! What a random program does: a tree of acts, of which most are tasks, and the machine that it runs on.
//!
//! Everything has a number of its own: tasks, data objects, and whatever is looked at. A result is a data object with the
//! number of its task. What is not there is left alone: an access to a result that was taken is none. So a program from
//! which something is removed is a program.

use crate::steps::{End, Part};
use std::collections::HashSet;

/// A data object, by its number.
pub(crate) type Object = usize;

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) acts: Vec<Act>,
    /// How many groups there are; each but the first may be a part of the one before.
    pub(crate) groups: Vec<bool>,
    pub(crate) machine: Machine,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) units: &'static str,
    pub(crate) scheduler: &'static str,
    pub(crate) hosted: bool,
    /// How much memory each device has beyond what the largest task needs.
    pub(crate) spare_bytes: [u64; 2],
}

/// What can be accessed, and its extents.
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
    /// A new data object, for whoever acts here.
    Make(Object, Kind),
    Task(Task),
    Loop(Loop),
    /// Waits for everything; in a body, for its children.
    Wait(usize),
    /// Reads all of an object, in one piece or element by element.
    Read(usize, Object, bool),
    /// Moves a result, an array or a value out.
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
    /// Done by a thread of its own meanwhile, on objects of its own.
    Aside(Vec<Act>),
    /// Gives a group up, at once or some time later.
    Cancel(usize, bool),
    WaitForGroup(usize, usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) n: usize,
    /// In messages: its number, or that of its loop.
    pub(crate) name: usize,
    pub(crate) accesses: Vec<Access>,
    /// Whose results it reads.
    pub(crate) results: Vec<Object>,
    pub(crate) body: Body,
    pub(crate) end: End,
    pub(crate) units: Units,
    pub(crate) group: Option<usize>,
    pub(crate) urgent: bool,
    /// Whether its end is looked for by a handle.
    pub(crate) watched: bool,
    /// What its body does before it changes anything.
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
    /// Ended by another thread.
    Detached,
    /// A future, which waits so many times.
    Async(u32),
}

/// Which units have a body.
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
    /// Where it is weak, each iteration has a child that updates the tile.
    pub(crate) mode: Mode,
    /// Which iteration fails, if any.
    pub(crate) fails: Option<usize>,
    /// Whether its iterations are those of an iteration space.
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

    /// Whether tasks side by side in this mode do not mind each other.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Self::Commutative | Self::Concurrent | Self::Sum | Self::Accumulate)
    }
}

impl Task {
    /// One that only computes.
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

    /// The tasks that it stands for.
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

    /// As many numbers as it needs.
    pub(crate) fn numbers(&self) -> usize {
        1 + 2 * self.tiles().len()
    }
}

impl Program {
    /// What the regions of the largest task take.
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
    /// The objects that its acts may touch.
    pub(crate) fn mentioned(&self) -> HashSet<Object> {
        let mut all = HashSet::new();
        each_task(&self.acts, &mut |task| {
            all.extend(task.accesses.iter().map(|access| access.part.data));
            all.extend(&task.results);
        });
        all
    }
}
