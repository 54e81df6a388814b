//! Machines to simulate: either a machine file whose task times are replaced by the measured ones, or a machine
//! like the recorded one.
//!
//! Every task name in a trace gets an entry with the times of a task with `cost = 1`. Every task gets a cost, which
//! is the number of nanoseconds that the task took on one core of the recorded machine, or, if tasks of that name
//! did not run on cores, on the kind of unit that they ran on. So each task keeps its own time on that kind, and
//! its time on other kinds is proportional.
//!
//! A policy learns no more from this than from any program that states costs.

use super::links;
use super::measured::{Measured, Ran};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use thalweg::SimulatedMachine;
use thalweg::machine::UnitKind;
use thalweg_trace::Trace;
use thalweg_trace_tools::analysis::Analysis;
use toml::{Table, Value};

/// Speedups relative to the recording that the user has specified for kinds of units.
pub(super) type Scale = BTreeMap<UnitKind, f64>;

/// A machine file.
#[derive(Debug, Clone)]
pub(super) struct MachineFile {
    pub(super) name: String,
    table: Table,
}

/// A machine with the times of a trace's tasks.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) machine: SimulatedMachine,
    /// The cost of each task; 0 if the task did not run.
    pub(super) costs: Vec<f64>,
    /// For each task name, its name on the machine. The two may differ because names in machine files cannot
    /// contain `*`.
    pub(super) names: Vec<String>,
    /// For each task name, the kinds of unit that can run its tasks, and the kinds on which its tasks were
    /// measured.
    pub(super) kinds: Vec<(Vec<UnitKind>, Vec<UnitKind>)>,
}

impl MachineFile {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let machine = SimulatedMachine::from_file(path)
            .map_err(|error| format!("cannot read the machine: {error}; try a file such as machines/laptop.toml"))?;
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the machine: {}: {error}; try it again", path.display()))?;
        let table =
            text.parse().map_err(|error| format!("cannot read the machine: {error}; try to correct the file"))?;
        Ok(Self { name: machine.name().to_owned(), table })
    }

    /// Returns a machine with the units and links that the trace was recorded on. The runtime's own time becomes a
    /// launch time, which is the same for all tasks on a kind of unit.
    pub(super) fn like(trace: &Trace) -> Result<Self, String> {
        let mut counts = BTreeMap::new();
        for unit in &trace.units {
            let kind = UnitKind::from_keyword(&unit.kind).ok_or_else(|| {
                format!("cannot simulate {} units: there is no such kind; try a newer thalweg", unit.kind)
            })?;
            *counts.entry(kind).or_insert(0) += unit.width.max(1);
        }
        let devices: usize = counts.iter().filter(|(kind, _)| kind.is_device()).map(|(_, count)| count).sum();
        *counts.entry(UnitKind::Cpu).or_insert(0) += devices; // the cores that lead them
        let analysis = Analysis::of(trace);
        let units = counts.iter().map(|(kind, count)| {
            let mut units = Table::from_iter([
                ("count".to_owned(), Value::Integer(*count as i64)),
                ("launch_ns".to_owned(), Value::Float(launch_ns(trace, &analysis, *kind))),
                ("bytes_per_s".to_owned(), Value::Float(links::FAST)),
            ]);
            if let Some(bytes) = links::memory_bytes(trace, *kind) {
                units.insert("memory_bytes".to_owned(), Value::Integer(bytes as i64));
            }
            (kind.keyword().to_owned(), Value::Table(units))
        });
        let name = "like the recorded one".to_owned();
        let table = Table::from_iter([
            ("name".to_owned(), Value::String(name.clone())),
            ("units".to_owned(), Value::Table(units.collect())),
            ("links".to_owned(), Value::Array(links::fitted(trace, counts.keys().copied()))),
        ]);
        Ok(Self { name, table })
    }

    /// Returns the machine with the measured times.
    ///
    /// Times on a kind of unit come from the first available of these sources: `scale`; the tasks of that name that
    /// ran on that kind; the file's entry for the name, taken relative to its time on the kind where the tasks ran,
    /// or as it is if it has no such time.
    pub(super) fn with_times(&self, measured: &Measured, scale: &Scale) -> Result<Target, String> {
        let mut times: Vec<NameTimes> = Vec::new();
        times.resize_with(measured.names.len(), NameTimes::default);
        let entries: Vec<_> = measured.names.iter().map(|name| self.entry(name)).collect();
        for (task, name) in measured.name_of.iter().enumerate() {
            let (Some(name), Some(ran)) = (*name, measured.ran[task]) else { continue };
            times[name].add(ran.kind, alone_ns(ran, entries[name]));
            times[name].bytes += measured.bytes.as_ref().map_or(0.0, |bytes| bytes[task] as f64);
        }
        let costs = measured.name_of.iter().zip(&measured.ran).map(|(name, ran)| {
            let (Some(name), Some(ran)) = (*name, *ran) else { return 0.0 };
            alone_ns(ran, entries[name]) * times[name].ratio(times[name].reference(), ran.kind)
        });
        let costs = costs.collect();
        let there: Vec<_> = self.table["units"].as_table().into_iter().flat_map(Table::keys).collect();
        let there: Vec<_> = there.into_iter().filter_map(|kind| UnitKind::from_keyword(kind)).collect();
        let (mut names, mut kinds, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        let mut taken = HashSet::new();
        for (number, name) in measured.names.iter().enumerate() {
            let mut simple = name.replace('*', "\u{2217}");
            while !taken.insert(simple.clone()) {
                simple.push('\u{2217}');
            }
            let mut time_ns = Table::new();
            for kind in &there {
                if let Some(curve) = times[number].on(*kind, entries[number], scale, measured) {
                    time_ns.insert(kind.keyword().to_owned(), counts(curve));
                }
            }
            let possible: Vec<_> = there.iter().copied().filter(|kind| time_ns.contains_key(kind.keyword())).collect();
            kinds.push((possible, times[number].by_kind.keys().copied().collect()));
            let mut task = Table::from_iter([
                ("name".to_owned(), Value::String(simple.clone())),
                ("cost".to_owned(), Value::Float(1.0)),
            ]);
            if time_ns.is_empty() {
                // The file format requires a time, but the simulation never uses it.
                let some = there.first().map(|kind| (kind.keyword().to_owned(), counts(flat(1.0))));
                kinds[number].0.clear();
                time_ns.extend(some);
            }
            task.insert("time_ns".to_owned(), Value::Table(time_ns));
            if let Some(speed_up) = entries[number].and_then(|entry| entry.get("speed_up")) {
                task.insert("speed_up".to_owned(), speed_up.clone());
            }
            names.push(simple);
            tasks.push(Value::Table(task));
        }
        let mut table = self.table.clone();
        table.insert("tasks".to_owned(), Value::Array(tasks));
        let machine: SimulatedMachine = toml::to_string(&table)
            .map_err(|error| error.to_string())
            .and_then(|text| text.parse().map_err(|error: thalweg::MachineFileError| error.to_string()))
            .map_err(|error| {
                format!("cannot give the machine `{}` the measured times: {error}; try --scale", self.name)
            })?;
        // Measured times already contain noise.
        Ok(Target { machine: machine.with_noise(0, 0.0), costs, names, kinds })
    }

    /// Returns the file's entry for a task name, looked up as a simulated machine does.
    fn entry(&self, name: &str) -> Option<&Table> {
        let tasks = self.table.get("tasks")?.as_array()?;
        tasks.iter().filter_map(Value::as_table).find(|task| {
            let pattern = task.get("name").and_then(Value::as_str).unwrap_or_default();
            pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
        })
    }
}

/// Returns the runtime's time per task on a kind of unit: the time in which a unit's thread neither ran a body nor was
/// idle.
fn launch_ns(trace: &Trace, analysis: &Analysis, kind: UnitKind) -> f64 {
    let of_kind = trace.units.iter().zip(&analysis.units).filter(|(unit, _)| unit.kind == kind.keyword());
    let (tasks, ns) = of_kind.fold((0, 0), |(tasks, ns), (_, used)| (tasks + used.tasks, ns + used.shares.runtime));
    ns as f64 / tasks.max(1) as f64
}

/// The measured times of all tasks with the same name: for each kind of unit, their number and their sum.
#[derive(Debug, Default)]
struct NameTimes {
    by_kind: BTreeMap<UnitKind, (f64, f64)>,
    bytes: f64,
}

impl NameTimes {
    fn add(&mut self, kind: UnitKind, ns: f64) {
        let (number, sum) = self.by_kind.entry(kind).or_default();
        (*number, *sum) = (*number + 1.0, *sum + ns);
    }

    /// Returns the kind of unit on which the costs are in nanoseconds.
    fn reference(&self) -> UnitKind {
        self.by_kind.keys().next().copied().unwrap_or(UnitKind::Cpu) // cores are the first kind
    }

    fn mean(&self, kind: UnitKind) -> Option<f64> {
        self.by_kind.get(&kind).map(|(number, sum)| (sum / number).max(1e-3))
    }

    /// Returns the time that tasks take on `kind` divided by their time on the kind `than`.
    fn ratio(&self, kind: UnitKind, than: UnitKind) -> f64 {
        if kind == than { 1.0 } else { self.mean(kind).zip(self.mean(than)).map_or(1.0, |(a, b)| a / b) }
    }

    /// Returns the time per unit of cost on a kind of unit, by the number of busy units.
    fn on(&self, kind: UnitKind, entry: Option<&Table>, scale: &Scale, measured: &Measured) -> Option<Points> {
        let reference = self.reference();
        let curve = entry.and_then(|entry| curve(entry, kind));
        // Tasks were measured under load, so their times include its slowdown.
        let loaded = |kind: UnitKind| match entry.and_then(|entry| self::curve(entry, kind)) {
            Some(curve) if kind == UnitKind::Cpu => at(&curve, measured.load) / curve[0].1,
            _ => 1.0,
        };
        let per_cost = if let Some(factor) = scale.get(&kind) {
            1.0 / factor / loaded(kind)
        } else if self.by_kind.contains_key(&kind) {
            self.ratio(kind, reference) / loaded(kind)
        } else {
            let alone = curve.as_ref()?[0].1;
            match entry.and_then(|entry| self::curve(entry, reference)) {
                Some(there) => alone / there[0].1 / loaded(reference),
                None => self.typical(alone, entry?, measured)? / self.mean(reference)?,
            }
        };
        let shape = curve.unwrap_or_else(|| flat(1.0));
        let first = shape[0].1;
        Some(shape.into_iter().map(|(count, ns)| (count, per_cost * ns / first)).collect())
    }

    /// Returns the time of a typical task of this name if an entry has the time `ns`. An entry that is given for a
    /// number of bytes is scaled to the mean number of bytes of the tasks.
    fn typical(&self, ns: f64, entry: &Table, measured: &Measured) -> Option<f64> {
        let Some(bytes) = entry.get("bytes").and_then(number) else { return Some(ns) };
        measured.bytes.as_ref()?;
        let tasks: f64 = self.by_kind.values().map(|(number, _)| number).sum();
        Some((ns * self.bytes / tasks / bytes).max(1e-3))
    }
}

/// A quantity by the number of busy units, in ascending order.
type Points = Vec<(f64, f64)>;

/// Converts points to a table with counts as keys.
fn counts(points: Points) -> Value {
    Value::Table(points.into_iter().map(|(count, ns)| (count.to_string(), Value::Float(ns))).collect())
}

fn flat(ns: f64) -> Points {
    vec![(1.0, ns)]
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|value| value as f64))
}

/// Returns the points of a table with counts as keys, in ascending order.
fn points(table: &Table) -> Option<Points> {
    let mut points: Points =
        table.iter().filter_map(|(count, value)| Some((count.parse().ok()?, number(value)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (!points.is_empty()).then_some(points)
}

/// Returns an entry's times on a kind of unit, by the number of busy units.
fn curve(entry: &Table, kind: UnitKind) -> Option<Points> {
    let times = entry.get("time_ns")?.as_table()?;
    let (_, times) = times.iter().find(|(word, _)| UnitKind::from_keyword(word) == Some(kind))?;
    points(times.as_table()?)
}

/// Returns the value at a count by linear interpolation. Below the first point the value is constant; above the
/// last point it is extrapolated from the last two points if they rise.
fn at(points: &[(f64, f64)], count: f64) -> f64 {
    let above = points.partition_point(|point| point.0 <= count);
    let last = points.len() - 1;
    let (from, to) = match above {
        0 => return points[0].1,
        above if above > last && (last == 0 || points[last].1 <= points[last - 1].1) => return points[last].1,
        above => (points[above.min(last) - 1], points[above.min(last)]),
    };
    from.1 + (to.1 - from.1) * (count - from.0) / (to.0 - from.0)
}

/// Returns the time that a task which ran on several cores would take on one core, based on the speed-up in an
/// entry, or otherwise in proportion to the number of cores.
fn alone_ns(Ran { kind, width, ns }: Ran, entry: Option<&Table>) -> f64 {
    if kind != UnitKind::Cpu || width == 1 {
        return ns;
    }
    let speed_up = entry.and_then(|entry| points(entry.get("speed_up")?.as_table()?));
    let last = |points: &Points| points.last().map_or(1.0, |point| point.0);
    ns * speed_up.map_or(width as f64, |points| at(&points, (width as f64).min(last(&points))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::measured::tests::task;
    use thalweg_trace::{Site, State, StateKind, Unit};

    #[test]
    fn curves_are_those_of_simulated_machines() {
        let rising = [(1.0, 10.0), (5.0, 10.0), (9.0, 18.0)];
        assert_eq!(
            [0.0, 1.0, 3.0, 7.0, 9.0, 11.0].map(|count| at(&rising, count)),
            [10.0, 10.0, 10.0, 14.0, 18.0, 22.0]
        );
        assert_eq!(at(&[(1.0, 10.0), (2.0, 4.0)], 100.0), 4.0);
        assert_eq!(at(&[(4.0, 3.0)], 100.0), 3.0);
    }

    #[test]
    fn time_between_bodies_is_the_launch_time_unless_the_thread_sleeps() {
        let trace = Trace {
            units: vec![Unit { kind: "CPU".to_owned(), width: 1 }],
            sites: vec![Site { name: "t".to_owned(), file: String::new(), line: 0, column: 0 }],
            tasks: vec![task(10, 100), task(160, 200), task(210, 300)],
            states: vec![State { start: 110, end: 150, kind: StateKind::Sleep, unit: Some(0), thread: 0 }],
            ..Trace::default()
        };
        let (analysis, like) = (Analysis::of(&trace), MachineFile::like(&trace).unwrap());
        assert_eq!(like.table["units"]["CPU"]["launch_ns"].as_float(), Some(10.0));
        assert_eq!(launch_ns(&trace, &analysis, UnitKind::OpenCl), 0.0);
    }

    #[test]
    fn time_of_a_wide_unit_follows_the_speed_up_of_the_file() {
        let ran = Ran { kind: UnitKind::Cpu, width: 4, ns: 100.0 };
        let entry: Table = "speed_up = { 2 = 1.5, 4 = 2.5 }".parse().unwrap();
        assert_eq!((alone_ns(ran, None), alone_ns(ran, Some(&entry))), (400.0, 250.0));
        assert_eq!(alone_ns(Ran { width: 8, ..ran }, Some(&entry)), 250.0);
        assert_eq!(alone_ns(Ran { kind: UnitKind::Emulated, ..ran }, None), 100.0);
    }
}
