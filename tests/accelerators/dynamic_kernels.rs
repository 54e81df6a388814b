//! Kernels whose text, parameters and arguments are known only at run time.

use crate::common::accelerated;
use thalweg::dynamic::{AnyArgument, AnyData, AnyDeviceView, AnyKernel, Dtype};
use thalweg::error::DeviceError;
use thalweg::kernel::{Launcher, SignatureError};
use thalweg::prelude::*;

/// Returns a kernel of the texts in `main.rs`.
fn kernel(name: &str) -> Result<AnyKernel, SignatureError> {
    // SAFETY: as for the constants in `main.rs`.
    unsafe { AnyKernel::new("accelerators.cl", crate::TEXT, name) }
}

fn bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[test]
fn kernels_from_text_update_regions() {
    let Some(builder) = accelerated("1:CPU:1,1:OPENCL:1") else { return };
    let rt = builder.build().unwrap();
    let (add, axpy) = (kernel("add_block").unwrap(), kernel("axpy").unwrap());
    let matrix = AnyData::zeros(&rt, Dtype::F64, &[4, 6]).unwrap();
    for (rows, columns, value) in [(0..4, 0..6, 1.0), (1..3, 2..5, 10.0)] {
        let body = move |launcher: &mut Launcher<'_>, views: Vec<AnyDeviceView<'_>>| {
            assert_eq!((views[0].ndim(), views[0].dtype(), views[0].is_writable()), (2, Dtype::F64, true));
            let ([rows, columns, ..], [stride, ..]) = (views[0].extents(), views[0].strides());
            let number = |n: usize| AnyArgument::I32(n as i32);
            let arguments = [
                AnyArgument::Region(&views[0]),
                number(rows),
                number(columns),
                number(stride),
                AnyArgument::F64(value),
            ];
            add.launch(launcher, [columns, rows], &arguments)
        };
        rt.task("add", vec![matrix.block(&[rows, columns]).inout()]).gpu(body).submit().unwrap();
    }
    let typed: Data<f64, Ix2> = matrix.typed().unwrap();
    let found = rt.take(typed).unwrap();
    for ((i, j), found) in found.indexed_iter() {
        let inside = (1..3).contains(&i) && (2..5).contains(&j);
        assert_eq!(*found, if inside { 11.0 } else { 1.0 }, "{i} {j}");
    }

    // A typed data object and its untyped handle are the same.
    let (x, y) = (rt.data(vec![1.0; 100]), rt.data(vec![2.0; 100]));
    let accesses = vec![AnyData::from(x).all().input(), AnyData::from(y.clone()).all().inout()];
    let body = move |launcher: &mut Launcher<'_>, views: Vec<AnyDeviceView<'_>>| {
        let [x, y] = [&views[0], &views[1]].map(AnyArgument::Region);
        axpy.launch(launcher, 100, &[AnyArgument::F64(3.0), x, y, AnyArgument::I32(100)])
    };
    rt.task("axpy", accesses).gpu(body).submit().unwrap();
    assert_eq!(rt.take(y).unwrap(), [5.0; 100]);
}

#[test]
fn wrong_arguments_of_kernels_from_text_are_refused() {
    assert_eq!(kernel("nothing").unwrap_err(), SignatureError::Missing);
    let Some(builder) = accelerated("1:OPENCL:1") else { return };
    let rt = builder.build().unwrap();
    let axpy = kernel("axpy").unwrap();
    let y = AnyData::zeros(&rt, Dtype::F64, &[100]).unwrap();
    let x = AnyData::zeros(&rt, Dtype::F32, &[100]).unwrap();
    type Pick = for<'v, 'a> fn(&'v [AnyDeviceView<'a>]) -> Vec<AnyArgument<'v, 'a>>;
    use AnyArgument::{F32, F64, I32, Region};
    // The task reads `x` and `y`, and may write `z`.
    let cases: [(Pick, &str); 6] = [
        (|v| vec![F64(1.0), Region(&v[1]), Region(&v[2])], "it has 4 parameters, and 3 are given"),
        (|v| vec![F32(1.0), Region(&v[1]), Region(&v[2]), I32(1)], "argument 1 (`a`) is a number of float32"),
        (|v| vec![F64(1.0), F64(1.0), Region(&v[2]), I32(1)], "argument 2 (`x`) is a number of float64"),
        (|v| vec![F64(1.0), Region(&v[0]), Region(&v[2]), I32(1)], "argument 2 (`x`) is a region of float32"),
        (|v| vec![F64(1.0), Region(&v[1]), Region(&v[1]), I32(1)], "a region that the task only reads"),
        (|v| vec![F64(1.0), Region(&v[1]), Region(&v[2]), Region(&v[1])], "argument 4 (`n`) is a region of float64"),
    ];
    for (pick, problem) in cases {
        let z = AnyData::zeros(&rt, Dtype::F64, &[100]).unwrap();
        let body = move |launcher: &mut Launcher<'_>, views: Vec<AnyDeviceView<'_>>| -> Result<(), DeviceError> {
            axpy.launch(launcher, 1, &pick(&views))
        };
        let accesses = vec![x.all().input(), y.all().input(), z.all().inout()];
        rt.task("refused", accesses).gpu(body).submit().unwrap();
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains("cannot launch kernel `axpy`") && error.contains(problem), "{error}");
    }
    assert_eq!(y.all().read(&rt).unwrap(), bytes(&[0.0; 100]));
}
