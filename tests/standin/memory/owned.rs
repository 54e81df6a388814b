//! The user's own state of the interface: the binding of threads to devices, and page-locked memory.

use super::{SPACE, bind, call, named};
use crate::programs::{kind, next, nexts, runtime, with_units};
use std::ptr;

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
