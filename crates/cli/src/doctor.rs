//! `thalweg doctor`: shows the cores and devices of this machine, their measured speed, and why others are
//! unavailable.

use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use thalweg::devices::{DeviceFacts, Interface, Measurement, interfaces, measurement};
use thalweg::machine::Topology;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Skip the measurements of bandwidth and latency
    #[arg(long)]
    quick: bool,
}

/// The complete report.
#[derive(Debug, Serialize)]
struct Report {
    thalweg: &'static str,
    cores: usize,
    cpu_quota: Option<usize>,
    interfaces: Vec<Examined>,
}

/// An interface, with the report on each of its devices.
#[derive(Debug, Serialize)]
struct Examined {
    name: &'static str,
    version: Option<String>,
    absent: Option<String>,
    devices: Vec<Patient>,
}

/// A device, with the facts that its interface provides ([`DeviceFacts`]) and the results of the examination.
#[derive(Debug, Serialize)]
struct Patient {
    name: String,
    units: Vec<&'static str>,
    memory_bytes: u64,
    driver: String,
    architecture: String,
    processors: u32,
    pci: Option<String>,
    peers: Vec<bool>,
    /// The cores nearest to the device, in the system's notation (`0-31`); `None` if the system does not report
    /// them.
    nearest_cores: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// A serializable [`Measurement`].
#[derive(Debug, Serialize)]
struct Measured {
    to_device_bytes_per_s: f64,
    from_device_bytes_per_s: f64,
    round_trip_ns: u64,
    launch_ns: u64,
}

impl From<Measurement> for Measured {
    fn from(measurement: Measurement) -> Self {
        let Measurement { to_device_bytes_per_s, from_device_bytes_per_s, round_trip_ns, launch_ns, .. } = measurement;
        Self { to_device_bytes_per_s, from_device_bytes_per_s, round_trip_ns, launch_ns }
    }
}

pub(super) fn run(options: &Options) -> io::Result<()> {
    let topology = Topology::detect();
    let examine = |interface: Interface| {
        let Interface { name, version, absent, devices, .. } = interface;
        let patient = |(number, facts): (usize, DeviceFacts)| examine_device(name, number, facts, options);
        Examined { name, version, absent, devices: devices.into_iter().enumerate().map(patient).collect() }
    };
    let report = Report {
        thalweg: env!("CARGO_PKG_VERSION"),
        cores: topology.cores().len(),
        cpu_quota: topology.cpu_quota(),
        interfaces: interfaces().into_iter().map(examine).collect(),
    };
    let out = &mut io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return writeln!(out);
    }
    print(&report, out)
}

fn examine_device(interface: &str, number: usize, facts: DeviceFacts, options: &Options) -> Patient {
    let DeviceFacts { name, units, memory_bytes, driver, architecture, processors, pci, peers, .. } = facts;
    let nearest = |pci: &String| std::fs::read_to_string(format!("/sys/bus/pci/devices/{pci}/local_cpulist")).ok();
    let measured = (!options.quick).then(|| measurement(interface, number));
    Patient {
        nearest_cores: pci.as_ref().and_then(nearest).map(|cores| cores.trim().to_owned()),
        failed: measured.as_ref().and_then(|measured| measured.as_ref().err()).map(ToString::to_string),
        measured: measured.and_then(Result::ok).map(Measured::from),
        name,
        units: units.iter().map(|unit| unit.keyword()).collect(),
        memory_bytes,
        driver,
        architecture,
        processors,
        pci,
        peers,
    }
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "thalweg {}", report.thalweg)?;
    let quota = report.cpu_quota.map_or(String::new(), |quota| format!(", with a quota of {quota}"));
    writeln!(out, "CPU     {} cores{quota}", report.cores)?;
    writeln!(out, "EMU     always available: emulated in host memory")?;
    for interface in &report.interfaces {
        match (&interface.version, &interface.absent) {
            (Some(version), Some(why)) => writeln!(out, "{:<7} no device: {why} ({version})", interface.name)?,
            (None, Some(why)) => writeln!(out, "{:<7} no device: {why}", interface.name)?,
            (version, None) => writeln!(out, "{:<7} {}", interface.name, version.as_deref().unwrap_or(""))?,
        }
        for (number, device) in interface.devices.iter().enumerate() {
            print_device(number, device, out)?;
        }
        if interface.devices.len() > 1 {
            print_peers(&interface.devices, out)?;
        }
    }
    Ok(())
}

fn print_device(number: usize, device: &Patient, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {number}: {}", device.name)?;
    writeln!(out, "     in unit strings   {}", device.units.join(", "))?;
    writeln!(out, "     memory            {:.1} GiB", device.memory_bytes as f64 / f64::from(1 << 30))?;
    writeln!(out, "     processors        {} ({})", device.processors, device.architecture)?;
    writeln!(out, "     driver            {}", device.driver)?;
    if let Some(pci) = &device.pci {
        let cores = device.nearest_cores.as_ref().map_or(String::new(), |cores| format!(", nearest cores {cores}"));
        writeln!(out, "     PCI address       {pci}{cores}")?;
    }
    if let Some(measured) = &device.measured {
        let rate = |bytes_per_s: f64| format!("{:.1} GB/s", bytes_per_s / 1e9);
        writeln!(
            out,
            "     copies            {} to the device, {} back",
            rate(measured.to_device_bytes_per_s),
            rate(measured.from_device_bytes_per_s)
        )?;
        let (launch, trip) = (measured.launch_ns as f64 / 1e3, measured.round_trip_ns as f64 / 1e3);
        writeln!(out, "     kernels           {launch:.1} us each in a chain, {trip:.1} us round trip")?;
    }
    if let Some(failed) = &device.failed {
        writeln!(out, "     does not work     {failed}")?;
    }
    Ok(())
}

fn print_peers(devices: &[Patient], out: &mut impl Write) -> io::Result<()> {
    let head: String = (0..devices.len()).map(|n| format!("{n:>4}")).collect();
    writeln!(out, "  reaches the memory of{head}")?;
    for (n, device) in devices.iter().enumerate() {
        let row: String = device.peers.iter().map(|peer| format!("{:>4}", if *peer { "yes" } else { "no" })).collect();
        writeln!(out, "  {n:>20} {row}")?;
    }
    Ok(())
}
