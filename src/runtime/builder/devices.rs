//! Settings of devices: their memory, power and meters, emulated devices, and simulated machines.

use super::{Builder, Choice};
use crate::device::EmulatedDevice;
use crate::energy::{EnergyMeter, Power};
use crate::explore::Choices;
use crate::machine::UnitKind;
use crate::sched::Policy;
use std::sync::Arc;

impl Builder {
    /// Limits the bytes of each device's memory that are used for replicas of data. The default is all of the device's
    /// memory except a reserve for scratch memory and other uses.
    pub fn device_memory_bytes(mut self, bytes: u64) -> Self {
        self.device_memory_bytes = bytes;
        self
    }

    /// Sets the power draw of a core or device of this kind. From the power and the busy time of the units, the runtime
    /// computes the energy in [`Runtime::statistics`](crate::Runtime::statistics) and in the profiles of the `fpm`
    /// scheduler. In a simulation, this value overrides the figures in the machine file.
    ///
    /// ```
    /// use thalweg::energy::Power;
    /// use thalweg::prelude::*;
    /// let (core, device) = (Power { idle_w: 0.5, busy_w: 4.0 }, Power { idle_w: 20.0, busy_w: 150.0 });
    /// let rt = Runtime::builder()
    ///     .compute_units("1:CPU:1,1:EMU:1")
    ///     .power(UnitKind::Cpu, core)
    ///     .power(UnitKind::Emulated, device)
    ///     .scheduler("fpm:objective=energy")
    ///     .build()?;
    /// assert_eq!(rt.statistics().energy.len(), 2);
    ///
    /// let odd = Power { idle_w: 9.0, busy_w: 4.0 };
    /// let error = Runtime::builder().power(UnitKind::Cpu, odd).build().unwrap_err();
    /// assert!(error.to_string().contains("CPU units use 9 W idle and 4 W busy"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn power(mut self, kind: UnitKind, power: Power) -> Self {
        self.powers.push((kind, power));
        self
    }

    /// Adds an energy meter for [`Runtime::statistics`](crate::Runtime::statistics). It is read when the runtime is
    /// built and at each call of that method. `static_w` is the idle power that the meter shows, in watts; if it is
    /// `None`, the dynamic energy is unknown.
    ///
    /// If a meter can no longer be read, the runtime logs that, and reports its energy as unknown from then on.
    ///
    /// ```
    /// use thalweg::energy::FileMeter;
    /// use thalweg::prelude::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("wall.log");
    /// std::fs::write(&path, "1000.0")?;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").energy_meter(FileMeter::new(&path), None).build()?;
    /// std::fs::write(&path, "1250.0")?;
    /// assert_eq!(rt.statistics().energy[0].total_j, Some(250.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn energy_meter(mut self, meter: impl EnergyMeter + 'static, static_w: impl Into<Option<f64>>) -> Self {
        self.meters.push((Box::new(meter), static_w.into()));
        self
    }

    /// Sets whether to search for energy meters of this machine: meters of its processors
    /// ([`energy::meters`](crate::energy::meters)), and of the GPUs that belong to units (through NVML or ROCm SMI). If
    /// no meter can be read, there is a [warning](crate::machine::Machine::warnings).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").find_energy_meters(true).build()?;
    /// assert!(!rt.statistics().energy.is_empty() || rt.machine().warnings()[0].to_string().starts_with("no energy meter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_energy_meters(mut self, yes: bool) -> Self {
        self.find_meters = yes;
        self
    }

    /// Sets the behavior of each emulated device: `device` is called with the device's index. The default is
    /// [`EmulatedDevice::new`] for all devices.
    pub fn emulated_devices(mut self, device: impl Fn(usize) -> EmulatedDevice + 'static) -> Self {
        self.emulated = Box::new(device);
        self
    }

    /// Lets one thread play all units, in an order that `choices` decide. `device` changes each emulated device.
    pub(crate) fn explored(
        mut self,
        choices: Arc<Choices>,
        policy: Box<dyn Policy>,
        device: impl Fn(EmulatedDevice) -> EmulatedDevice + 'static,
    ) -> Self {
        let emulated = std::mem::replace(&mut self.emulated, Box::new(|_| EmulatedDevice::new()));
        self.emulated = Box::new(move |number| device(emulated(number)));
        (self.explored, self.scheduler) = (Some(choices), Some(Choice::Own(policy)));
        self.pin_threads(false)
    }

    /// Runs the program on a simulated machine: nothing is computed and nothing takes real time, but tasks are placed
    /// and data moved as on the real machine, on a virtual clock ([`Runtime::now`](crate::Runtime::now)).
    ///
    /// Bodies are dropped instead of run. Data objects made with [`Runtime::zeros`](crate::Runtime::zeros) have no
    /// memory; others keep the values that they were registered with. Virtual time passes only while the program waits,
    /// or has submitted more tasks than the window holds. With a single submitting thread, all times are the same in
    /// every run, to the nanosecond. The units can be of any kind that the machine has; the default is the whole
    /// machine. Thread pinning and [`use_current_thread`](Self::use_current_thread) have no effect.
    #[cfg(feature = "sim")]
    pub fn simulate(mut self, machine: crate::SimulatedMachine) -> Self {
        self.simulated = Some(machine);
        self
    }
}
