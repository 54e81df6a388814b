//! The steps of building a runtime that are the same for both drivers.

use super::super::builder::Builder;
use super::super::runtime::Runtime;
use super::environment;
use crate::depend::Recorder;
use crate::driver::shared::Shared;
use crate::driver::watch::Watch;
use crate::driver::window::Window;
use crate::energy::{Account, Metered, Power};
use crate::engine::{Engine, Placement, Scheduler};
use crate::error::BuildError;
use crate::machine::{ComputeUnit, Machine, UnitConfig, UnitKind};
use crate::runtime::any_driver::AnyDriver;
use crate::runtime::builder::Choice;
use crate::runtime::capacities::Capacities;
use crate::runtime::door::Door;
use crate::runtime::live::Live;
use crate::sched::fpm::Known;
use crate::sched::{self, Model};
use crate::trace::{self, Tracer};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

static NEXT_RUNTIME: AtomicU64 = AtomicU64::new(1);
const WINDOW_PER_UNIT: usize = 512;
const LEAST_WINDOW: usize = 1024;

impl Builder {
    /// Returns the scheduler for this machine.
    pub(super) fn take_scheduler(&mut self, machine: &Machine, config: &UnitConfig) -> Result<Scheduler, BuildError> {
        let from_environment = || environment::text(environment::SCHEDULER);
        let (name, is_ours) = match self.scheduler.take() {
            Some(Choice::Own(policy)) => return Ok(Scheduler::own(policy)),
            Some(Choice::Named(name)) => (name, true),
            None => from_environment().map_or_else(|| ("stealing".to_owned(), true), |name| (name, false)),
        };
        let is_cpu = |term: &&str| term.contains(":CPU:");
        let unit_name = |unit: &ComputeUnit| {
            let size = if unit.is_cpu() { unit.inner_cores() } else { unit.devices.len() };
            format!("{}:{size}", unit.kind)
        };
        let (model, profiles) = self.kept(name.split(':').next() == Some("fpm"))?;
        let setting = sched::Setting {
            units: machine.num_units(),
            cpu_units: config.to_string().split(',').filter(is_cpu).collect::<Vec<_>>().join(","),
            unit_names: machine.units().iter().map(unit_name).collect(),
            model,
            profiles,
            read: &|path| std::fs::read_to_string(path),
        };
        let policy = sched::from_spec(&name, setting).map_err(|error| match is_ours {
            true => error,
            false => environment::error(environment::SCHEDULER, &error),
        })?;
        Ok(Scheduler::built_in(policy))
    }

    /// Returns the power of each unit: the user's figures, or the machine's.
    pub(super) fn powers(
        &self,
        machine: &Machine,
        of_kind: impl Fn(UnitKind) -> Option<Power>,
    ) -> Result<Vec<Option<Power>>, BuildError> {
        if let Some((kind, power)) = self.powers.iter().find(|(_, power)| !power.is_sane()) {
            let Power { idle_w, busy_w } = power;
            let problem = format!("{kind} units use {idle_w} W idle and {busy_w} W busy; try 0 <= idle <= busy");
            return Err(BuildError::Argument { argument: "power", problem });
        }
        let power = |unit: &ComputeUnit| {
            let given = self.powers.iter().rev().find(|(kind, _)| *kind == unit.kind).map(|(_, power)| *power);
            Some(given.or_else(|| of_kind(unit.kind))?.of_unit(unit))
        };
        Ok(machine.units().iter().map(power).collect())
    }

    /// Starts the meters.
    pub(super) fn meters(&mut self, machine: &Machine) -> Result<Vec<Metered>, BuildError> {
        let odd = |static_w: &f64| !static_w.is_finite() || *static_w < 0.0;
        if let Some(static_w) = self.meters.iter().filter_map(|(_, static_w)| *static_w).find(odd) {
            let problem = format!("a static power of {static_w} W is impossible; try a finite number, 0 or more");
            return Err(BuildError::Argument { argument: "energy_meter", problem });
        }
        let given = std::mem::take(&mut self.meters).into_iter();
        Ok(given.map(|(meter, static_w)| Metered::new(meter, static_w, machine)).collect())
    }

    /// Builds the state that all threads will share.
    pub(super) fn shared(&mut self, machine: Machine, placement: Option<Placement>) -> Result<Shared, BuildError> {
        let window = self.window.unwrap_or((WINDOW_PER_UNIT * machine.num_units()).max(LEAST_WINDOW));
        if window == 0 {
            let problem = "a window of 0 tasks allows no submission; try at least 1".to_owned();
            return Err(BuildError::Argument { argument: "max_pending_tasks", problem });
        }
        let id = NEXT_RUNTIME.fetch_add(1, Ordering::Relaxed);
        let tracer = self.start_trace(&machine, placement.as_ref())?;
        let placement = placement.map(|placement| placement.traced_by(tracer.clone()));
        #[cfg(feature = "graph")]
        let graph = self.record_graph.then(Default::default);
        #[cfg(not(feature = "graph"))]
        let graph = None;
        let recorder = (tracer.is_some() || self.record_graph).then(|| Recorder::new(graph, tracer.clone()));
        let engine = Engine::new(id, machine.num_units(), placement, recorder);
        self.on_failure.take().into_iter().for_each(|tell| engine.failures().set_callback(tell));
        let conflicts = self.detect_conflicts.then(Default::default);
        let watch =
            Watch::new([self.report_stalls_after, self.report_tasks_after], self.on_stall.take(), self.name.clone());
        let window = match self.explored {
            None => Window::new(window as u64, self.throttle_submissions),
            Some(_) => Window::looked_at_always(window as u64, self.throttle_submissions),
        };
        let window = window.in_bytes(self.window_bytes);
        let sanitizes = self.sanitize.map_or_else(environment::sanitize, Ok)?;
        Ok(Shared::new(id, machine, engine, conflicts, window, watch, tracer).sanitized(sanitizes))
    }

    /// Returns whether the program or the environment requests a trace.
    pub(super) fn is_traced(&self) -> bool {
        self.trace.is_some() || environment::text(trace::VARIABLE).is_some()
    }

    /// Starts the trace that the program or the environment requests.
    fn start_trace(
        &mut self,
        machine: &Machine,
        placement: Option<&Placement>,
    ) -> Result<Option<Arc<Tracer>>, BuildError> {
        let accesses = environment::trace_accesses()?;
        let (order, argument) = match self.trace.take() {
            Some(order) => (order, "trace"),
            None => match environment::trace() {
                Some(order) => (order, trace::VARIABLE),
                None => return Ok(None),
            },
        };
        let mut facts = format!(
            "program\t{}\nprocess\t{}\nruntime\t{}\nversion\t{}\nscheduler\t{}\n",
            trace::fact(&std::env::current_exe().unwrap_or_default().to_string_lossy()),
            std::process::id(),
            trace::fact(self.name.as_deref().unwrap_or_default()),
            env!("CARGO_PKG_VERSION"),
            trace::fact(placement.map_or("stealing", Placement::policy_name)),
        );
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let _ = writeln!(facts, "started\t{}", started.as_nanos());
        for unit in machine.units() {
            let width = if unit.is_cpu() { unit.inner_cores() } else { unit.devices.len() };
            let _ = writeln!(facts, "unit\t{} {width}", unit.kind);
        }
        let _ = writeln!(facts, "space\thost");
        for unit in machine.device_units() {
            unit.devices.iter().for_each(|device| _ = writeln!(facts, "space\t{} {}", unit.kind, device.0));
        }
        let path = order.path.clone();
        let order = trace::Order { accesses: self.trace_accesses.unwrap_or(accesses), ..order };
        match Tracer::start(order, &facts, machine.is_simulated()) {
            Ok(tracer) => Ok(Some(tracer)),
            Err(problem) => {
                let problem = format!("cannot create {}: {problem}; try a folder that exists", path.display());
                Err(BuildError::Argument { argument, problem })
            }
        }
    }

    /// Builds the runtime around a driver.
    pub(super) fn finish(self, driver: AnyDriver, energy: Account) -> Runtime {
        let capacities = Capacities::new(&driver.shared().machine, |space| {
            space.device().map_or(u64::MAX, |device| driver.largest_buffer_bytes(device))
        });
        Runtime {
            door: Door::new(driver, capacities),
            ended: AtomicBool::new(false),
            #[cfg(feature = "sim")]
            model_file: self.model_file,
            #[cfg(not(feature = "sim"))]
            model_file: None,
            energy,
            live: Live::default(),
        }
    }

    /// Reads the results of earlier runs: the tasks' times, or the units' profiles for a scheduler that uses
    /// profiles.
    #[cfg(feature = "sim")]
    fn kept(&self, profiles: bool) -> Result<(Model, Known), BuildError> {
        let Some(path) = &self.model_file else { return Ok(Default::default()) };
        let error = |problem: String| BuildError::Argument {
            argument: "model_file",
            problem: format!("{}: {problem}", path.display()),
        };
        match std::fs::read_to_string(path) {
            Ok(text) if profiles => {
                let known = Known::from_text(&text).map_err(|problem| error(problem.to_string()))?;
                Ok((Model::default(), known))
            }
            Ok(text) => {
                let model = Model::from_text(&text).map_err(|problem| error(problem.to_string()))?;
                Ok((model, Known::default()))
            }
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(Default::default()),
            Err(problem) => Err(error(problem.to_string())),
        }
    }

    /// Returns no results of earlier runs.
    #[cfg(not(feature = "sim"))]
    fn kept(&self, _: bool) -> Result<(Model, Known), BuildError> {
        Ok(Default::default())
    }
}

pub(super) fn places_error(error: crate::machine::PlacesError) -> BuildError {
    BuildError::Argument { argument: "places", problem: error.to_string() }
}

/// Returns the power that each unit draws in addition while it works.
pub(super) fn dynamic_w(powers: &[Option<Power>]) -> Vec<Option<f64>> {
    powers.iter().map(|power| power.map(Power::dynamic_w)).collect()
}
