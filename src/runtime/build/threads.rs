//! Construction of a runtime on the machine that the program runs on.

use super::super::builder::Builder;
use super::super::runtime::Runtime;
use super::binding::Bound;
use super::environment;
use super::parts::dynamic_w;
use crate::depend::Entrance;
use crate::device::{self, Disk, Execution, MeterOf, Opened};
use crate::driver::threads::{ThreadStyle, Threads};
use crate::energy::{self, Account, Metered, OfUnit};
use crate::engine::Placement;
use crate::error::BuildError;
use crate::machine::{Machine, Topology, UnitConfig, Warning};
use crate::runtime::any_driver::AnyDriver;
use std::sync::Once;

/// The default stack size, which is usually also the stack size of the main thread. Memory is used only as far as the
/// stack grows.
const STACK_BYTES: usize = 8 << 20;
/// The minimum stack size, which the runtime's own calls need below a body even in unoptimized builds.
const LEAST_STACK_BYTES: usize = 64 << 10;

impl Builder {
    pub(super) fn build_threads(mut self) -> Result<Runtime, BuildError> {
        let _visit = device::Visit::begin();
        let topology = self.usable(Topology::detect());
        let config: UnitConfig = match (&self.units, environment::text(environment::UNITS)) {
            (Some(units), _) => units.parse()?,
            (None, Some(units)) => units.parse().map_err(|error| environment::error(environment::UNITS, &error))?,
            (None, None) => format!("{}:CPU:1", topology.cores().len().max(1)).parse()?,
        };
        let Bound { mut machine, cores, bindings } = self.bind(&config, &topology)?;
        machine.warnings().iter().for_each(tell);
        log!(info, "runtime of {config} starts; its threads are bound to {bindings:?}");
        let opened = device::open(&machine, &self.emulated, self.is_traced())?.into_iter();
        let (devices, meters_of): (Vec<_>, Vec<_>) = opened.map(|Opened { device, meter }| (device, meter)).unzip();
        let disk = self.disk(&machine)?;
        let mut capacities_bytes = vec![self.host_bytes.unwrap_or(u64::MAX)];
        capacities_bytes.extend(devices.iter().map(|device| device.capacity_bytes().min(self.device_memory_bytes)));
        machine.set_capacities(capacities_bytes);
        let powers = self.powers(&machine, |_| None)?;
        let meters = self.all_meters(&mut machine, &meters_of)?;
        let policy = self.take_scheduler(&machine, &config)?;
        let fast_path = devices.is_empty() && disk.is_none() && policy.fast_path();
        let placement = (!fast_path).then(|| {
            let placement = Placement::new(&machine, machine.capacities_bytes(), policy).with_hosts_at_home();
            let placement = placement.with_power(dynamic_w(&powers)).evicting(self.eviction);
            if disk.is_some() { placement.with_disk() } else { placement }
        });
        let style = self.style(bindings)?;
        let explored = self.explored.take();
        let hosts_unit = explored.is_some() || self.use_current_thread && machine.num_cpu_units() > 0;
        if explored.is_some() && devices.iter().any(|device| matches!(device.execution(), Execution::Queued(_))) {
            let problem = format!("the schedules of {config} cannot be explored; try CPU units and emulated devices");
            return Err(BuildError::Argument { argument: "compute_units", problem });
        }
        let shared = self.shared(machine, placement)?;
        let (threads, unstarted) = Threads::new(shared, (!fast_path).then_some((devices, disk)));
        threads.poll_by(std::mem::take(&mut self.while_idle));
        // From here on, if something fails, dropping the runtime ends everything that has been started.
        let runtime = {
            let account = Account::new(powers, None, meters);
            self.finish(AnyDriver::Threads(threads.clone()), account)
        };
        let entrance: Entrance = runtime.door.clone();
        threads.start(unstarted, hosts_unit, &style, cores, &entrance, explored)?;
        Ok(runtime)
    }

    /// Returns the meters that the program has passed and, if requested, the meters found on this machine. Adds a
    /// warning if meters are requested but there are none at all.
    fn all_meters(&mut self, machine: &mut Machine, meters_of: &[MeterOf]) -> Result<Vec<Metered>, BuildError> {
        let mut all = self.meters(machine)?;
        if !self.find_meters {
            return Ok(all);
        }
        let mut found = energy::meters();
        for unit in machine.device_units() {
            for meter in unit.devices.iter().filter_map(|device| meters_of[device.index()]()) {
                match meter {
                    Ok(meter) => found.add(Box::new(OfUnit { meter, unit: unit.id })),
                    Err(why) => found.absent.push(why.to_string()),
                }
            }
        }
        all.extend(found.readable.into_iter().map(|meter| Metered::new(meter, None, machine)));
        if all.is_empty() {
            let warning = Warning::NoEnergyMeter { problem: found.absent.join("; ") };
            log!(warn, "{warning}");
            machine.warn(warning);
        }
        Ok(all)
    }

    /// Creates the file to which homes leave, if host memory is limited.
    fn disk(&self, machine: &Machine) -> Result<Option<Disk>, BuildError> {
        let problem = |argument, problem: &str| Err(BuildError::Argument { argument, problem: problem.to_owned() });
        match (self.host_bytes, &self.spill) {
            (None, None) => Ok(None),
            (None, Some(_)) => problem("spill_to", "nothing leaves without a limit; try `host_memory` as well"),
            (Some(_), None) => problem("host_memory", "arrays have nowhere to go; try `spill_to` as well"),
            _ if machine.num_devices() > 0 => problem(
                "host_memory",
                "the machine has devices, whose copies need all arrays in memory; try CPU units only",
            ),
            (Some(_), Some(directory)) => Disk::create(directory).map(Some).map_err(|error| {
                let problem =
                    format!("cannot create a file in {}: {error}; try another directory", directory.display());
                BuildError::Argument { argument: "spill_to", problem }
            }),
        }
    }

    fn style(&self, bindings: Option<Vec<Vec<usize>>>) -> Result<ThreadStyle, BuildError> {
        let stack_bytes = match self.stack_bytes {
            Some(bytes) if bytes < LEAST_STACK_BYTES => {
                let least = LEAST_STACK_BYTES >> 10;
                let problem = format!("a body cannot run on a stack of {bytes} bytes; try at least {least} KiB");
                return Err(BuildError::Argument { argument: "stack_bytes", problem });
            }
            Some(bytes) => bytes,
            None => {
                let least = std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok());
                least.unwrap_or(0).max(STACK_BYTES)
            }
        };
        Ok(ThreadStyle { name: self.name.as_deref().map(Into::into), bindings, stack_bytes })
    }
}

/// Logs a warning. The first warning about cores that two runtimes share is always shown.
fn tell(warning: &Warning) {
    static SHARED: Once = Once::new();
    let mut told = false;
    if matches!(warning, Warning::CoresTaken { .. }) {
        SHARED.call_once(|| {
            crate::log::tell(format_args!("{warning}"));
            told = true;
        });
    }
    if !told {
        log!(warn, "{warning}");
    }
}
