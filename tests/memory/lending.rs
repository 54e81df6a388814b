//! Regions exported to other libraries as tensors: on cores, and on an emulated device, whose memory the host can
//! access.

#![allow(unsafe_code)] // for accesses to exported memory in place

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, array};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::dlpack::{DlDevice, DlManagedTensor, Tensor};
use thalweg::prelude::*;

/// An exported tensor as seen by its consumer.
struct Lent(*mut DlManagedTensor);

impl Lent {
    fn new(tensor: Tensor) -> Self {
        assert_eq!(tensor.device(), DlDevice { device_type: 1, device_id: 0 });
        Self(tensor.into_raw())
    }

    fn shape(&self) -> (ndarray::StrideShape<ndarray::Ix2>, *mut f64) {
        // SAFETY: the tensor has one extent and one stride per dimension, and is not freed in the meantime.
        unsafe {
            let tensor = &(*self.0).dl_tensor;
            assert_eq!(tensor.ndim, 2);
            let list = |list: *mut i64| (*list as usize, *list.add(1) as usize);
            (list(tensor.shape).strides(list(tensor.strides)), tensor.data.cast())
        }
    }

    fn view(&self) -> ArrayView2<'_, f64> {
        let (shape, first) = self.shape();
        // SAFETY: while the tensor is exported, its memory stays allocated and nothing writes to it.
        unsafe { ArrayView2::from_shape_ptr(shape, first) }
    }

    fn view_mut(&mut self) -> ArrayViewMut2<'_, f64> {
        let (shape, first) = self.shape();
        // SAFETY: the tensor was exported for writing, so nothing else accesses it.
        unsafe { ArrayViewMut2::from_shape_ptr(shape, first) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: this value owns the tensor, so the deleter is called exactly once.
        unsafe { (*self.0).deleter.unwrap()(self.0) }
    }
}

/// Returns runtimes and the memory they export from: on the fast path, in host memory next to a device, and on a
/// device.
fn runtimes() -> Vec<(Runtime, SpaceId)> {
    let of = |units: &str, space| (Runtime::builder().compute_units(units).build().unwrap(), SpaceId(space));
    vec![of("2:CPU:1", 0), of("1:CPU:1,1:EMU:1", 0), of("1:CPU:1,1:EMU:1", 1), of("1:EMU:1", 1)]
}

fn double(rt: &Runtime, x: &Data<f64, Ix2>) {
    rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit().unwrap();
}

#[test]
fn exported_region_is_valid_and_stays_unchanged() {
    for (rt, space) in runtimes() {
        let x = rt.array(array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        double(&rt, &x);
        let lent = Lent::new(rt.to_dlpack(x.block((.., 1..)).input(), space).unwrap());
        assert!(x.block((.., 1..)).valid_in().contains(&space));
        let again = Lent::new(rt.to_dlpack(x.block((.., ..1)).input(), space).unwrap());
        double(&rt, &x);
        assert!(!rt.wait_timeout(Duration::from_millis(20)).unwrap(), "a writer must wait for the tensor");
        assert_eq!(lent.view(), array![[4.0, 6.0], [10.0, 12.0]]);
        drop(lent);
        drop(again);
        assert_eq!(rt.take(x).unwrap(), array![[4.0, 8.0, 12.0], [16.0, 20.0, 24.0]]);
    }
}

#[test]
fn writes_through_an_exported_tensor_are_kept() {
    for (rt, space) in runtimes() {
        let x = rt.array(array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        for _ in 0..3 {
            let mut lent = Lent::new(rt.to_dlpack(x.block((1.., ..)).inout(), space).unwrap());
            lent.view_mut().fill(0.5);
            drop(lent);
            double(&rt, &x);
        }
        assert_eq!(rt.take(x).unwrap(), array![[8.0, 16.0, 24.0], [1.0, 1.0, 1.0]]);
    }
}

/// The exported memory stays valid, regardless of what is dropped.
#[test]
fn exported_tensor_outlives_its_runtime() {
    for (rt, space) in runtimes() {
        let (x, y) = (rt.array(array![[1.0, 2.0]]), rt.array(array![[3.0, 4.0]]));
        double(&rt, &x);
        let lent = [&x, &y].map(|x| Lent::new(rt.to_dlpack(x.input(), space).unwrap()));
        drop(x); // one data object is dropped before the runtime, the other after it
        drop(rt);
        drop(y);
        assert_eq!(lent[0].view(), array![[2.0, 4.0]]);
        assert_eq!(lent[1].view(), array![[3.0, 4.0]]);
        std::thread::spawn({
            let lent = lent.map(|lent| {
                let at = lent.0.expose_provenance();
                std::mem::forget(lent);
                at
            });
            move || lent.map(|at| drop(Lent(std::ptr::with_exposed_provenance_mut(at))))
        })
        .join()
        .unwrap();
    }
}

#[test]
fn take_waits_for_an_exported_tensor() {
    for (rt, space) in runtimes() {
        let x = rt.array(array![[1.0, 2.0]]);
        let lent = rt.to_dlpack(x.input(), space).unwrap();
        let (send, heard) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| send.send(rt.take(x).unwrap()).unwrap());
            assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
            drop(lent);
            assert_eq!(heard.recv().unwrap(), array![[1.0, 2.0]]);
        });
    }
}

/// Another runtime uses an array of the first runtime for a while.
#[test]
fn runtimes_may_exchange_arrays() {
    for (rt, space) in runtimes() {
        let other = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
        let x = rt.array(array![[1.0, 2.0], [3.0, 4.0]]);
        for _ in 0..4 {
            let y: Data<f64, Ix2> =
                other.from_dlpack(rt.to_dlpack(x.block((.., 1..)).inout(), space).unwrap()).unwrap();
            double(&other, &y);
            double(&rt, &x);
        }
        assert_eq!(rt.take(x).unwrap(), array![[16.0, 512.0], [48.0, 1024.0]]);
        // Within the same runtime, the array becomes a second data object, and tasks on the first data object wait
        // until it is returned.
        let x = rt.array(array![[1.0, 2.0]]);
        let y: Data<f64, Ix2> = rt.from_dlpack(rt.to_dlpack(x.inout(), SpaceId::HOST).unwrap()).unwrap();
        double(&rt, &x);
        double(&rt, &y);
        rt.fetch(&y, SpaceId::HOST).unwrap(); // the memory in which it was adopted
        drop(y);
        assert_eq!(rt.take(x).unwrap(), array![[4.0, 8.0]]);
    }
}

#[test]
fn region_that_cannot_be_exported_is_refused() {
    for (rt, space) in runtimes() {
        let x: Data<f64> = rt.zeros(10);
        let refused = |result: Result<Tensor, RunError>, words: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(rt.to_dlpack(x.input(), SpaceId(7)), "address spaces");
        refused(rt.to_dlpack(x.slice(5..11).input(), space), "out of bounds");
        let other = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
        refused(other.to_dlpack(x.input(), SpaceId::HOST), "another runtime");
        let empty = rt.to_dlpack(x.slice(3..3).inout(), space).unwrap();
        assert_eq!(empty.shape(), [0]);
        drop(empty);
        let error = rt.from_dlpack::<f64, Ix1>(rt.to_dlpack(x.input(), space).unwrap()).unwrap_err().to_string();
        assert!(error.contains("exported read-only"), "{error}");
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        refused(rt.to_dlpack(x.input(), space), "no");
        refused(rt.to_dlpack(x.inout(), space), "no");
        assert!(rt.wait().is_err());
        rt.clear(&x).unwrap();
        drop(rt.to_dlpack(x.input(), space).unwrap());
        // Exports do not count as tasks.
        assert!(rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum::<u64>() <= 1);
    }
}

/// A body may export regions that its task does not hold.
#[test]
fn body_may_export_regions_its_task_does_not_hold() {
    for (rt, _) in runtimes().into_iter().take(2) {
        let rt = std::sync::Arc::new(rt);
        let (x, y) = (rt.array(array![[1.0, 2.0]]), rt.array(array![[3.0, 4.0]]));
        double(&rt, &x);
        let (this, lent, held) = (rt.clone(), x.clone(), y.clone());
        rt.task("lends", (y.inout(),))
            .host(move |_, (mut y,)| {
                let error = this.to_dlpack(held.input(), SpaceId::HOST).unwrap_err().to_string();
                assert!(error.contains("to_dlpack"), "{error}");
                y += &Lent::new(this.to_dlpack(lent.input(), SpaceId::HOST).unwrap()).view();
            })
            .submit()
            .unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.read(&y).unwrap(), array![[5.0, 8.0]]);
    }
}
