//! A kernel that writes to unmapped memory: the device is lost, and the rest of the machine keeps working.
//!
//! The GPU is then lost for the whole process, so the program runs in a separate process, which is this test's own
//! binary started with an environment variable. If kernels run on cores, such a write kills the process, so devices of
//! this kind are not tested. AMD's runtime also ends the process, by calling `abort` without notice, so there the test
//! only requires that the process ends.

use super::{kernels, runtime_of};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use thalweg::error::FailureReason;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// Environment variable that names the kind of device in the separate process.
const VARIABLE: &str = "THALWEG_CONFORMANCE_FAULT";

/// Signal that `abort` raises.
const SIGABRT: i32 = 6;

/// A kernel that writes far past the memory of any device.
const TEXT: &str =
    "KERNEL(64, 1, 1) far_away(INOUT(UINT64, y, 1)) { REGION(y); y[((UINT64)1 << 44) + GLOBAL_ID(0)] = 1; }";
#[allow(unsafe_code)]
// SAFETY: this test breaks the promise on purpose: the write is meant to fault, and it runs in a process that exists
// only for this test.
const PROGRAM: Program = unsafe { Program::new("fault.cl", TEXT) };
static FAR_AWAY: Kernel<(Write<u64>,)> = Kernel::new(&PROGRAM, "far_away");

/// Runs the program if this process was started for that purpose. Returns whether it was.
pub(crate) fn run_if_asked(kinds: &[UnitKind]) -> bool {
    let Ok(asked) = std::env::var(VARIABLE) else { return false };
    program(*kinds.iter().find(|kind| kind.keyword() == asked).expect("the variable names a kind of device"));
    true
}

pub(crate) fn faulting_kernel_loses_only_its_device(kind: UnitKind) {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).env(VARIABLE, kind.keyword()).output().unwrap();
    let aborted = kind == UnitKind::Hip && output.status.signal() == Some(SIGABRT);
    assert!(output.status.success() || aborted, "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

fn program(kind: UnitKind) {
    let rt = runtime_of(kind, 1, 1, u64::MAX);
    let (x, untouched) = (rt.data(vec![1u64; 20]), rt.data(vec![2u64; 20]));
    rt.task("faults", (x.inout(),)).gpu(|k, (mut x,)| k.launch(&FAR_AWAY, 64, (&mut x,))).submit().unwrap();
    let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
    assert_eq!(failures.len(), 1, "{failures}");
    assert!(matches!(failures[0].reason(), FailureReason::Device(DeviceError::Lost { .. })), "{}", failures[0]);
    assert!(matches!(rt.read(&x.all()), Err(RunError::Poisoned(_))));
    // Cores take over. Data that was only on the device is lost until it is overwritten; all other data remains
    // available.
    kernels::fill(&rt, x.all(), 4);
    for salt in 0..100 {
        kernels::mix(&rt, untouched.all(), x.all(), salt);
    }
    let mut expected = vec![4; 20];
    (0..100).for_each(|salt| kernels::mixed(&[2; 20], &mut expected, salt));
    assert_eq!(rt.take(x).unwrap(), expected);
    assert_eq!(rt.take(untouched).unwrap(), [2; 20]);
}
