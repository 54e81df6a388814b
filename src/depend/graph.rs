//! The task graph as a value that can be recorded, measured, and exported to petgraph and DOT.

use crate::ids::TaskId;
use crate::sync::Flow;
use parking_lot::Mutex;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::fmt::Write as _;

/// Collects tasks and edges while a program runs.
#[derive(Debug, Default)]
pub(crate) struct GraphLog {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    tasks: Vec<(TaskId, String)>,
    edges: Vec<(TaskId, TaskId, Flow)>,
}

impl GraphLog {
    pub(crate) fn task(&self, id: TaskId, name: &str) {
        self.log.lock().tasks.push((id, name.to_owned()));
    }

    pub(crate) fn edge(&self, from: TaskId, to: TaskId, flow: Flow) {
        self.log.lock().edges.push((from, to, flow));
    }

    /// Returns everything recorded so far.
    pub(crate) fn graph(&self) -> TaskGraph {
        let log = self.log.lock();
        let mut tasks: Vec<_> = log.tasks.clone();
        tasks.sort_unstable_by_key(|(id, _)| *id);
        let mut graph: DiGraph<GraphTask, Dependence> = DiGraph::with_capacity(tasks.len(), log.edges.len());
        let ids: Vec<TaskId> = tasks.iter().map(|(id, _)| *id).collect();
        for (id, name) in tasks {
            graph.add_node(GraphTask { id, name });
        }
        let node = |id: &TaskId| ids.binary_search(id).ok().map(NodeIndex::new);
        for (from, to, flow) in &log.edges {
            let (Some(from), Some(to)) = (node(from), node(to)) else { continue };
            let carries_value = *flow == Flow::Value;
            match graph.find_edge(from, to) {
                Some(edge) => graph[edge].carries_value |= carries_value,
                None => drop(graph.add_edge(from, to, Dependence { carries_value })),
            }
        }
        TaskGraph { graph }
    }
}

/// A task in a [`TaskGraph`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build()?;
/// let x = rt.scalar(1);
/// rt.task("write", (x.output(),)).cpu(|_, (x,)| x[0] = 2).submit()?;
/// rt.task("read", (x.input(),)).cpu(|_, _| ()).submit()?;
/// let graph = rt.graph().expect("it is recorded").into_petgraph();
/// let names: Vec<&str> = graph.node_weights().map(|task| task.name.as_str()).collect();
/// assert_eq!(names, ["write", "read"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphTask {
    /// The task's ID, which is its position in submission order.
    pub id: TaskId,
    /// The task's name.
    pub name: String,
}

/// An edge in a [`TaskGraph`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build()?;
/// let x = rt.scalar(1);
/// rt.task("read", (x.input(),)).cpu(|_, _| ()).submit()?;
/// rt.task("write", (x.output(),)).cpu(|_, (x,)| x[0] = 2).submit()?;
/// let graph = rt.graph().expect("it is recorded").into_petgraph();
/// assert!(graph.edge_weights().all(|dependence| !dependence.carries_value)); // the writer only has to come later
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependence {
    /// Whether the successor uses values that the predecessor wrote. If false, the successor only has to run later.
    pub carries_value: bool,
}

/// The tasks submitted so far and the dependences between them.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build()?;
/// let x = rt.data(vec![0.0; 8]);
/// for part in [0..4, 4..8] {
///     rt.task("fill", (x.slice(part).output(),)).cpu(|_, (x,)| x.fill(1.0)).submit()?;
/// }
/// rt.task("sum", (x.input(),)).cpu(|_, (x,)| assert_eq!(x.iter().sum::<f64>(), 8.0)).submit()?;
/// rt.wait()?;
/// let graph = rt.graph().expect("it was recorded");
/// assert_eq!((graph.critical_path(), graph.width()), (2, 2));
/// assert!(graph.to_dot().contains("fill"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct TaskGraph {
    graph: DiGraph<GraphTask, Dependence>,
}

impl TaskGraph {
    /// Returns the graph as petgraph's type, with nodes in submission order.
    pub fn petgraph(&self) -> &DiGraph<GraphTask, Dependence> {
        &self.graph
    }

    /// Converts the graph into petgraph's type.
    pub fn into_petgraph(self) -> DiGraph<GraphTask, Dependence> {
        self.graph
    }

    /// Returns the number of tasks on the longest path.
    pub fn critical_path(&self) -> usize {
        self.levels().into_iter().max().map_or(0, |deepest| deepest + 1)
    }

    /// Returns the largest number of tasks at the same depth, which is how many could run at once if all tasks took
    /// equally long.
    pub fn width(&self) -> usize {
        let mut counts = vec![0; self.critical_path()];
        for level in self.levels() {
            counts[level] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// Returns the graph in Graphviz's DOT language. Edges that carry no value are dashed.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph tasks {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
        for task in self.graph.node_weights() {
            let name = task.name.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(dot, "  t{} [label=\"{name}\\n#{}\"];", task.id.0, task.id.0);
        }
        for edge in self.graph.edge_references() {
            let (from, to) = (&self.graph[edge.source()], &self.graph[edge.target()]);
            let style = if edge.weight().carries_value { "" } else { " [style=dashed]" };
            let _ = writeln!(dot, "  t{} -> t{}{style};", from.id.0, to.id.0);
        }
        dot.push_str("}\n");
        dot
    }

    /// Returns each task's depth. Edges lead from earlier to later submissions, so a single pass in submission order
    /// suffices.
    fn levels(&self) -> Vec<usize> {
        let mut levels = vec![0; self.graph.node_count()];
        for node in self.graph.node_indices() {
            let before = self.graph.neighbors_directed(node, Direction::Incoming);
            levels[node.index()] = before.map(|from| levels[from.index()] + 1).max().unwrap_or(0);
        }
        levels
    }
}
