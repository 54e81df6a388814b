//! Interfaces to accelerators: which interfaces this build includes, and which devices each interface finds.
//!
//! Only this module knows which crate feature enables which interface. An interface that is not part of the build
//! finds no devices, and names the feature that would enable the interface. This module itself neither opens devices
//! nor compiles for them.

use super::Interface;
#[cfg(feature = "cuda")]
use super::cuda::Cuda;
use super::discovered::Discovered;
#[cfg(any(feature = "cuda", feature = "hip"))]
use super::gpu;
#[cfg(feature = "hip")]
use super::hip::Hip;
#[cfg(feature = "opencl")]
use super::opencl;

/// Identifies an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterfaceId {
    Cuda,
    Hip,
    OpenCl,
}

impl InterfaceId {
    pub(super) const ALL: [Self; 3] = [Self::Cuda, Self::Hip, Self::OpenCl];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
            Self::OpenCl => "OpenCL",
        }
    }

    /// Returns the message that a build without the interface's feature gives instead of a list of devices.
    pub(super) fn lacking(self) -> String {
        let feature = match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::OpenCl => "opencl",
        };
        format!("this build lacks it; try thalweg's feature `{feature}`")
    }

    /// Returns the interface's devices.
    ///
    /// # Errors
    /// Returns the reason why there are no devices.
    pub(super) fn find(self) -> Result<Vec<&'static dyn Discovered>, String> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => all(gpu::find::<Cuda>()),
            #[cfg(feature = "hip")]
            Self::Hip => all(gpu::find::<Hip>()),
            #[cfg(feature = "opencl")]
            Self::OpenCl => all(opencl::find()),
            #[allow(unreachable_patterns, reason = "a build may have all interfaces")]
            absent => Err(absent.lacking()),
        }
    }

    /// Describes the interface and its devices for display.
    pub(super) fn survey(self) -> Interface {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => gpu::survey::<Cuda>(),
            #[cfg(feature = "hip")]
            Self::Hip => gpu::survey::<Hip>(),
            #[cfg(feature = "opencl")]
            Self::OpenCl => opencl::survey(),
            #[allow(unreachable_patterns, reason = "a build may have all interfaces")]
            absent => {
                Interface { name: absent.name(), version: None, absent: Some(absent.lacking()), devices: Vec::new() }
            }
        }
    }
}

/// Returns the interfaces that Thalweg knows, with their devices.
///
/// ```
/// for interface in thalweg::devices::interfaces() {
///     match &interface.absent {
///         Some(why) => println!("no {}: {why}", interface.name),
///         None => println!("{}: {} devices", interface.name, interface.devices.len()),
///     }
/// }
/// ```
pub fn interfaces() -> Vec<Interface> {
    InterfaceId::ALL.map(InterfaceId::survey).into()
}

#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
fn all<D: Discovered>(found: Result<&'static [D], &'static str>) -> Result<Vec<&'static dyn Discovered>, String> {
    let found = found.map_err(str::to_owned)?;
    Ok(found.iter().map(|device| device as &dyn Discovered).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_missing_in_build_names_its_feature() {
        let has = [cfg!(feature = "cuda"), cfg!(feature = "hip"), cfg!(feature = "opencl")];
        for (interface, has) in InterfaceId::ALL.into_iter().zip(has) {
            let lacking = interface.lacking();
            let survey = interface.survey();
            assert_eq!(survey.name, interface.name());
            assert_eq!(survey.absent == Some(lacking.clone()), !has, "{survey:?}");
            assert_eq!(interface.find().err() == Some(lacking), !has);
        }
    }
}
