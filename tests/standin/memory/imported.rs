//! Memory that the runtime imports from another library.

use super::foreign::{address, foreign, vector};
use super::{SPACE, elements_at, is_cuda};
use crate::drivers::sanitizes;
use crate::programs::{self, kind, next, nexts, runtime, with_units};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::dlpack::{DlTensor, Tensor};
use thalweg::ids::{DeviceId, SpaceId};
use thalweg::prelude::*;

/// Number of elements in the imported array.
pub const ADOPTED: usize = 5000;

/// Kernels use the array in place, so nothing is copied to the device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn adopted() {
    let elements: Vec<u64> = (0..ADOPTED as u64).collect();
    let (tensor, freed) = vector(&elements);
    let rt = runtime();
    let x: Data<u64> = rt.from_dlpack(tensor).unwrap();
    assert_eq!(x.all().valid_in(), [SPACE]);
    (0..20).for_each(|salt| next(&rt, &x, salt));
    rt.wait().unwrap();
    assert_eq!((x.all().valid_in(), x.home_bytes()), (vec![SPACE], 0));
    let expected: Vec<u64> = elements.iter().map(|n| nexts(*n, 0..20)).collect();
    assert_eq!(rt.read(x.slice(100..120)).unwrap(), expected[100..120]);
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    assert_eq!(rt.take(x).unwrap(), expected);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    // The following arrays are dropped without being taken or used, or are empty.
    let (tensor, freed) = vector(&elements);
    drop(rt.from_dlpack::<u64, Ix1>(tensor).unwrap());
    rt.wait().unwrap();
    let (empty, freed_empty) = vector(&[]);
    let empty: Data<u64> = rt.from_dlpack(empty).unwrap();
    rt.task("touch", (empty.inout(),)).gpu(|_, _| ()).submit().unwrap();
    assert!(rt.take(empty).unwrap().is_empty());
    drop(rt);
    assert_eq!((freed.load(Ordering::SeqCst), freed_empty.load(Ordering::SeqCst)), (1, 1));
}

/// Rows with gaps between them. The contents of the gaps must not change.
#[test]
#[ignore = "run on a stand-in by another test"]
fn adopted_with_gaps() {
    let elements: Vec<u64> = (0..60).collect();
    let (tensor, freed) = foreign(0, &elements, &[4, 7], &[10, 1], |tensor| tensor.byte_offset = 8 * 12);
    let (tensor, first) = address(tensor);
    let rt = runtime();
    let x: Data<u64, Ix2> = rt.from_dlpack(tensor).unwrap();
    for (row, salt) in [(0, 5), (2, 6)] {
        rt.task("next", (x.block((row, 1..6)).inout(),))
            .gpu(move |k, (mut y,)| {
                assert!(sanitizes() || y.strides()[..2] == [10, 1], "{:?}", y.strides());
                k.launch(&programs::NEXT, 5, (&mut y, salt, 5))
            })
            .submit()
            .unwrap();
    }
    rt.task("half", (x.block((3, ..)).inout(),)).cpu(|_, (mut x,)| x.fill(1)).submit().unwrap();
    let mut expected: Vec<u64> = elements;
    expected[13..18].iter_mut().for_each(|x| *x = nexts(*x, 5..6));
    expected[33..38].iter_mut().for_each(|x| *x = nexts(*x, 6..7));
    rt.fetch(&x, SPACE).unwrap();
    expected[42..49].fill(1);
    assert_eq!(elements_at(0, first, 60), expected);
    let taken = rt.take(x).unwrap();
    for (i, row) in taken.rows().into_iter().enumerate() {
        assert_eq!(row.to_vec(), expected[12 + 10 * i..19 + 10 * i]);
    }
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

/// Imports more memory than the runtime's capacity: imported memory does not count against the capacity and is never
/// evicted.
#[test]
#[ignore = "run on a stand-in by another test"]
fn adopted_and_evicted() {
    let elements = vec![3u64; 5000];
    let (tensor, freed) = vector(&elements);
    let rt = runtime();
    assert!(rt.machine().capacity_bytes(SPACE) < 40_000, "{}", rt.machine().capacity_bytes(SPACE));
    let (x, y): (Data<u64>, Vec<_>) =
        (rt.from_dlpack(tensor).unwrap(), (0..6).map(|n| rt.data(vec![n; 900])).collect());
    for salt in 0..10 {
        for y in &y {
            next(&rt, y, salt);
            rt.task("both", (x.inout(), y.input()))
                .gpu(move |k, (mut x, _)| {
                    let n = x.len();
                    k.launch(&programs::NEXT, n, (&mut x, salt, n as i32))
                })
                .submit()
                .unwrap();
        }
        next(&rt, &x, salt);
    }
    rt.wait().unwrap();
    assert!(rt.statistics().evictions > 10);
    assert_eq!((x.all().valid_in(), x.home_bytes()), (vec![SPACE], 0));
    for (n, y) in (0..).zip(y) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..10); 900]);
    }
    let mut expected = 3;
    for salt in 0..10 {
        (0..7).for_each(|_| expected = nexts(expected, salt..salt + 1));
    }
    assert_eq!(rt.take(x).unwrap(), [expected; 5000]);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

/// An imported array on the second of two devices, which both devices and a core use.
#[test]
#[ignore = "run on a stand-in by another test"]
fn adopted_beside_others() {
    let (tensor, freed) = foreign(1, &[7; 600], &[600], &[1], |_| ());
    let (tensor, first) = address(tensor);
    let rt = with_units(&format!("2:{0}:1,1:CPU:1", kind()));
    let x: Data<u64> = rt.from_dlpack(tensor).unwrap();
    assert_eq!(x.all().valid_in(), [SpaceId(2)]);
    for round in 0..6 {
        for device in [0, 1, 1] {
            rt.task("next", (x.slice(100 * round..).inout(),))
                .gpu(move |k, (mut y,)| {
                    let n = y.len();
                    k.launch(&programs::NEXT, n, (&mut y, device, n as i32))
                })
                .on_device(DeviceId(device as u16))
                .submit()
                .unwrap();
        }
        rt.task("add", (x.slice(..50).inout(),)).host(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
    }
    let mut expected = vec![7u64; 600];
    for round in 0..6 {
        for salt in [0, 1, 1] {
            expected[100 * round..].iter_mut().for_each(|x| *x = nexts(*x, salt..salt + 1));
        }
        expected[..50].iter_mut().for_each(|x| *x += 1);
    }
    rt.fetch(&x, SpaceId(2)).unwrap();
    assert_eq!(elements_at(1, first, 600), expected);
    assert_eq!(rt.take(x).unwrap(), expected);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

/// A tensor that cannot serve as a replica is refused and returned.
#[test]
#[ignore = "run on a stand-in by another test"]
fn refused() {
    let rt = runtime();
    let refused = |tensor: (Tensor, Arc<AtomicUsize>), words: &[&str]| {
        let (tensor, freed) = tensor;
        let error = rt.from_dlpack::<u64, Ix1>(tensor).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|words| text.contains(words)), "{text}");
        assert_eq!(freed.load(Ordering::SeqCst), 0);
        drop(error.into_tensor());
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    };
    let of = |change: fn(&mut DlTensor)| foreign(0, &[1, 2, 3, 4], &[4], &[1], change);
    let (this, other) = if is_cuda() { ("CUDA", "ROCm") } else { ("ROCm", "CUDA") };
    // The second device exists, but the runtime does not use it.
    let second = foreign(1, &[1, 2], &[2], &[1], |_| ());
    refused(second, &[&format!("{this} device 1"), &format!("have only {this} devices 0")]);
    refused(of(|t| t.device.device_type = 12 - t.device.device_type), &[other, &format!("have no {other} device")]);
    refused(of(|t| t.device.device_type = 4), &["OpenCL device 0", "a context"]);
    refused(of(|t| t.device.device_type = 9), &["DLPack's type 9", "have no such device"]);
    // The tensor names a device that does not have its memory.
    refused(foreign(1, &[1, 2], &[2], &[1], |t| t.device.device_id = 0), &["has no such memory", "freed"]);
    // The end of the tensor is in other memory or in unmapped memory. SAFETY: `t.shape` points to one extent.
    refused(of(|t| unsafe { *t.shape = 4000 }), &["has no such memory", "32000 bytes"]);
    refused(of(|t| t.dtype.code = 2), &["float64", "uint64"]);
    // SAFETY: `t.strides` points to one stride.
    refused(of(|t| unsafe { *t.strides = 2 }), &["strides"]);
    // A tensor that was exported for reading, and memory that another data object has imported.
    let (tensor, freed) = vector(&[1, 2, 3]);
    let x: Data<u64> = rt.from_dlpack(tensor).unwrap();
    let error = rt.from_dlpack::<u64, Ix1>(rt.to_dlpack(x.input(), SPACE).unwrap()).unwrap_err().to_string();
    assert!(error.contains("exported read-only") && error.contains("`inout`"), "{error}");
    let error = rt.from_dlpack::<u64, Ix1>(rt.to_dlpack(x.inout(), SPACE).unwrap()).unwrap_err().to_string();
    assert!(error.contains("overlaps that of data object"), "{error}");
    assert_eq!(rt.take(x).unwrap(), [1, 2, 3]);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    let none = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let (tensor, _) = vector(&[1, 2, 3]);
    let error = none.from_dlpack::<u64, Ix1>(tensor).unwrap_err().to_string();
    assert!(error.contains("have no device") && error.contains("a unit for that device"), "{error}");
}

/// A device is lost while the runtime has imported memory on it, and while other libraries use memory exported from it.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lost() {
    let (tensor, freed) = vector(&[1; 100]);
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let adopted: Data<u64> = rt.from_dlpack(tensor).unwrap();
    let (x, y) = (rt.data(vec![5u64; 100]), rt.data(vec![6u64; 100]));
    let lent = rt.to_dlpack(x.input(), SPACE);
    (0..200).for_each(|salt| next(&rt, &adopted, salt));
    assert!(rt.wait().is_err());
    let failed = rt.take(adopted).unwrap_err();
    assert!(matches!(failed.error(), RunError::Poisoned(_)), "{failed}");
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    let late = foreign_on_a_lost_device();
    let error = rt.from_dlpack::<u64, Ix1>(late).unwrap_err().to_string();
    assert!(error.contains("lost") || error.contains("error"), "{error}");
    // Once cleared, the array behaves like any other.
    let adopted = failed.into_data();
    rt.task("fill", (adopted.output(),)).cpu(|_, (x,)| x.fill(9)).submit().unwrap();
    assert_eq!(rt.take(adopted).unwrap(), [9; 100]);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    assert!(rt.to_dlpack(y.input(), SPACE).is_err());
    drop(lent);
    assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (vec![5; 100], vec![6; 100]));
}

/// Returns a tensor on a lost device, where nothing can be allocated any more.
fn foreign_on_a_lost_device() -> Tensor {
    let (tensor, _) = foreign(0, &[], &[0], &[1], |_| ());
    let raw = tensor.into_raw();
    // SAFETY: the tensor was just turned into a raw pointer, so its structure is valid. The memory address in it is
    // never dereferenced.
    unsafe {
        ((*raw).dl_tensor.data, *(*raw).dl_tensor.shape) = (ptr::with_exposed_provenance_mut(4096), 4);
        Tensor::from_raw(raw)
    }
}
