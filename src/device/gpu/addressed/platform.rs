//! Which devices an interface finds, and how one of them is opened: CUDA and HIP are asked the same questions.
//!
//! What never happens here: no device is opened to look at it. All of them are looked for once in a process.

use super::compiler::{self, Compiler};
use super::{Addressed, Api, ApiError};
use crate::device::Accelerator;
use crate::device::gpu::Gpu;
use crate::device::interfaces::Discovered;
use crate::device::survey::{DeviceFacts, Interface};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

/// Both interfaces say so, which one depends on the version.
const NO_DEVICE: i32 = 100;
const INVALID_DEVICE: i32 = 101;

/// What an interface says before any of its devices is open.
///
/// But for [`Self::load`] and [`Self::version`], all is asked of a library that is loaded; numbers are below
/// [`Self::count`].
pub(in crate::device) trait Platform: Send + Sync + Sized + 'static {
    /// What people call the interface.
    const NAME: &'static str;
    /// What answers: its driver or its runtime.
    const LAYER: &'static str;
    /// The kind of unit that its devices are, besides [`UnitKind::Gpu`].
    const KIND: UnitKind;
    /// How the names of its architectures begin.
    const ARCHITECTURES: &'static str;

    /// Its compiler.
    type Compiler: Compiler;

    /// Opens the library, once.
    ///
    /// # Errors
    /// Why it can't be used.
    fn load() -> Result<(), &'static str>;
    /// The newest release that the library is for: `12.4`.
    fn version() -> String;
    /// What was found, once it was looked for.
    fn found() -> &'static OnceLock<Result<Vec<Found>, String>>;
    /// A code, in words.
    fn describe(code: i32) -> String;

    /// How many devices there are.
    fn count() -> Result<c_int, ApiError>;
    /// Writes a device's name, and a zero behind it.
    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError>;
    /// As its compiler calls it.
    fn architecture_of(number: c_int) -> Result<String, ApiError>;
    /// All of its memory.
    fn bytes_of(number: c_int) -> Result<usize, ApiError>;
    /// How many multiprocessors it has.
    fn processors_of(number: c_int) -> Result<c_int, ApiError>;
    /// Writes its address on the PCI bus, and a zero behind it.
    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError>;
    /// Whether it reaches another one's memory directly.
    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError>;
}

/// A device that is there, not yet opened.
#[derive(Debug)]
pub(in crate::device) struct Found {
    number: c_int,
    facts: DeviceFacts,
    open: fn(&Self) -> Result<Box<dyn Accelerator>, DeviceError>,
}

impl Discovered for Found {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError> {
        (self.open)(self)
    }
}

/// All devices of an interface.
///
/// # Errors
/// Why there is none.
pub(in crate::device) fn find<A: Api>() -> Result<&'static [Found], &'static str> {
    A::found().get_or_init(look::<A>).as_deref().map_err(String::as_str)
}

/// Whether every device of an interface reaches the memory of every other.
pub(in crate::device) fn all_are_peers<A: Api>() -> bool {
    find::<A>().unwrap_or_default().iter().all(|found| !found.facts.peers.contains(&false))
}

/// What there is of an interface.
pub(in crate::device) fn survey<A: Api>() -> Interface {
    let found = find::<A>();
    let compiler = || A::Compiler::load().map_or_else(str::to_owned, ToString::to_string);
    Interface {
        name: A::NAME,
        version: A::load().is_ok().then(|| format!("{} {}, {}", A::NAME, A::version(), compiler())),
        absent: found.err().map(str::to_owned),
        devices: found.unwrap_or_default().iter().map(|found| found.facts.clone()).collect(),
    }
}

fn look<A: Api>() -> Result<Vec<Found>, String> {
    A::load()?;
    let none = || format!("{} is installed and finds no device", A::LAYER);
    let answer = |ApiError { code, .. }| match code {
        NO_DEVICE | INVALID_DEVICE => none(),
        code => format!("{} answers: {}", A::LAYER, A::describe(code)),
    };
    let count = A::count().map_err(answer)?;
    let facts = (0..count).map(|number| look_at::<A>(number, count)).collect::<Result<Vec<_>, _>>().map_err(answer)?;
    if let Some((number, DeviceFacts { architecture, .. })) =
        facts.iter().enumerate().find(|(_, facts)| !facts.architecture.starts_with(A::ARCHITECTURES))
    {
        let name = A::NAME;
        return Err(format!(
            "device {number} says that its architecture is `{architecture}`, which is none of {name}'s"
        ));
    }
    let found = facts.into_iter().enumerate().map(|(n, facts)| Found { number: n as c_int, facts, open: open::<A> });
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

fn look_at<A: Api>(number: c_int, count: c_int) -> Result<DeviceFacts, ApiError> {
    let (mut name, mut pci) = ([0; 256], [0; 32]);
    A::name_of(number, &mut name)?;
    Ok(DeviceFacts {
        name: text(&name),
        units: vec![A::KIND, UnitKind::Gpu],
        memory_bytes: A::bytes_of(number)? as u64,
        driver: format!("{} {}", A::NAME, A::version()),
        architecture: A::architecture_of(number)?,
        processors: A::processors_of(number)? as u32,
        pci: A::pci_of(number, &mut pci).is_ok().then(|| text(&pci).to_lowercase()),
        peers: (0..count).map(|peer| peer == number || A::reaches(number, peer).unwrap_or(false)).collect(),
    })
}

/// A text that ends with its first zero.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Opens a device.
///
/// # Errors
/// If nothing can be compiled for it, or it gives no context or stream.
fn open<A: Api>(found: &Found) -> Result<Box<dyn Accelerator>, DeviceError> {
    let DeviceFacts { name, architecture, .. } = &found.facts;
    let recipe = compiler::recipe::<A>(architecture, true, "kernels", name)?;
    let api = A::open(found.number).map_err(|refusal| refusal.on::<A>(name))?;
    Ok(Box::new(Gpu::new(Addressed::open(api, name.clone(), recipe)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_with_its_first_zero() {
        let chars = b" A100 \0junk".map(|byte| byte as c_char);
        assert_eq!(text(&chars), "A100");
        assert_eq!(text(&chars[..3]), "A1", "or with the place that it has");
    }
}
