//! What is built alike for either driver.

use super::super::{Builder, Runtime};
use crate::driver::shared::Shared;
use crate::driver::watch::Watch;
use crate::driver::window::Window;
use crate::engine::{Engine, Placement, Scheduler};
use crate::error::BuildError;
use crate::machine::{Machine, UnitConfig, Warning};
use crate::runtime::Door;
use crate::runtime::any_driver::AnyDriver;
use crate::runtime::builder::Choice;
use crate::runtime::capacities::Capacities;
use crate::runtime::scope::OpenScopes;
use crate::sched::{self, Model};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

static NEXT_RUNTIME: AtomicU64 = AtomicU64::new(1);
const WINDOW_PER_UNIT: usize = 512;
const LEAST_WINDOW: usize = 1024;

impl Builder {
    /// The scheduler, for this machine.
    pub(super) fn take_scheduler(&mut self, machine: &Machine, config: &UnitConfig) -> Result<Scheduler, BuildError> {
        let schedule = self.schedule.clone();
        let recorded = |policy| match schedule {
            Some(schedule) => Box::new(sched::Recording::new(policy, schedule)),
            None => policy,
        };
        let name = match std::mem::replace(&mut self.scheduler, Choice::Named(String::new())) {
            Choice::Own(policy) => return Ok(Scheduler::own(recorded(policy))),
            Choice::Named(name) => name,
        };
        let is_cpu = |term: &&str| term.contains(":CPU:");
        let setting = sched::Setting {
            units: machine.num_units(),
            cpu_units: config.to_string().split(',').filter(is_cpu).collect::<Vec<_>>().join(","),
            model: self.model()?,
            read: &|path| std::fs::read_to_string(path),
        };
        sched::from_spec(&name, setting).map(recorded).map(Scheduler::built_in)
    }

    /// What all threads will share.
    pub(super) fn shared(&mut self, machine: Machine, placement: Option<Placement>) -> Result<Shared, BuildError> {
        let window = self.window.unwrap_or((WINDOW_PER_UNIT * machine.num_units()).max(LEAST_WINDOW));
        if window == 0 {
            let problem = "a window of 0 tasks lets none be submitted; give at least 1".to_owned();
            return Err(BuildError::Argument { argument: "window", problem });
        }
        let id = NEXT_RUNTIME.fetch_add(1, Ordering::Relaxed);
        let engine = Engine::new(id, machine.num_units(), placement, self.recorder.take());
        let conflicts = self.detect_conflicts.then(Default::default);
        let watch = Watch::new(self.report_stalls_after, self.on_stall.take());
        Ok(Shared::new(id, machine, engine, conflicts, Window::new(window as u64), watch))
    }

    /// The runtime around a driver.
    pub(super) fn finish(
        self,
        driver: AnyDriver,
        config: &UnitConfig,
        capacities_bytes: Vec<u64>,
        warnings: Vec<Warning>,
    ) -> Runtime {
        let capacities = Capacities::new(&driver.shared().machine, capacities_bytes, |space| {
            space.device().map_or(u64::MAX, |device| driver.largest_buffer_bytes(device))
        });
        Runtime {
            door: Door::new(driver, config.to_string(), capacities),
            ended: AtomicBool::new(false),
            warnings,
            #[cfg(feature = "sim")]
            model_file: self.model_file,
            #[cfg(not(feature = "sim"))]
            model_file: None,
            schedule: self.schedule,
            next_space: AtomicU32::new(0),
            scopes: OpenScopes::default(),
        }
    }

    /// What is known of tasks' times from runs before.
    #[cfg(feature = "sim")]
    fn model(&self) -> Result<Model, BuildError> {
        let Some(path) = &self.model_file else { return Ok(Model::default()) };
        let error = |problem: String| BuildError::Argument {
            argument: "model_file",
            problem: format!("{}: {problem}", path.display()),
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Model::from_text(&text).map_err(|problem| error(problem.to_string())),
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(Model::default()),
            Err(problem) => Err(error(problem.to_string())),
        }
    }

    /// What is known of tasks' times from runs before: nothing.
    #[cfg(not(feature = "sim"))]
    fn model(&self) -> Result<Model, BuildError> {
        Ok(Model::default())
    }
}

pub(super) fn places_error(error: crate::machine::PlacesError) -> BuildError {
    BuildError::Argument { argument: "places", problem: error.to_string() }
}
