//! Exchange of arrays with other libraries through DLPack's C structures, as NumPy and others make them.

#![allow(unsafe_code)] // for C structures made by hand

use ndarray::{Array2, array, s};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::dlpack::{DlDataType, DlDevice, DlElement, DlManagedTensor, DlTensor, Tensor};
use thalweg::prelude::*;

/// The state that a producer keeps together with the structure it hands out. As in NumPy, both are freed together.
struct Producer {
    managed: DlManagedTensor,
    elements: Vec<f64>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    freed: Arc<AtomicUsize>,
}

unsafe extern "C" fn free(managed: *mut DlManagedTensor) {
    // SAFETY: `managed` was created by `produce` from a `Box`, and the deleter is called only once.
    let producer = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Producer>()) };
    producer.freed.fetch_add(1, Ordering::SeqCst);
}

/// Creates a tensor like those of another library: a part of a 6 x 5 matrix that begins at (1, 1) and has this shape
/// and these strides.
fn produce(shape: &[i64], strides: Option<&[i64]>, change: impl FnOnce(&mut DlTensor)) -> (Tensor, Arc<AtomicUsize>) {
    let freed = Arc::new(AtomicUsize::new(0));
    let mut producer = Box::new(Producer {
        managed: DlManagedTensor {
            dl_tensor: DlTensor {
                data: std::ptr::null_mut(),
                device: DlDevice { device_type: 1, device_id: 0 },
                ndim: shape.len() as i32,
                dtype: f64::DATA_TYPE,
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 6 * 8,
            },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(free),
        },
        elements: (0..30).map(f64::from).collect(),
        shape: shape.to_vec(),
        strides: strides.unwrap_or_default().to_vec(),
        freed: freed.clone(),
    });
    let producer_ref = &mut *producer;
    let tensor = &mut producer_ref.managed.dl_tensor;
    tensor.data = producer_ref.elements.as_mut_ptr().cast();
    tensor.shape = producer_ref.shape.as_mut_ptr();
    if strides.is_some() {
        tensor.strides = producer_ref.strides.as_mut_ptr();
    }
    change(tensor);
    let producer = Box::into_raw(producer);
    // SAFETY: the box was just turned into a raw pointer, so its contents stay at the same address until the deleter
    // runs.
    let tensor = unsafe {
        (*producer).managed.manager_ctx = producer.cast::<c_void>();
        Tensor::from_raw(&raw mut (*producer).managed)
    };
    (tensor, freed)
}

fn runtime(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).build().unwrap()
}

/// A part of a matrix, with gaps between its rows, is used in place.
#[test]
fn adopted_memory_is_used_in_place_and_freed_once() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        let rt = runtime(units);
        let (tensor, freed) = produce(&[4, 3], Some(&[5, 1]), |_| ());
        let x: Data<f64, Ix2> = rt.from_dlpack(tensor).unwrap();
        for row in 0..4 {
            rt.task("double", (x.block((row, ..)).inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit().unwrap();
        }
        let expected = Array2::from_shape_fn((4, 3), |(i, j)| 2.0 * (5 * (i + 1) + j + 1) as f64);
        assert_eq!(rt.read(&x).unwrap(), expected);
        assert_eq!(freed.load(Ordering::SeqCst), 0);
        assert_eq!(rt.take(x).unwrap(), expected);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
        // This array is dropped instead of taken.
        let (tensor, freed) = produce(&[4, 3], Some(&[5, 1]), |_| ());
        let x: Data<f64, Ix2> = rt.from_dlpack(tensor).unwrap();
        rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit().unwrap();
        drop(x);
        drop(rt);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
}

/// Page-locked memory, and memory that CUDA migrates automatically, can be used as host memory.
#[test]
fn memory_that_the_host_can_access_becomes_a_home() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        for device_type in [3, 11, 13] {
            let rt = runtime(units);
            let (tensor, freed) =
                produce(&[4, 3], Some(&[5, 1]), |t| t.device = DlDevice { device_type, device_id: 5 });
            let x: Data<f64, Ix2> = rt.from_dlpack(tensor).unwrap();
            assert_eq!(x.all().valid_in(), [SpaceId::HOST]);
            rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit().unwrap();
            assert_eq!(rt.take(x).unwrap()[[0, 0]], 12.0);
            assert_eq!(freed.load(Ordering::SeqCst), 1);
        }
    }
}

#[test]
fn arrays_go_through_dlpack_without_being_copied() {
    let rt = runtime("1:CPU:1");
    let array = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let address = array.as_ptr();
    let tensor = Tensor::of(array);
    assert_eq!((tensor.shape(), tensor.data_type().to_string().as_str()), (&[2, 3][..], "float32"));
    let raw = tensor.into_raw();
    // SAFETY: the tensor was just turned into a raw pointer, so it is valid. It is only inspected before ownership is
    // taken back.
    let tensor = unsafe {
        assert_eq!((*raw).dl_tensor.data.cast::<f32>().cast_const(), address);
        Tensor::from_raw(raw)
    };
    let x: Data<f32, Ix2> = rt.from_dlpack(tensor).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let see = seen.clone();
    let look = move |x: ndarray::ArrayView2<'_, f32>| see.store(x.as_ptr().addr(), Ordering::SeqCst);
    rt.task("look", (x.input(),)).cpu(move |_, (x,)| look(x)).submit().unwrap();
    rt.wait().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), address.addr());
    assert_eq!(rt.take(x).unwrap()[[1, 2]], 6.0);
    // Arrays that are not in row-major order are converted.
    let turned = Tensor::of(Array2::from_shape_fn((3, 2), |(i, j)| (10 * i + j) as i16).reversed_axes());
    assert_eq!(turned.shape(), [2, 3]);
    let x: Data<i16, Ix2> = rt.from_dlpack(turned).unwrap();
    assert_eq!(rt.take(x).unwrap(), array![[0, 10, 20], [1, 11, 21]]);
    let part = Array2::<u8>::zeros((4, 4)).slice_move(s![1..3, ..]);
    let x: Data<u8, Ix2> = rt.from_dlpack(Tensor::of(part)).unwrap();
    assert_eq!(rt.take(x).unwrap(), Array2::<u8>::zeros((2, 4)));
}

#[test]
fn empty_arrays_and_many_tensors_can_be_adopted() {
    let rt = runtime("1:CPU:1");
    for shape in [&[0i64, 5][..], &[5, 0], &[0, 0]] {
        let (tensor, freed) = produce(shape, None, |tensor| tensor.data = std::ptr::null_mut());
        let x: Data<f64, Ix2> = rt.from_dlpack(tensor).unwrap();
        assert!(rt.take(x).unwrap().is_empty());
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
    let all: Vec<Data<u64>> =
        (0..100u64).map(|n| rt.from_dlpack(Tensor::of(ndarray::Array1::from(vec![n; 10]))).unwrap()).collect();
    for (n, x) in (0..).zip(all) {
        assert_eq!(rt.take(x).unwrap(), [n; 10]);
    }
}

#[test]
fn unsuitable_tensor_is_refused_and_returned() {
    let rt = runtime("1:CPU:1");
    let refused = |shape: &[i64], strides: Option<&[i64]>, change: fn(&mut DlTensor), words: [&str; 2]| {
        let (tensor, freed) = produce(shape, strides, change);
        let error = rt.from_dlpack::<f64, Ix2>(tensor).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|words| text.contains(words)), "{text}");
        assert_eq!(freed.load(Ordering::SeqCst), 0, "the error still owns the tensor");
        drop(error.into_tensor());
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    };
    let cuda: fn(&mut DlTensor) = |t| t.device = DlDevice { device_type: 2, device_id: 3 };
    refused(&[4, 3], None, cuda, ["memory of CUDA device 3", "the runtime's units have no device"]);
    refused(&[4, 3], None, |t| t.device.device_type = 10, ["memory of ROCm device 0", "host memory"]);
    refused(&[4, 3], None, |t| t.device.device_type = 4, ["memory of OpenCL device 0", "host memory"]);
    let floats: fn(&mut DlTensor) = |t| t.dtype = DlDataType { code: 2, bits: 32, lanes: 1 };
    refused(&[4, 3], None, floats, ["float32", "float64"]);
    refused(&[4, 3], None, |t| t.dtype.code = 0, ["int64", "float64"]);
    refused(&[4, 3], None, |t| t.dtype.lanes = 2, ["float64x2", "float64"]);
    refused(&[4], None, |_| (), ["1 dimensions", "2"]);
    refused(&[4, 3, 1], None, |_| (), ["3 dimensions", "2"]);
    refused(&[], None, |_| (), ["0 dimensions", "2"]);
    refused(&[4, -3], None, |_| (), ["[4, -3]", "no array"]);
    refused(&[i64::MAX, 3], None, |_| (), ["no array in memory", "cannot adopt"]);
    refused(&[4, 3], Some(&[1, 4]), |_| (), ["row-major", "[1, 4]"]);
    refused(&[4, 3], Some(&[0, 1]), |_| (), ["row-major", "[0, 1]"]);
    refused(&[4, 3], Some(&[-5, 1]), |_| (), ["row-major", "[-5, 1]"]);
    refused(&[4, 3], None, |t| t.byte_offset = 3, ["aligned", "8 bytes"]);
    let nowhere: fn(&mut DlTensor) = |t| (t.data, t.byte_offset) = (std::ptr::null_mut(), 0);
    refused(&[4, 3], None, nowhere, ["no address", "elements"]);
}

/// The same memory cannot belong to two data objects, because neither would know of the other's tasks.
#[test]
fn memory_that_is_already_adopted_is_refused() {
    let rt = runtime("1:CPU:1");
    let (one, _) = produce(&[4, 3], Some(&[5, 1]), |_| ());
    let raw = one.into_raw();
    let again = |first: u64| {
        // SAFETY: the second tensor for the same memory frees nothing, and no task ever accesses it, so the copy cannot
        // cause a double free or a race.
        let tensor = unsafe { std::ptr::read(&raw const (*raw).dl_tensor) };
        let tensor = DlTensor { byte_offset: first * 8, ..tensor };
        // SAFETY: the second tensor frees nothing, and no task ever accesses it. The structure itself is leaked, so it
        // stays valid.
        unsafe {
            Tensor::from_raw(Box::leak(Box::new(DlManagedTensor {
                dl_tensor: tensor,
                manager_ctx: std::ptr::null_mut(),
                deleter: None,
            })))
        }
    };
    // SAFETY: the tensor was just turned into `raw`, and ownership is taken back once.
    let x: Data<f64, Ix2> = rt.from_dlpack(unsafe { Tensor::from_raw(raw) }).unwrap();
    for first in [6, 7, 12, 23] {
        let error = runtime("1:CPU:1").from_dlpack::<f64, Ix2>(again(first)).unwrap_err().to_string();
        assert!(error.contains("overlaps that of data object 0"), "{error}");
    }
    drop(rt.take(x).unwrap());
}
