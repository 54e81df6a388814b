//! The objects of a Paraver trace: processors, and the threads of one application's tasks.
//!
//! In Paraver's terms, a *task* is a process that has *threads*. Thalweg's tasks are not Paraver tasks but events
//! on such threads. The application has up to four tasks:
//!
//! | task | threads | processor |
//! | --- | --- | --- |
//! | units | each layer of each unit and device | its own |
//! | threads | threads that wait without leading a unit | 0: none |
//! | spaces | each space, the ends of copies | 0 |
//! | runtime | one, for counters, notes and decisions | 0 |
//!
//! Tasks without threads are left out. All objects are numbered from 1.

use super::labels::clean;
use crate::Trace;
use crate::rows::{Owner, Row, process_name, space_name};
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

/// The machine's only node.
const NODE: usize = 1;

/// A thread as identified in records: processor, application, task, thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Object {
    cpu: usize,
    task: usize,
    thread: usize,
}

impl Display for Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:1:{}:{}", self.cpu, self.task, self.thread)
    }
}

/// A Paraver task.
struct Process {
    name: &'static str,
    threads: Vec<String>,
}

/// All objects of the trace.
pub(super) struct Model {
    processes: Vec<Process>,
    cpus: Vec<String>,
    application: String,
    /// The thread of each row, in row order.
    pub(super) rows: Vec<Object>,
    /// The thread of each space.
    pub(super) spaces: Vec<Object>,
    /// The thread that carries counters, notes and decisions.
    pub(super) runtime: Object,
}

impl Model {
    /// Creates the objects for `rows`, which must be sorted by owner.
    pub(super) fn new(trace: &Trace, rows: &[Row]) -> Self {
        let mut model = Self {
            processes: Vec::new(),
            cpus: Vec::new(),
            application: process_name(trace),
            rows: Vec::new(),
            spaces: Vec::new(),
            runtime: Object { cpu: 0, task: 0, thread: 0 },
        };
        if let Some(problem) = &trace.problem {
            model.application += &format!(" (incomplete trace: {problem})");
        }
        for row in rows {
            let mut name = row.owner.name(trace);
            if row.layer > 0 {
                name += &format!(" layer {}", row.layer);
            }
            let is_thread = matches!(row.owner, Owner::Thread(_));
            let cpu = if is_thread { 0 } else { model.add_cpu(&name) };
            let object = model.add_thread(if is_thread { "threads" } else { "units" }, name, cpu);
            model.rows.push(object);
        }
        let of_copies = trace.copies.iter().flat_map(|copy| [copy.from + 1, copy.to + 1]);
        let of_memory = trace.memory.iter().map(|change| change.space + 1);
        let spaces = of_copies.chain(of_memory).max().unwrap_or(0).max(trace.spaces.len());
        for space in 0..spaces {
            let object = model.add_thread("spaces", space_name(trace, space), 0);
            model.spaces.push(object);
        }
        model.runtime = model.add_thread("runtime", "runtime".to_owned(), 0);
        if model.cpus.is_empty() {
            // Paraver does not allow a node without processors.
            model.add_cpu("no unit");
        }
        model
    }

    fn add_cpu(&mut self, name: &str) -> usize {
        self.cpus.push(name.to_owned());
        self.cpus.len()
    }

    fn add_thread(&mut self, process: &'static str, name: String, cpu: usize) -> Object {
        if self.processes.last().is_none_or(|last| last.name != process) {
            self.processes.push(Process { name: process, threads: Vec::new() });
        }
        let task = self.processes.len();
        let threads = &mut self.processes[task - 1].threads;
        threads.push(name);
        Object { cpu, task, thread: threads.len() }
    }

    /// Writes the first line of the `.prv` file. `end` is in nanoseconds.
    pub(super) fn write_header(&self, out: &mut impl Write, date: &str, end: u64) -> io::Result<()> {
        let tasks: Vec<String> =
            self.processes.iter().map(|process| format!("{}:{NODE}", process.threads.len())).collect();
        let (cpus, number, tasks) = (self.cpus.len(), tasks.len(), tasks.join(","));
        writeln!(out, "#Paraver ({date}):{end}_ns:{NODE}({cpus}):1:{number}({tasks})")
    }

    /// Writes the `.row` file: the names of all objects, level by level.
    pub(super) fn write_names(&self, out: &mut impl Write) -> io::Result<()> {
        let mut level = |name: &str, names: Vec<&str>| {
            writeln!(out, "LEVEL {name} SIZE {}", names.len())?;
            for name in names {
                writeln!(out, "{}", clean(name))?;
            }
            writeln!(out)
        };
        level("CPU", self.cpus.iter().map(String::as_str).collect())?;
        level("NODE", vec!["machine"])?;
        level("THREAD", self.processes.iter().flat_map(|process| &process.threads).map(String::as_str).collect())?;
        level("TASK", self.processes.iter().map(|process| process.name).collect())?;
        level("APPL", vec![&self.application])
    }
}
