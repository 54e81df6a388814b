//! Memory that the runtime exports to another library.

use super::foreign::{address, dlpack};
use super::{Locked, SPACE, bind, elements_at, enqueue};
use crate::programs::{next, nexts, runtime};
use std::time::Duration;
use thalweg::prelude::*;

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
