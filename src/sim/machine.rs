//! A machine to simulate: the times of tasks on its units and of copies over its links.
//!
//! These figures are the simulator's ground truth. Policies never see them; as on a real machine, they learn from
//! samples of finished tasks.

use super::curve::{Beyond, Curve};
use super::error::{MachineFileError, Source};
use super::file::{Busy, File, Kind, NotNegative, Positive, SpeedTable, SwitchTable, TaskTable, UnitsTable};
use super::noise::Noise;
use crate::energy::Power;
use crate::machine::{Machine, UnitKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;

/// A machine to simulate, read from a machine file.
///
/// ```
/// use thalweg::{Runtime, SimulatedMachine};
/// let machine: SimulatedMachine = r#"
///     name = "four cores and a GPU"
///     [units.CPU]
///     count = 4                       # cores
///     bytes_per_s = 10e9              # of one core: tasks without a time take their bytes through this
///     total_bytes_per_s = 20e9        # of all cores together: from two on they share it
///     [units.GPU]
///     count = 1                       # devices
///     memory_bytes = 1_000_000_000
///     bytes_per_s = 500e9
///     launch_ns = 5_000               # added to every task
///     [[links]]
///     between = ["host", "GPU"]       # kinds of devices, or the host
///     latency_ns = 10_000
///     bytes_per_s = 10e9
///     [[tasks]]
///     name = "solve"                  # or `solve *`: all names that begin so; the first that fits counts
///     cost = 100                      # the times are those of a task with this `.cost()`; others in proportion
///     [tasks.time_ns]
///     CPU = { 1 = 1_000_000, 4 = 1_500_000 }   # with 1 core busy, with 4; linear between
///     GPU = { 1 = 50_000 }
/// "#.parse()?;
/// let rt = Runtime::builder().compute_units("2:CPU:1,1:GPU:1").simulate(machine).build()?;
/// rt.task("solve", ()).cost(200.0).cpu(|_, ()| println!("never printed")).submit()?;
/// rt.wait()?;
/// assert_eq!(rt.now().as_micros(), 2000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Energy ([`Statistics::energy`](crate::Statistics::energy)) is computed from powers in watts: `static_w` at the top
/// level is that of the whole machine; for each kind, `idle_w` and `busy_w` are those of each core or device, without
/// and with work.
///
/// Further keys:
/// - `[noise]`: `seed`, and the `relative_deviation` of every task's time;
/// - of a link: `shared = true` (one link for all devices of the kind instead of one link each) and `duplex = false`
///   (the two directions take turns);
/// - of a link between devices of one kind, such as the nodes of a cluster: `switch = {}` (each device has one port, of
///   the link's rate in each direction, to a switch that joins all of them; copies queue at both ports), or
///   `switch = { per_leaf = 32, uplink_bytes_per_s = 400e9 }` (a leaf switch for each 32 devices; copies between leaves
///   also queue for the leaves' uplinks). The latency occupies no port;
/// - of a task: `bytes` instead of `cost` (the times are those of a task that accesses this many bytes; without either
///   key, they are the times of every task), and `[tasks.speed_up]`, the speed-up of a unit with this many cores
///   (`{ 8 = 6.5 }`; without it, the speed-up equals the number of cores);
/// - `[[speeds]]`, changes of speed in a run: from `at_ns` on, units of this `kind` are `speed` times as fast as the
///   other figures say; with `unit = 0`, only the first unit of the kind. A running task continues at the new speed.
///
/// A task runs on every unit kind for which the file specifies a time, if the task has a body made with
/// [`cpu`](crate::TaskBuilder::cpu). Tasks that no entry names run on all kinds; their time is the number of bytes that
/// they access, divided by the kind's `bytes_per_s`.
#[derive(Debug, Clone)]
pub struct SimulatedMachine(Arc<Model>);

#[derive(Debug, Clone)]
struct Model {
    name: String,
    noise: Noise,
    /// Constant power of the machine without its units, in watts; `None` if not specified.
    static_w: Option<f64>,
    units: BTreeMap<UnitKind, UnitModel>,
    links: Vec<LinkModel>,
    tasks: Vec<TaskModel>,
    /// In the order of their times.
    speeds: Vec<SpeedChange>,
}

/// From a time on, the speed of the units of a kind, or of one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpeedChange {
    pub(crate) at_ns: u64,
    pub(crate) kind: UnitKind,
    /// The number of the unit among those of its kind; `None` for all of them.
    pub(crate) unit: Option<usize>,
    /// Relative to the machine's figures.
    pub(crate) speed: f64,
}

impl SpeedChange {
    /// Returns whether the change affects the unit with this number among those of its kind.
    pub(crate) fn affects(&self, kind: UnitKind, number: usize) -> bool {
        self.kind == kind && self.unit.is_none_or(|unit| unit == number)
    }
}

/// The cores or devices of one unit kind.
#[derive(Debug, Clone)]
pub(crate) struct UnitModel {
    /// Number of cores or devices.
    count: usize,
    memory_bytes: u64,
    pub(crate) launch_ns: f64,
    /// Power of one idle core or device, in watts.
    idle_w: f64,
    power: Option<Power>,
    /// Times of tasks that no entry names.
    pub(crate) otherwise: Times,
}

#[derive(Debug, Clone)]
pub(crate) struct LinkModel {
    pub(crate) between: [Option<UnitKind>; 2],
    pub(crate) latency_ns: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) shared: bool,
    pub(crate) duplex: bool,
    pub(crate) switch: Option<SwitchModel>,
}

/// A switch that joins all devices of a kind, each by a port of the link's rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwitchModel {
    /// The number of devices at each leaf switch, and the rate between it and the switch that joins all leaves; `None`
    /// if there is one switch only.
    pub(crate) leaves: Option<(usize, f64)>,
}

#[derive(Debug, Clone)]
struct TaskModel {
    name: String,
    times: BTreeMap<UnitKind, Times>,
}

/// Times of certain tasks on one unit kind.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    /// Time per unit of work while one core or device is busy, in nanoseconds.
    pub(crate) ns: f64,
    pub(crate) work: Work,
    /// Slowdown by number of busy cores or devices, relative to one busy core or device.
    pub(crate) slowdown: Curve,
    /// Speed-up by a unit's number of cores; if `None`, the speed-up equals the number of cores.
    pub(crate) speed_up: Option<Curve>,
}

/// The quantity to which a task's time is proportional.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    /// The cost given by the program, or `otherwise` if the program gave none.
    Cost { otherwise: f64 },
    /// The number of bytes that the task accesses.
    Bytes,
    /// Nothing: every task takes the same time.
    Task,
}

impl SimulatedMachine {
    /// Reads a machine file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or contains an impossible value. The message names the line and its
    /// key.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, MachineFileError> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|source| MachineFileError::Read { path: path.to_owned(), source })?;
        Self::read(&Source { path, text: &text })
    }

    /// Returns the machine's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the number of cores (for [`UnitKind::Cpu`]) or devices of a kind.
    pub fn count(&self, kind: UnitKind) -> usize {
        self.0.units.get(&kind).map_or(0, |units| units.count)
    }

    /// Returns the same machine with different noise, given by its seed and by the standard deviation of a task's time
    /// relative to its mean.
    ///
    /// # Panics
    /// Panics if the deviation is not between 0 and 1.
    #[must_use]
    #[track_caller]
    pub fn with_noise(self, seed: u64, relative_deviation: f64) -> Self {
        assert!((0.0..=1.0).contains(&relative_deviation), "a relative deviation is between 0 and 1");
        let noise = Noise { seed, relative_deviation };
        Self(Arc::new(Model { noise, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Describes the whole machine as units: one CPU unit per core, except for the cores that drive devices, and one
    /// unit per device.
    pub(crate) fn default_units(&self) -> String {
        let devices: usize =
            self.0.units.iter().filter(|(kind, _)| kind.is_device()).map(|(_, units)| units.count).sum();
        let term = |(kind, units): (&UnitKind, &UnitModel)| match kind {
            UnitKind::Cpu => format!("{}:CPU:1", units.count.saturating_sub(devices).max(1)),
            kind => format!("{}:{kind}:1", units.count),
        };
        self.0.units.iter().map(term).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn units(&self, kind: UnitKind) -> Option<&UnitModel> {
        self.0.units.get(&kind)
    }

    /// Returns the power of a core or device of this kind, if the file specifies it.
    pub(crate) fn power(&self, kind: UnitKind) -> Option<Power> {
        self.0.units.get(&kind)?.power
    }

    /// Returns the power of everything that belongs to no unit of `machine`: the machine itself, and cores and devices
    /// that no unit uses. Returns `None` if the file specifies no power at all.
    pub(crate) fn rest_w(&self, machine: &Machine) -> Option<f64> {
        let knows = self.0.static_w.is_some() || self.0.units.values().any(|units| units.power.is_some());
        let idle = |(kind, units): (&UnitKind, &UnitModel)| {
            let own = machine.units().iter().filter(|unit| unit.kind == *kind);
            let used: usize = own.map(|unit| if unit.is_cpu() { unit.inner_cores() } else { unit.devices.len() }).sum();
            units.idle_w * units.count.saturating_sub(used) as f64
        };
        knows.then(|| self.0.static_w.unwrap_or(0.0) + self.0.units.iter().map(idle).sum::<f64>())
    }

    /// Returns the memory size in bytes of a device of this kind.
    pub(crate) fn memory_bytes(&self, kind: UnitKind) -> u64 {
        self.0.units.get(&kind).map_or(0, |units| units.memory_bytes)
    }

    pub(crate) fn link(&self, a: Option<UnitKind>, b: Option<UnitKind>) -> Option<(usize, &LinkModel)> {
        self.0.links.iter().enumerate().find(|(_, link)| link.joins(a, b))
    }

    /// Returns all changes of units' speeds, in the order of their times.
    pub(crate) fn speeds(&self) -> &[SpeedChange] {
        &self.0.speeds
    }

    /// Returns the factor by which the time of the task with this ID is multiplied.
    pub(crate) fn noise(&self, task: u64) -> f64 {
        self.0.noise.factor(task)
    }

    /// Returns the index of the entry for tasks of this name, if there is one.
    pub(crate) fn entry(&self, name: &str) -> Option<usize> {
        self.0.tasks.iter().position(|task| match task.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == task.name,
        })
    }

    /// Returns the times of an entry's tasks on a unit kind; `None` if they do not run on that kind.
    pub(crate) fn times(&self, entry: Option<usize>, kind: UnitKind) -> Option<&Times> {
        let units = self.0.units.get(&kind)?;
        entry.map_or(Some(&units.otherwise), |entry| self.0.tasks[entry].times.get(&kind))
    }

    fn read(source: &Source<'_>) -> Result<Self, MachineFileError> {
        let file: File = toml::from_str(source.text).map_err(|error| source.toml_error(&error))?;
        if file.units.get_ref().is_empty() {
            return Err(source.error(Some(file.units.span()), "a machine needs units; add a table such as [units.CPU]"));
        }
        let mut units = BTreeMap::new();
        for (Kind(kind), table) in file.units.get_ref() {
            units.insert(*kind, unit_model(source, *kind, table)?);
        }
        let mut links = Vec::new();
        for link in file.links {
            let between = link.between.get_ref().map(|end| end.0);
            if between == [None, None] {
                return Err(source.error(Some(link.between.span()), "the host needs no link to itself"));
            }
            if let Some(kind) = between.iter().flatten().find(|kind| !units.contains_key(kind)) {
                let problem = format!("there are no {kind} units in this file; add [units.{kind}]");
                return Err(source.error(Some(link.between.span()), problem));
            }
            links.push(LinkModel {
                between,
                latency_ns: link.latency_ns.0,
                bytes_per_s: link.bytes_per_s.0,
                shared: link.shared,
                duplex: link.duplex,
                switch: link.switch.map(|switch| switch_model(source, &switch, between, link.shared)).transpose()?,
            });
        }
        for kind in units.keys().filter(|kind| kind.is_device()) {
            if !links.iter().any(|link| link.joins(None, Some(*kind))) {
                let problem =
                    format!("no link connects the host and {kind}; add [[links]] between = [\"host\", \"{kind}\"]");
                return Err(source.error(None, problem));
            }
        }
        let tasks = file.tasks.iter().map(|task| task_model(source, task, &units)).collect::<Result<_, _>>()?;
        let speed = |table: &SpeedTable| {
            let Kind(kind) = *table.kind.get_ref();
            if !units.contains_key(&kind) {
                let problem = format!("there are no {kind} units in this file; add [units.{kind}]");
                return Err(source.error(Some(table.kind.span()), problem));
            }
            Ok(SpeedChange { at_ns: table.at_ns.0 as u64, kind, unit: table.unit, speed: table.speed.0 })
        };
        let mut speeds = file.speeds.iter().map(speed).collect::<Result<Vec<_>, _>>()?;
        speeds.sort_by_key(|change| change.at_ns);
        let noise = Noise { seed: file.noise.seed, relative_deviation: file.noise.relative_deviation.0 };
        let static_w = file.static_w.map(|watts| watts.0);
        Ok(Self(Arc::new(Model { name: file.name, noise, static_w, units, links, tasks, speeds })))
    }
}

impl LinkModel {
    /// Returns whether the link joins `a` and `b`, in either direction. `None` means the host.
    fn joins(&self, a: Option<UnitKind>, b: Option<UnitKind>) -> bool {
        self.between == [a, b] || self.between == [b, a]
    }
}

impl std::str::FromStr for SimulatedMachine {
    type Err = MachineFileError;

    /// Parses the text of a machine file.
    fn from_str(text: &str) -> Result<Self, MachineFileError> {
        Self::read(&Source { path: Path::new("machine"), text })
    }
}

fn unit_model(source: &Source<'_>, kind: UnitKind, table: &UnitsTable) -> Result<UnitModel, MachineFileError> {
    let most = if kind.is_device() { crate::machine::MAX_DEVICES } else { crate::machine::MAX_CORES };
    if !(1..=most).contains(table.count.get_ref()) {
        let problem = format!("{} of a kind; there may be 1 to {most}", table.count.get_ref());
        return Err(source.error(Some(table.count.span()), problem));
    }
    let memory_bytes = match &table.memory_bytes {
        Some(bytes) if !kind.is_device() => {
            return Err(source
                .error(Some(bytes.span()), format!("the memory of {kind} units is the host's, which is not limited")));
        }
        Some(bytes) if *bytes.get_ref() == 0 => {
            return Err(source.error(Some(bytes.span()), "a memory of 0 bytes holds no data"));
        }
        Some(bytes) => *bytes.get_ref(),
        None => u64::MAX,
    };
    let Positive(one) = table.bytes_per_s;
    let slowdown = match &table.total_bytes_per_s {
        None => Curve::flat(1.0),
        Some(total) if total.get_ref().0 < one => {
            return Err(source.error(Some(total.span()), "less than `bytes_per_s`, the rate of a single one"));
        }
        // Up to this number, cores do not affect each other; beyond it, they share the total bandwidth.
        Some(total) => {
            let enough = total.get_ref().0 / one;
            Curve::through(vec![(enough, 1.0), (2.0 * enough, 2.0)], Beyond::Rises)
        }
    };
    let otherwise = Times { ns: 1e9 / one, work: Work::Bytes, slowdown, speed_up: None };
    let NotNegative(idle_w) = table.idle_w;
    let power = match &table.busy_w {
        Some(busy) if busy.get_ref().0 < idle_w => {
            return Err(source.error(Some(busy.span()), "less than `idle_w`, the power of an idle one"));
        }
        busy => busy.as_ref().map(|busy| Power { idle_w, busy_w: busy.get_ref().0 }),
    };
    let (count, launch_ns) = (*table.count.get_ref(), table.launch_ns.0);
    Ok(UnitModel { count, memory_bytes, launch_ns, idle_w, power, otherwise })
}

fn switch_model(
    source: &Source<'_>,
    switch: &Spanned<SwitchTable>,
    between: [Option<UnitKind>; 2],
    shared: bool,
) -> Result<SwitchModel, MachineFileError> {
    let error = |problem| Err(source.error(Some(switch.span()), problem));
    if between[0] != between[1] || shared {
        return error("a switch joins devices of one kind, each by a link of its own; try `between` with one kind");
    }
    match (switch.get_ref().per_leaf, switch.get_ref().uplink_bytes_per_s) {
        (None, None) => Ok(SwitchModel { leaves: None }),
        (Some(devices), Some(Positive(rate))) => Ok(SwitchModel { leaves: Some((devices.get(), rate)) }),
        _ => error("`per_leaf` and `uplink_bytes_per_s` describe leaf switches together; add the other"),
    }
}

fn task_model(
    source: &Source<'_>,
    task: &TaskTable,
    units: &BTreeMap<UnitKind, UnitModel>,
) -> Result<TaskModel, MachineFileError> {
    let name = task.name.get_ref();
    if name.trim_end_matches('*').contains('*') || name.ends_with("**") {
        return Err(source
            .error(Some(task.name.span()), "a `*` is allowed only at the end of a name, where it matches any text"));
    }
    let (work, amount) = match (&task.cost, task.bytes) {
        (Some(cost), Some(_)) => {
            return Err(source.error(Some(cost.span()), "the times are for a `cost` or for `bytes`, not for both"));
        }
        (Some(cost), None) => {
            let Positive(cost) = *cost.get_ref();
            (Work::Cost { otherwise: cost }, cost)
        }
        (None, Some(Positive(bytes))) => (Work::Bytes, bytes),
        (None, None) => (Work::Task, 1.0),
    };
    let speed_up = curve(&task.speed_up, Beyond::Stays);
    let mut times = BTreeMap::new();
    for (Kind(kind), table) in &task.time_ns {
        if !units.contains_key(kind) {
            let problem = format!("there are no {kind} units in this file; add [units.{kind}]");
            return Err(source.error(Some(table.span()), problem));
        }
        let Some(curve) = curve(table.get_ref(), Beyond::Rises) else {
            return Err(source.error(Some(table.span()), "give at least one time, such as { 1 = 1000 }"));
        };
        let alone = curve.first();
        let (ns, slowdown) = (alone / amount, curve.relative_to(alone));
        times.insert(*kind, Times { ns, work, slowdown, speed_up: speed_up.clone() });
    }
    if times.is_empty() {
        return Err(
            source.error(Some(task.name.span()), "no kind of unit has a time for these tasks; add [tasks.time_ns]")
        );
    }
    Ok(TaskModel { name: name.clone(), times })
}

fn curve(points: &BTreeMap<Busy, Positive>, beyond: Beyond) -> Option<Curve> {
    let points: Vec<_> = points.iter().map(|(Busy(count), Positive(value))| (f64::from(*count), *value)).collect();
    (!points.is_empty()).then(|| Curve::through(points, beyond))
}
