//! Programs that exchange device memory with other libraries: they import it and export it using the interface's own
//! calls, as CuPy does.

use super::drivers::sanitizes;
use super::programs::{kind, next, nexts, runtime, with_units};
use super::raw::function;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg::dlpack::{DlDevice, DlElement, DlManagedTensor, DlTensor, Tensor};
use thalweg::ids::{DeviceId, SpaceId};
use thalweg::prelude::*;

/// Memory of the first device.
const SPACE: SpaceId = SpaceId(1);

fn is_cuda() -> bool {
    kind() == "CUDA"
}

/// Calls a function of the interface and asserts that it succeeds. The arguments are numbers or addresses.
macro_rules! call {
    (@ $argument:expr) => { usize };
    ($name:expr, $($argument:expr),*) => {{
        // SAFETY: callers pass the arguments that the interface's manual specifies. Each argument is passed in a
        // register of its own, so the function type matches.
        let call: extern "C" fn($(call!(@ $argument)),*) -> i32 = unsafe { std::mem::transmute(function($name)) };
        assert_eq!(call($($argument),*), 0, "{}", $name);
    }};
}

fn named<'a>(cuda: &'a str, hip: &'a str) -> &'a str {
    if is_cuda() { cuda } else { hip }
}

/// Binds this thread to a device, as a user of the interface would.
fn bind(device: i32) {
    if !is_cuda() {
        return call!("hipSetDevice", device as usize);
    }
    let mut context = 0usize;
    call!("cuDevicePrimaryCtxRetain", ptr::from_mut(&mut context).addr(), device as usize);
    call!("cuCtxSetCurrent", context);
    call!("cuDevicePrimaryCtxRelease_v2", device as usize);
}

/// Page-locked memory, which makes copies asynchronous.
struct Locked(*mut u64, usize);

impl Locked {
    fn new(elements: &[u64]) -> Self {
        let mut first: *mut u64 = ptr::null_mut();
        let place = ptr::from_mut(&mut first).expose_provenance();
        call!(named("cuMemHostAlloc", "hipHostMalloc"), place, (8 * elements.len()).max(8), 0);
        // SAFETY: the memory was just allocated with this size, so the copy is in bounds.
        unsafe { ptr::copy_nonoverlapping(elements.as_ptr(), first, elements.len()) };
        Self(first, elements.len())
    }

    fn elements(&self) -> Vec<u64> {
        // SAFETY: the memory has `self.1` elements, and all enqueued copies have ended, so nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }.to_vec()
    }

    fn free(self) {
        call!(named("cuMemFreeHost", "hipHostFree"), self.0.expose_provenance());
    }
}

/// Enqueues a copy on the default stream.
fn enqueue(to: usize, from: usize, bytes: usize, is_in: bool) {
    match (is_cuda(), is_in) {
        (true, true) => call!("cuMemcpyHtoDAsync_v2", to, from, bytes, 0),
        (true, false) => call!("cuMemcpyDtoHAsync_v2", to, from, bytes, 0),
        (false, _) => call!("hipMemcpyAsync", to, from, bytes, if is_in { 1 } else { 2 }, 0),
    }
}

fn synchronizing() -> &'static str {
    named("cuStreamSynchronize", "hipStreamSynchronize")
}

/// Copies elements from device memory to the host on the default stream, and returns them.
fn elements_at(device: i32, address: usize, len: usize) -> Vec<u64> {
    bind(device);
    let locked = Locked::new(&vec![0; len]);
    enqueue(locked.0.expose_provenance(), address, 8 * len, false);
    call!(synchronizing(), 0);
    let elements = locked.elements();
    locked.free();
    elements
}

/// An array like those of CuPy: it is on a device, and the work on the default stream that writes it may still be in
/// progress.
struct Foreign {
    managed: DlManagedTensor,
    address: usize,
    device: i32,
    written: Option<Locked>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    freed: Arc<AtomicUsize>,
}

unsafe extern "C" fn free(managed: *mut DlManagedTensor) {
    // SAFETY: `managed` was created by `foreign` from a `Box`, and the deleter is called only once.
    let mut array = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    array.freed.fetch_add(1, Ordering::SeqCst);
    if array.address != 0 {
        bind(array.device);
        // SAFETY: the type is the one in the manuals of both interfaces. If the device is lost, nothing is in flight
        // either.
        let wait: extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(function(synchronizing())) };
        wait(0);
        call!(named("cuMemFree_v2", "hipFree"), array.address);
        array.written.take().into_iter().for_each(Locked::free);
    }
}

fn dlpack(device: i32) -> DlDevice {
    DlDevice { device_type: if is_cuda() { 2 } else { 10 }, device_id: device }
}

/// Returns a tensor for some of these elements on a device, and a counter of how often the tensor was freed.
fn foreign(
    device: i32,
    elements: &[u64],
    shape: &[usize],
    strides: &[usize],
    change: impl FnOnce(&mut DlTensor),
) -> (Tensor, Arc<AtomicUsize>) {
    let (mut address, mut written) = (0usize, None);
    if !elements.is_empty() {
        bind(device);
        call!(named("cuMemAlloc_v2", "hipMalloc"), ptr::from_mut(&mut address).addr(), 8 * elements.len());
        let locked = Locked::new(elements);
        enqueue(address, locked.0.expose_provenance(), 8 * elements.len(), true);
        written = Some(locked);
    }
    let list = |list: &[usize]| list.iter().map(|n| *n as i64).collect::<Vec<_>>();
    let freed = Arc::new(AtomicUsize::new(0));
    let tensor = DlTensor {
        data: ptr::with_exposed_provenance_mut(address),
        device: dlpack(device),
        ndim: shape.len() as i32,
        dtype: u64::DATA_TYPE,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DlManagedTensor { dl_tensor: tensor, manager_ctx: ptr::null_mut(), deleter: Some(free) };
    let (shape, strides) = (list(shape), list(strides));
    let array =
        Box::into_raw(Box::new(Foreign { managed, address, device, written, shape, strides, freed: freed.clone() }));
    // SAFETY: the box was just turned into a raw pointer, so its contents stay at the same address until the deleter
    // runs.
    unsafe {
        let managed = &mut (*array).managed;
        managed.manager_ctx = array.cast::<c_void>();
        managed.dl_tensor.shape = (*array).shape.as_mut_ptr();
        managed.dl_tensor.strides = (*array).strides.as_mut_ptr();
        change(&mut managed.dl_tensor);
        (Tensor::from_raw(managed), freed)
    }
}

fn vector(elements: &[u64]) -> (Tensor, Arc<AtomicUsize>) {
    foreign(0, elements, &[elements.len()], &[1], |_| ())
}

/// Returns the address of a tensor.
fn address(tensor: Tensor) -> (Tensor, usize) {
    let raw = tensor.into_raw();
    // SAFETY: the tensor was just turned into `raw`, which is valid and used only here to restore it.
    unsafe { (Tensor::from_raw(raw), (*raw).dl_tensor.data.addr()) }
}

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
                k.launch(&super::programs::NEXT, 5, (&mut y, salt, 5))
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
                    k.launch(&super::programs::NEXT, n, (&mut x, salt, n as i32))
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
                    k.launch(&super::programs::NEXT, n, (&mut y, device, n as i32))
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

/// Data that a device has written is complete when it is exported, and stays unchanged until it is returned.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lent() {
    let rt = runtime();
    let x = rt.data(vec![1u64; 1000]);
    for round in 0..20u64 {
        next(&rt, &x, round);
        let expected = nexts(1, 0..round + 1);
        let (tensor, at) = address(rt.to_dlpack(x.slice(200..).input(), SPACE).unwrap());
        assert_eq!((tensor.device(), tensor.shape()), (dlpack(0), &[800][..]));
        assert_eq!(elements_at(0, at, 800), [expected; 800], "the kernel must have ended");
        let again = rt.to_dlpack(x.input(), SPACE).unwrap();
        if round == 7 {
            next(&rt, &x, 7);
            rt.task("undo", (x.output(),)).cpu(move |_, (x,)| x.fill(expected)).submit().unwrap();
            assert!(!rt.wait_timeout(Duration::from_millis(30)).unwrap());
            assert_eq!(elements_at(0, at, 800), [expected; 800], "a writer must wait for the tensor");
        }
        drop(tensor);
        if round == 7 {
            drop(again); // without this, the read would wait for the writer, which waits for this tensor
            assert_eq!(rt.read(x.slice(..3)).unwrap(), [expected; 3]);
        } else {
            assert_eq!(rt.read(x.slice(..3)).unwrap(), [expected; 3]);
            drop(again);
        }
    }
    assert_eq!(rt.take(x).unwrap(), [nexts(1, 0..20); 1000]);
}

/// Work that the consumer has enqueued on exported memory is ordered before the work that the runtime enqueues
/// afterwards.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lent_to_be_written() {
    let rt = runtime();
    let x = rt.data(vec![1u64; 1000]);
    for round in 0..20u64 {
        next(&rt, &x, round);
        let (tensor, at) = address(rt.to_dlpack(x.slice(10..500).inout(), SPACE).unwrap());
        bind(0);
        let locked = Locked::new(&[round; 490]);
        enqueue(at, locked.0.expose_provenance(), 8 * 490, true);
        next(&rt, &x, 3);
        drop(tensor);
        assert_eq!(rt.read(x.slice(10..500)).unwrap(), [nexts(round, 3..4); 490]);
        bind(0);
        locked.free();
    }
}

/// An exported replica is not evicted, even if other data needs the room.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lent_while_others_need_the_room() {
    let rt = runtime();
    let y: Vec<_> = (0..8).map(|n| rt.data(vec![n; 800])).collect();
    let (lent, at) = address(rt.to_dlpack(y[3].input(), SPACE).unwrap());
    for salt in 0..10 {
        (y.iter().enumerate()).filter(|(n, _)| *n != 3).for_each(|(_, y)| next(&rt, y, salt));
    }
    rt.wait().unwrap();
    assert!(rt.statistics().evictions > 10, "{:?}", rt.statistics().evictions);
    assert_eq!(elements_at(0, at, 800), [3; 800]);
    drop(lent);
    next(&rt, &y[3], 5);
    for (n, y) in (0..).zip(y) {
        let salts = if n == 3 { 5..6 } else { 0..10 };
        assert_eq!(rt.take(y).unwrap(), [nexts(n, salts); 800]);
    }
}

/// Memory is exported from one runtime to another on the same device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lent_to_another_runtime() {
    let (one, other) = (runtime(), runtime());
    let x = one.data(vec![1u64; 500]);
    for round in 0..5 {
        next(&one, &x, round);
        let y: Data<u64> = other.from_dlpack(one.to_dlpack(x.inout(), SPACE).unwrap()).unwrap();
        assert_eq!(y.all().valid_in(), [SPACE]);
        next(&other, &y, 100);
        next(&one, &x, 50);
        drop(y);
    }
    let mut expected = 1;
    for round in 0..5 {
        expected = nexts(nexts(nexts(expected, round..round + 1), 100..101), 50..51);
    }
    assert_eq!(one.take(x).unwrap(), [expected; 500]);
    // Both runtimes are dropped before the exported memory is returned.
    let (x, at) = (one.data(vec![2u64; 500]), one.data(vec![4u64; 5]));
    let y: Data<u64> = other.from_dlpack(one.to_dlpack(x.inout(), SPACE).unwrap()).unwrap();
    next(&other, &y, 1);
    let (lent, first) = address(other.to_dlpack(y.input(), SPACE).unwrap());
    let ours = one.to_dlpack(at.input(), SPACE).unwrap();
    drop((x, at, y, one, other));
    assert_eq!(elements_at(0, first, 500), [nexts(2, 1..2); 500]);
    drop((ours, lent));
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

/// Returns the context of this thread: a context or a device.
fn current() -> usize {
    let mut current = 0usize;
    call!(named("cuCtxGetCurrent", "hipGetDevice"), ptr::from_mut(&mut current).addr());
    current
}

/// A user's thread stays bound to the second device, although the runtime uses both from it. A thread without a binding
/// stays without one.
#[test]
#[ignore = "run on a stand-in by another test"]
fn users_binding_stays() {
    fn use_both(bind: impl Fn()) {
        let (one, other) = (format!("1:{0}:2", kind()), format!("1:CPU:1,2:{}:1", kind()));
        for units in [one, other] {
            bind();
            let before = current();
            let check = |after: &str| assert_eq!(current(), before, "{units}: after {after}");
            let rt = with_units(&units);
            check("build");
            let data: Vec<_> = (0..8).map(|n| rt.data(vec![n; 1 << 17])).collect();
            for round in 0..4 {
                for y in &data {
                    next(&rt, y, round);
                    check("submit");
                }
            }
            assert!(data[0].pin_memory());
            check("pin_memory");
            rt.prefetch(&data[1], SPACE).unwrap();
            check("prefetch");
            assert_eq!(rt.read(&data[0]).unwrap()[0], nexts(0, 0..4));
            check("read");
            rt.wait().unwrap();
            check("wait");
            for (n, y) in (0..).zip(data) {
                assert_eq!(rt.take(y).unwrap()[7], nexts(n, 0..4));
                check("take");
            }
            drop(rt);
            check("the end");
        }
    }
    use_both(|| bind(1));
    std::thread::spawn(|| use_both(|| ())).join().unwrap();
}

/// Memory that its owner has page-locked, as a whole or in part.
#[test]
#[ignore = "run on a stand-in by another test"]
fn locked_by_others() {
    const LEN: usize = 1 << 18;
    for (part, is_locked) in [(1, true), (2, false)] {
        let array = vec![1u64; LEN];
        let (first, bytes) = (array.as_ptr().expose_provenance(), 8 * LEN);
        bind(0);
        let end = if part == 1 { first + bytes } else { (first + bytes / part) & !4095 }; // drivers lock whole pages
        call!(named("cuMemHostRegister_v2", "hipHostRegister"), first, end - first, 0);
        let rt = runtime();
        let y = rt.data(array);
        assert_eq!(y.pin_memory(), is_locked);
        for salt in 0..3 {
            next(&rt, &y, salt);
            assert_eq!(rt.read(&y).unwrap()[LEN - 1], nexts(1, 0..salt + 1));
        }
        let array = rt.take(y).unwrap();
        assert_eq!(array.as_ptr().addr(), first, "the array was not moved");
        call!(named("cuMemHostUnregister", "hipHostUnregister"), first);
    }
}
