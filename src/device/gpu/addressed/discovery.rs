//! Discovering and opening an interface's devices, shared by CUDA and HIP.
//!
//! Devices are inspected without being opened. Each interface searches for its devices once per process.

use super::compile;
use super::compiler::Compiler;
use super::error::{ApiError, INVALID_DEVICE, NO_DEVICE};
use super::platform::Found;
use super::{Addressed, Api, PoolAccess};
use crate::device::Accelerator;
use crate::device::gpu::Gpu;
use crate::device::survey::{DeviceFacts, Interface};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::ffi::{c_char, c_int};

/// Returns all devices of an interface.
///
/// # Errors
/// Returns the reason why there are no devices.
pub(in crate::device) fn find<A: Api>() -> Result<&'static [Found], &'static str> {
    A::found().get_or_init(look::<A>).as_deref().map_err(String::as_str)
}

/// Returns whether every device of an interface can reach the memory of every other device.
pub(in crate::device) fn all_are_peers<A: Api>() -> bool {
    find::<A>().unwrap_or_default().iter().all(|found| !found.facts.peers.contains(&false))
}

/// Returns the accesses of all other devices to the memory of a device, or `None` if one of them cannot reach it.
pub(super) fn accesses_of_others<A: Api>(device: c_int) -> Option<Vec<PoolAccess>> {
    let others = find::<A>().unwrap_or_default().iter().filter(|other| other.number != device);
    let access = |other: &Found| other.facts.peers[device as usize].then(|| PoolAccess::of_device(other.number));
    others.map(access).collect()
}

/// Describes an interface and its devices.
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
    let none = || format!("{} is installed but finds no device", A::LAYER);
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
        return Err(format!("device {number} reports the architecture `{architecture}`, which is not one of {name}'s"));
    }
    let found = facts.into_iter().enumerate().map(|(n, facts)| Found {
        number: n as c_int,
        facts,
        open: open::<A>,
        meter: A::meter,
    });
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

/// Converts a null-terminated text.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Opens a device.
///
/// # Errors
/// Returns an error if the device cannot create a context or a stream.
fn open<A: Api>(found: &Found, is_timed: bool) -> Result<Box<dyn Accelerator>, DeviceError> {
    let DeviceFacts { name, architecture, processors, .. } = &found.facts;
    // Even without a compiler, programs that are already in the cache can run.
    let recipes = compile::recipes::<A>(architecture, true, "kernels", name);
    let api = A::open(found.number).map_err(|refusal| A::error(refusal, name))?;
    Ok(Box::new(Gpu::new(Addressed::open(api, name.clone(), *processors, architecture, recipes)?, is_timed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_with_first_zero_or_buffer() {
        let chars = b" A100 \0junk".map(|byte| byte as c_char);
        assert_eq!(text(&chars), "A100");
        assert_eq!(text(&chars[..3]), "A1", "or with its buffer");
    }
}
