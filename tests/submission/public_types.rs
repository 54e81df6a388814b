//! Traits of the public types: which types are `Send` and `Sync`, and that errors implement `Error`.

use crate::common::runtime;
use std::error::Error;
use std::sync::Arc;
use thalweg::error::{BuildError, DeviceError, FailureReason, Failures, RunError, SubmitError, TakeError, TaskFailure};
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Program, Read, Scratch};
use thalweg::memory::{AnyOrder, Complex, Elementwise, ReadOnly, Shared};
use thalweg::prelude::*;
use thalweg::region::Block;
use thalweg::task::{After, Borrowed, BorrowedMut, Commutative, Concurrent, Inout, Input, Output, Reducing};
use thalweg::{Builder, Reading, ResultFuture, Scope, Statistics, TaskBuilder, TaskGraph, TaskGroup};

/// Asserts that bodies may capture the type, and that concurrent bodies may share it.
fn is_shared<T: Send + Sync>() {}
fn is_sent<T: Send>() {}
fn is_error<T: Error + Send + Sync + 'static>() {}

#[test]
fn public_types_are_send_and_shared_types_are_sync() {
    is_shared::<Runtime>();
    is_shared::<Data<f64>>();
    is_shared::<Data<[u8; 3], Ix4>>();
    is_shared::<Region<'_, f64, Ix2>>();
    is_shared::<(Value<String>, Token, Pending<String>, TaskHandle)>();
    is_shared::<(TaskGroup, Scope<'_, '_>, BorrowedMut<'_, f64>, Borrowed<'_, f64, Ix2>)>();
    is_shared::<(Lent<[f64]>, LentValue<String>, LentValue<String, ReadOnly>, Completion)>();
    is_sent::<(ResultFuture<String>, Reading<f64, Ix2>)>();
    is_shared::<IterationSpace>();
    is_shared::<Context>();
    is_shared::<(Input<'_, f64>, Output<'_, f64>, Inout<'_, f64, Ix3>, Commutative<'_, f64>, After<'_, f64>)>();
    is_shared::<(Concurrent<'_, u64>, Reducing<'_, f64, Ix1, Sum>)>();
    is_shared::<(Reduction<f64>, Sum, Min, Max, AnyOrder<Sum>, Elementwise<Min>, Complex<f64>)>();
    is_shared::<Shared<'_, usize>>();
    is_shared::<(Program, Kernel<(Read<f64>, i32)>)>();
    is_shared::<(Block, Statistics, TaskGraph, SimulatedMachine, EmulatedDevice)>();
    is_sent::<(DeviceView<'_, f64>, DeviceViewMut<'_, f64>, Scratch<'_, f64>)>();
    is_sent::<TaskBuilder<'_, (Input<'_, f64>,)>>();
}

#[test]
fn errors_implement_error_send_and_sync() {
    is_error::<BuildError>();
    is_error::<SubmitError>();
    is_error::<RunError>();
    is_error::<TakeError<Data<f64, Ix2>>>();
    is_error::<DeviceError>();
    is_error::<TaskFailure>();
    is_error::<thalweg::MachineFileError>();
    is_shared::<(Failures, FailureReason)>();
}

#[test]
fn source_of_a_failure_is_the_bodys_error() {
    let rt = runtime("1:CPU:1");
    let number = |text: &'static str| rt.task("parse", ()).cpu(move |_, ()| text.parse::<u8>().map(drop));
    let task = number("many").submit_handle().unwrap();
    assert!(task.wait().is_err());
    let failure: Arc<TaskFailure> = task.failure().unwrap();
    let source = failure.source().expect("an error was returned");
    assert_eq!(source.to_string(), "invalid digit found in string");
    assert!(source.is::<std::num::ParseIntError>());
    let panics = rt.task("panics", ()).cpu(|_, ()| panic!("no")).submit_handle().unwrap();
    assert!(panics.wait().is_err());
    assert!(panics.failure().unwrap().source().is_none());
}

#[test]
fn debug_of_builders_and_handles_names_their_contents() {
    let rt = runtime("1:CPU:1");
    let x = rt.scalar(1.0);
    let task = rt.task("double", (x.inout(),)).host(|_, (x,)| x[0] *= 2.0).priority(3);
    let words = format!("{task:?}");
    assert!(words.contains("\"double\"") && words.contains("\"CPU\"") && words.contains('3'), "{words}");
    let builder: Builder = Runtime::builder().compute_units("3:CPU:1").scheduler("eft");
    let words = format!("{builder:?}");
    assert!(words.contains("3:CPU:1") && words.contains("eft"), "{words}");
    let handle = task.submit_handle().unwrap();
    rt.wait().unwrap();
    let words = format!("{handle:?}");
    assert!(words.contains("\"double\"") && words.contains("is_finished: true"), "{words}");
}
