//! Reductions with user-defined operations. Tasks with the same operation run concurrently; tasks with different
//! operations run in order.

use crate::common::{gate, runtime, watched};
use std::cell::Cell;
use std::sync::{Arc, Barrier, Weak};
use thalweg::memory::{AnyOrder, Elementwise, OpId, Reducer};
use thalweg::prelude::*;

const MIXES: [&str; 3] = ["2:CPU:1", "1:CPU:1,1:EMU:1", "2:EMU:1"];

/// Concatenates words in submission order. The operation is associative but not commutative.
#[derive(Clone, Copy)]
struct Join;

/// A word has up to eight letters; the first letter is in the highest used byte.
impl Reducer<u64> for Join {
    fn identity(&self) -> u64 {
        0
    }
    fn combine(&self, accumulator: &mut u64, contribution: u64) {
        let bytes = 8 - contribution.leading_zeros() / 8;
        *accumulator = accumulator.checked_shl(8 * bytes).unwrap_or(0) | contribution;
    }
}

/// Exclusive or, which may be applied in any order.
#[derive(Clone, Copy)]
struct Xor;

impl Reducer<u64> for Xor {
    fn identity(&self) -> u64 {
        0
    }
    fn combine(&self, accumulator: &mut u64, contribution: u64) {
        *accumulator ^= contribution;
    }
    fn in_any_order(&self) -> bool {
        true
    }
}

/// Sum modulo a number. Each instance is a different operation.
#[derive(Clone, Copy)]
struct SumModulo {
    modulus: u64,
    id: OpId,
}

impl SumModulo {
    fn new(modulus: u64) -> Self {
        Self { modulus, id: OpId::unique() }
    }
}

impl Reducer<u64> for SumModulo {
    fn identity(&self) -> u64 {
        0
    }
    fn combine(&self, accumulator: &mut u64, contribution: u64) {
        *accumulator = (*accumulator + contribution) % self.modulus;
    }
    fn id(&self) -> OpId {
        self.id
    }
}

/// Claims to be the same operation as `Sum`, and computes the same result.
#[derive(Clone, Copy)]
struct Adds;

impl Reducer<u64> for Adds {
    fn identity(&self) -> u64 {
        0
    }
    fn combine(&self, accumulator: &mut u64, contribution: u64) {
        *accumulator = accumulator.wrapping_add(contribution);
    }
    fn id(&self) -> OpId {
        Reducer::<u64>::id(&Sum)
    }
}

fn add<R: Reducer<u64>>(rt: &Runtime, x: &Data<u64>, reducer: R, value: u64) {
    rt.task("add", (x.reduction(reducer),)).cpu(move |_, (x,)| x[0] = value).submit().unwrap();
}

#[test]
fn contributions_are_combined_in_order_of_submission() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.scalar(0u64);
            for letter in *b"thalweg" {
                add(&rt, &x, Join, letter.into());
            }
            assert_eq!(rt.read(&x).unwrap()[0].to_be_bytes(), *b"\0thalweg");
        });
    }
}

#[test]
fn tasks_with_the_same_operation_run_concurrently() {
    watched("side by side", || {
        let rt = runtime("2:CPU:1");
        let x = rt.scalar(0u64);
        let both = Arc::new(Barrier::new(2));
        for value in [1, 2] {
            let both = both.clone();
            let body = move |x: &mut [u64]| {
                both.wait(); // would block forever if one task waited for the other
                x[0] = value;
            };
            rt.task("xor", (x.reduction(Xor),)).cpu(move |_, (x,)| body(x)).submit().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], 3);
    });
}

#[test]
fn different_operations_run_in_order_of_submission() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let (by_7, by_10) = (SumModulo::new(7), SumModulo::new(10));
            let x = rt.scalar(5u64);
            let (open, wait) = gate();
            rt.task("first", (x.reduction(by_7),))
                .cpu(move |_, (x,)| {
                    wait();
                    x[0] = 4;
                })
                .submit()
                .unwrap();
            add(&rt, &x, by_10, 9);
            add(&rt, &x, by_10, 3);
            add(&rt, &x, Xor, 0b1000);
            add(&rt, &x, by_7, 6);
            drop(open);
            let first = (5 + 4) % 7;
            let second = ((first + 9) % 10 + 3) % 10;
            let third = second ^ 0b1000;
            assert_eq!(rt.read(&x).unwrap()[0], (third + 6) % 7);
        });
    }
}

#[test]
fn custom_operations_work_with_every_adapter_and_mode() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let (x, y, z) = (rt.scalar(1u64), rt.data(vec![[0u64; 2]; 3]), rt.scalar(0u64));
            for value in 1..=8u64 {
                add(&rt, &x, AnyOrder(SumModulo { modulus: 1000, id: OpId::of::<SumModulo>() }), value);
                rt.task("arrays", (y.reduction(Elementwise(Xor)),))
                    .cpu(move |_, (y,)| y.fill([value, 2 * value]))
                    .submit()
                    .unwrap();
                rt.task("shared", (z.accumulate(Xor),)).cpu(move |_, (z,)| z[0] ^= 1 << value).submit().unwrap();
            }
            assert_eq!(rt.read(&x).unwrap()[0], 37);
            assert_eq!(rt.read(&y).unwrap(), [[8, 16]; 3]);
            assert_eq!(rt.read(&z).unwrap()[0], 0b1_1111_1110);
        });
    }
}

#[test]
fn two_types_with_the_same_id_share_a_group_without_mixing_replicas() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
            for value in 0..100u64 {
                let own = value % 2 == 0;
                if own {
                    add(&rt, &x, AnyOrder(Adds), value)
                } else {
                    add(&rt, &x, Sum, value)
                }
                let shared = |y: &mut [u64]| y[0] += 1;
                match own {
                    true => rt.task("own", (y.accumulate(Adds),)).cpu(move |_, (y,)| shared(y)).submit().unwrap(),
                    false => rt.task("ours", (y.accumulate(Sum),)).cpu(move |_, (y,)| shared(y)).submit().unwrap(),
                };
            }
            assert_eq!((rt.read(&x).unwrap()[0], rt.read(&y).unwrap()[0]), (4950, 100));
        });
    }
}

#[test]
fn panicking_operation_fails_the_contributing_task() {
    #[derive(Clone)]
    struct Refuses;
    impl Reducer<u64> for Refuses {
        fn identity(&self) -> u64 {
            0
        }
        fn combine(&self, accumulator: &mut u64, contribution: u64) {
            assert!(contribution != 13, "not this one");
            *accumulator += contribution;
        }
    }
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.scalar(0u64);
            add(&rt, &x, Refuses, 12);
            add(&rt, &x, Refuses, 13);
            let error = rt.wait().unwrap_err().to_string();
            assert!(error.contains("`add`") && error.contains("not this one"), "{error}");
        });
    }
}

/// A sum whose every method, including its destructor and `clone`, waits for the runtime.
struct Waits {
    rt: Weak<Runtime>,
    seen: Data<u64>,
}

thread_local! {
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

impl Waits {
    /// Waits for the runtime. The wait is refused if a task would have to wait for itself.
    fn wait(&self) {
        if let Some(rt) = self.rt.upgrade().filter(|_| !IS_WAITING.replace(true)) {
            let _refused = rt.read(&self.seen);
            let _refused = rt.wait();
            drop(rt);
            IS_WAITING.set(false);
        }
    }
}

impl Clone for Waits {
    fn clone(&self) -> Self {
        self.wait();
        Self { rt: self.rt.clone(), seen: self.seen.clone() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Reducer<u64> for Waits {
    fn identity(&self) -> u64 {
        self.wait();
        0
    }
    fn combine(&self, accumulator: &mut u64, contribution: u64) {
        self.wait();
        *accumulator += contribution;
    }
    fn id(&self) -> OpId {
        self.wait();
        OpId::of::<Self>()
    }
    fn in_any_order(&self) -> bool {
        self.wait();
        false
    }
}

#[test]
fn operation_may_wait_for_the_runtime_while_its_loop_is_submitted() {
    for units in MIXES {
        for (case, window) in (0..4).flat_map(|case| [(case, 1), (case, 64)]) {
            watched(&format!("{units} {case} {window}"), move || {
                let rt = Arc::new(Runtime::builder().compute_units(units).max_pending_tasks(window).build().unwrap());
                let (x, y) = (rt.data(vec![0u64; 100]), rt.data(vec![0u64; 100]));
                let waits = || Waits { rt: Arc::downgrade(&rt), seen: y.clone() };
                let parts = y.blocks(1).inout();
                let add = |x: &mut [u64], y: &mut [u64]| (x[0], y[0]) = (x[0] + 1, 1);
                let submitted = match case {
                    0 => rt.for_each("sum", (x.reduction(waits()), parts)).cpu(move |_, (x, y)| add(x, y)).submit(),
                    1 => rt.for_each("sum", (x.accumulate(waits()), parts)).cpu(move |_, (x, y)| add(x, y)).submit(),
                    2 => {
                        let each = x.blocks(1).reduction(waits());
                        rt.for_each("sum", (each, parts)).cpu(move |_, (x, y)| add(x, y)).submit()
                    }
                    _ => {
                        let each = x.blocks(1).accumulate(waits());
                        rt.for_each("sum", (each, parts)).cpu(move |_, (x, y)| add(x, y)).submit()
                    }
                };
                assert_eq!(submitted.unwrap(), 100);
                assert_eq!(rt.read(&x).unwrap().iter().sum::<u64>(), 100);
            });
        }
    }
}
