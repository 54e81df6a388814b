//! Data objects whose host copy gets memory only when they are accessed on the host.

use crate::common::watched;
use thalweg::EmulatedDevice;
use thalweg::prelude::*;

const ELEMENTS: usize = 1 << 16;
const BYTES: u64 = 8 * ELEMENTS as u64;

fn device(capacity_bytes: u64) -> Runtime {
    let device = EmulatedDevice::new().capacity_bytes(capacity_bytes);
    Runtime::builder().compute_units("1:CPU:1,1:EMU:1").emulated_devices(move |_| device.clone()).build().unwrap()
}

/// Submits a task that fills a region on the device.
fn fill(rt: &Runtime, region: Region<'_, u64>, value: u64) {
    rt.task("fill", (region.output(),)).emulated(move |_, (x,)| x.fill(value)).submit().unwrap();
}

/// Checks the memory size of the host copy on systems that report it.
fn check_home(x: &Data<u64>, expected: impl Fn(usize) -> bool) {
    let bytes = x.home_bytes();
    assert!(expected(bytes) || !cfg!(target_os = "linux"), "{bytes}");
}

#[test]
fn home_gets_memory_only_where_it_is_read() {
    watched("read", || {
        let rt = device(1 << 30);
        let x = rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [ELEMENTS]);
        for value in 0..10 {
            fill(&rt, x.slice(ELEMENTS / 2..), value);
            rt.task("add", (x.slice(ELEMENTS / 2..).inout(),)).emulated(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        rt.wait().unwrap();
        check_home(&x, |bytes| bytes == 0);
        assert_eq!(rt.statistics().links.iter().map(|link| link.bytes).sum::<u64>(), 0);
        assert_eq!(rt.read(&x.slice(ELEMENTS / 2..ELEMENTS / 2 + 3)).unwrap(), [10, 9, 9]);
        check_home(&x, |bytes| bytes > 0 && bytes < BYTES as usize / 8);
        let all = rt.take(x).unwrap();
        assert_eq!((all.len(), all[0], all[ELEMENTS / 2 - 1], all[ELEMENTS - 1]), (ELEMENTS, 0, 0, 9));
    });
}

#[test]
fn untouched_device_only_data_reads_as_zero_everywhere() {
    watched("zeros", || {
        let rt = device(1 << 30);
        let (x, sums) = (rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [ELEMENTS]), rt.data(vec![1u64; 2]));
        let on_device = rt.task("sum", (x.input(), sums.slice(..1).output()));
        on_device.emulated(|_, (x, sum)| sum[0] = x.iter().sum()).submit().unwrap();
        let on_core = rt.task("sum", (x.input(), sums.slice(1..).output()));
        on_core.host(|_, (x, sum)| sum[0] = x.iter().sum()).submit().unwrap();
        assert_eq!(rt.take(sums).unwrap(), [0, 0]);
        rt.task("write", (x.slice(..1).inout(),)).host(|_, (x,)| x[0] += 5).submit().unwrap();
        rt.wait().unwrap();
        check_home(&x, |bytes| bytes > 0);
        assert_eq!(rt.read(&x.slice(..2)).unwrap(), [5, 0]);
    });
}

#[test]
fn evicted_data_is_written_back_unless_discarded() {
    for discards in [false, true] {
        watched("room", move || {
            let rt = device(BYTES);
            let [x, y] = [0, 1].map(|_| rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [ELEMENTS]));
            fill(&rt, x.all(), 3);
            if discards {
                rt.discard(&x).unwrap();
                rt.wait().unwrap(); // otherwise `y` might get the memory first
            }
            fill(&rt, y.all(), 4);
            rt.wait().unwrap();
            check_home(&x, |bytes| bytes as u64 == if discards { 0 } else { BYTES });
            check_home(&y, |bytes| bytes == 0);
            if !discards {
                assert_eq!(rt.take(x).unwrap(), [3; ELEMENTS]);
            }
        });
    }
}

#[test]
fn device_only_arrays_may_have_any_size_and_shape() {
    watched("sizes", || {
        let rt = device(1 << 30);
        assert!(rt.take(rt.zeros_in::<f64, _>(MemoryKind::DeviceOnly, [0])).unwrap().is_empty());
        let cube = rt.zeros_in::<f32, _>(MemoryKind::DeviceOnly, [2, 3, 4]);
        rt.task("set", (cube.block((1, .., 2)).output(),)).cpu(|_, (mut x,)| x.fill(1.0)).submit().unwrap();
        assert_eq!(rt.take(cube).unwrap().sum(), 3.0);
        let large = rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [1 << 31]); // 16 GiB
        fill(&rt, large.slice(1 << 30..(1 << 30) + 10), 1);
        assert_eq!(rt.read(&large.slice((1 << 30) - 1..(1 << 30) + 2)).unwrap(), [0, 1, 1]);
        check_home(&large, |bytes| bytes < 1 << 24);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [usize::MAX / 4])
        }));
        assert!(refused.unwrap_err().downcast_ref::<String>().unwrap().contains("try smaller"));
        rt.wait().unwrap();
    });
}

#[test]
fn home_of_an_ordinary_array_has_all_its_memory() {
    let rt = device(1 << 30);
    check_home(&rt.data(vec![1u64; ELEMENTS]), |bytes| bytes as u64 == BYTES);
}
