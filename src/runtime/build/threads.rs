//! Building a runtime on the machine that the program runs on.

use super::super::{Builder, Runtime};
use super::parts::{dynamic_w, places_error};
use crate::depend::Entrance;
use crate::device::{self, MeterOf, Opened};
use crate::driver::threads::{ThreadStyle, Threads};
use crate::energy::{self, Account, Metered, OfUnit};
use crate::engine::Placement;
use crate::error::BuildError;
use crate::machine::{ConfigError, CoresTaken, Machine, Places, Topology, UnitConfig, Warning};
use crate::runtime::any_driver::AnyDriver;

/// As much as the main thread has, as a rule. Memory is used only as far as the stack gets.
const STACK_BYTES: usize = 8 << 20;
/// A thread needs so much for the runtime's own calls beneath a body, also without optimizations.
const LEAST_STACK_BYTES: usize = 64 << 10;

impl Builder {
    pub(super) fn build_threads(mut self) -> Result<Runtime, BuildError> {
        let topology = Topology::detect();
        let config: UnitConfig = match &self.units {
            Some(units) => units.parse()?,
            None => format!("{}:CPU:1", topology.cores().len().max(1)).parse()?,
        };
        let (machine, mut warnings, cores) = self.plan(&config, &topology)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let opened = device::open(&machine, &self.emulated)?.into_iter();
        let (devices, meters_of): (Vec<_>, Vec<_>) = opened.map(|Opened { device, meter }| (device, meter)).unzip();
        let mut capacities_bytes = vec![u64::MAX];
        capacities_bytes.extend(devices.iter().map(|device| device.capacity_bytes().min(self.device_memory_bytes)));
        let powers = self.powers(&machine, |_| None)?;
        let meters = self.all_meters(&machine, &meters_of, &mut warnings);
        let policy = self.take_scheduler(&machine, &config)?;
        let fast_path = devices.is_empty() && policy.fast_path();
        let placement = (!fast_path).then(|| {
            let placement = Placement::new(&machine, &capacities_bytes, policy).with_hosts_at_home();
            placement.with_power(dynamic_w(&powers))
        });
        let style = self.style()?;
        let hosts_unit = self.submitter_hosts_unit && machine.num_cpu_units() > 0;
        let shared = self.shared(machine, placement)?;
        let (threads, unstarted) = Threads::new(shared, (!fast_path).then_some(devices));
        // From here on the runtime ends what has begun, if something fails.
        let runtime = {
            let account = Account::new(powers, None, meters);
            self.finish(AnyDriver::Threads(threads.clone()), &config, capacities_bytes, warnings, account)
        };
        let entrance: Entrance = runtime.door.clone();
        threads.start(unstarted, hosts_unit, style, cores, &entrance)?;
        Ok(runtime)
    }

    /// The machine, with cores that this runtime holds if it pins threads to them.
    fn plan(
        &self,
        config: &UnitConfig,
        topology: &Topology,
    ) -> Result<(Machine, Vec<Warning>, Option<CoresTaken>), BuildError> {
        let plan = |places: Option<&Places>| {
            if !self.pin {
                let (machine, warnings) = Machine::plan(config, places, topology)?;
                return Ok((machine, warnings, None));
            }
            let (machine, warnings, cores) = CoresTaken::plan(config, places, topology)?;
            Ok::<_, ConfigError>((machine, warnings, Some(cores)))
        };
        if let Some(places) = &self.places {
            return Ok(plan(Some(&places.parse().map_err(places_error)?))?);
        }
        let Some(text) = std::env::var_os("OMP_PLACES").filter(|_| self.pin) else { return Ok(plan(None)?) };
        let parsed = text.to_string_lossy().parse::<Places>().map_err(|error| error.to_string());
        match parsed.and_then(|places| plan(Some(&places)).map_err(|error| error.to_string())) {
            Ok(planned) => Ok(planned),
            // Written for another program, perhaps.
            Err(problem) => {
                let (machine, mut warnings, cores) = plan(None)?;
                warnings.push(Warning::PlacesIgnored { problem });
                Ok((machine, warnings, cores))
            }
        }
    }

    /// The meters that were given, and those that are found if they are to be; if there is none then, a warning.
    fn all_meters(&mut self, machine: &Machine, meters_of: &[MeterOf], warnings: &mut Vec<Warning>) -> Vec<Metered> {
        let mut all = self.meters(machine);
        if !self.find_meters {
            return all;
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
            tracing::warn!("{warning}");
            warnings.push(warning);
        }
        all
    }

    fn style(&self) -> Result<ThreadStyle, BuildError> {
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
        Ok(ThreadStyle { pin: self.pin, stack_bytes })
    }
}
