//! Texts that describe machines: a text that is accepted means the same after it was displayed and read again, and a
//! refused one has an error message.

use super::{owned, with_text};
use std::fmt::{Debug, Display};
use std::str::FromStr;
use thalweg::SimulatedMachine;
use thalweg::machine::{Places, UnitConfig};
use thalweg::prelude::*;

pub(crate) fn valid_units() -> Vec<Vec<u8>> {
    owned(&["4:CPU:4,2:EMU:1", "4x4+2", "1:CUDA:2, 1:HIP:1,1:OPENCL:1", "12x1", "1:cpu:1,1024:FPGA:1,1:GPU:1"])
}

pub(crate) fn units(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Some(config) = read_twice::<UnitConfig>(text) {
            assert!((1..=1024).contains(&config.num_units()) && config.num_devices() <= 1024, "{config}");
            assert!(!config.terms().is_empty());
        }
    });
}

pub(crate) fn valid_places() -> Vec<Vec<u8>> {
    owned(&["{0,1},{2,3}", "{0:4:2}", "{0,2}:4:8", "{1},5,7:3:-2", "{0:8,!3},!{5}", " { 4 : 2 } : 2 , 9 "])
}

pub(crate) fn places(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Some(places) = read_twice::<Places>(text) {
            let places = places.as_slice();
            assert!((1..=1024).contains(&places.len()));
            assert!(places.iter().all(|place| !place.is_empty() && place.len() <= 1024));
            assert!(places.iter().flatten().all(|core| *core < 1024));
        }
    });
}

/// Reads a text, and then the display of the value that was read.
fn read_twice<T: FromStr + Display + Debug + PartialEq>(text: &str) -> Option<T>
where
    T::Err: Display + Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            assert_eq!(value.to_string().parse().as_ref(), Ok(&value));
            Some(value)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

pub(crate) fn valid_machines() -> Vec<Vec<u8>> {
    let small = "
name = \"small\"
static_w = 1.5
[noise]
seed = 2
relative_deviation = 0.1
[units.CPU]
count = 4
bytes_per_s = 5e9
total_bytes_per_s = 1e10
[units.GPU]
count = 2
memory_bytes = 1_000_000
bytes_per_s = 6.5e9
launch_ns = 7.5
[[links]]
between = [\"host\", \"GPU\"]
latency_ns = 8.5
bytes_per_s = 9.5e9
[[tasks]]
name = \"double\"
cost = 10.5
time_ns.CPU = { 1 = 11.5, 4 = 3.5 }
time_ns.GPU = { 1 = 12.5 }
";
    owned(&[small, include_str!("../../../machines/dgx-like.toml"), include_str!("../../../machines/idgraf.toml")])
}

/// A machine that is accepted can be simulated, unless its units cannot be planned.
pub(crate) fn machines(bytes: &[u8]) {
    with_text(bytes, |text| {
        let machine = match text.parse::<SimulatedMachine>() {
            Ok(machine) => machine,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        let Ok(rt) = Runtime::builder().simulate(machine).scheduler("eft").build() else { return };
        let data = rt.data(vec![1.0; 8]);
        for name in ["double", "gemm", "other"] {
            // A task that no unit can run, or whose data no device can hold, is refused.
            let _ = rt.task(name, (data.inout(),)).cpu(|_, (_,)| {}).submit();
        }
        let _ = rt.wait();
        assert!(!rt.statistics().to_string().is_empty());
    });
}
