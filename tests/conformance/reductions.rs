//! Reductions whose tasks all run on one device: the device combines their contributions, with the results of cores.

use crate::runtime_of;
use std::fmt::Debug;
use thalweg::kernel::{Kernel, Program, Read, Scalar, Write};
use thalweg::machine::UnitKind;
use thalweg::memory::{AnyOrder, Reducer};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) give_double(IN(double, x, n), OUT(double, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) give_float(IN(float, x, n), OUT(float, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) give_int(IN(int, x, n), OUT(int, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) give_unsigned(IN(unsigned, x, n), OUT(unsigned, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) give_int64(IN(INT64, x, n), OUT(INT64, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) give_uint64(IN(UINT64, x, n), OUT(UINT64, part, n), int n)
    { REGION(x); REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] = x[i]; }
    KERNEL(64, 1, 1) ramp(INOUT(double, part, n), double salt, int n)
    { REGION(part); int i = GLOBAL_ID(0); if (i < n) part[i] += salt * i; }
    KERNEL(64, 1, 1) set(OUT(double, x, 1), double value)
    { REGION(x); if (GLOBAL_ID(0) == 0) x[0] = value; }
    KERNEL(64, 1, 1) add(INOUT(double, x, 1), double value)
    { REGION(x); if (GLOBAL_ID(0) == 0) x[0] += value; }
    KERNEL(64, 1, 1) add_total(IN(double, total, 1), INOUT(double, y, n), int n)
    { REGION(total); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] += total[0]; }
";
#[allow(unsafe_code)]
// SAFETY: each kernel compares its index with the number of elements that its head declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("reductions.cl", TEXT) };

type Give<T> = Kernel<(Read<T>, Write<T>, i32)>;
static GIVE_DOUBLE: Give<f64> = Kernel::new(&PROGRAM, "give_double");
static GIVE_FLOAT: Give<f32> = Kernel::new(&PROGRAM, "give_float");
static GIVE_INT: Give<i32> = Kernel::new(&PROGRAM, "give_int");
static GIVE_UNSIGNED: Give<u32> = Kernel::new(&PROGRAM, "give_unsigned");
static GIVE_INT64: Give<i64> = Kernel::new(&PROGRAM, "give_int64");
static GIVE_UINT64: Give<u64> = Kernel::new(&PROGRAM, "give_uint64");
static RAMP: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&PROGRAM, "ramp");
static SET: Kernel<(Write<f64>, f64)> = Kernel::new(&PROGRAM, "set");
static ADD: Kernel<(Write<f64>, f64)> = Kernel::new(&PROGRAM, "add");
static ADD_TOTAL: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "add_total");

/// Combines lists of numbers with the first list by the same operation on several runtimes, and compares the results.
fn compare<T, R>(on: &[&Runtime], give: &'static Give<T>, operation: R, lists: &[Vec<T>])
where
    T: Scalar + Element + Debug,
    R: Reducer<T> + Debug,
{
    let reduced = |rt: &Runtime| {
        let total = rt.data(lists[0].clone());
        for list in &lists[1..] {
            rt.task("give", (rt.data(list.clone()).input(), total.reduction(operation.clone())))
                .cpu(|_, (list, part)| part.copy_from_slice(list))
                .gpu(|k, (list, mut part)| k.launch(give, list.len(), (&list, &mut part, list.len() as i32)))
                .submit()
                .unwrap();
        }
        // Negative zeros and NaNs have to be the same, too.
        rt.take(total).unwrap().iter().map(|x| format!("{x:?} {:?}", bytemuck::bytes_of(x))).collect::<Vec<_>>()
    };
    let expected = reduced(on[0]);
    on[1..].iter().for_each(|rt| assert_eq!(reduced(rt), expected, "{operation:?} of {lists:?}"));
}

/// Lists of numbers that are hard to add and to compare.
fn lists<T>(number: impl Fn(usize) -> T) -> Vec<Vec<T>> {
    (0..12).map(|list| (0..30).map(|n| number(list * 30 + n)).collect()).collect()
}

pub(crate) fn reductions_on_one_device_have_the_bits_of_cores(kind: UnitKind) {
    let cores = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let device = runtime_of(kind, 0, 1, u64::MAX);
    let on = [&cores, &device];
    let odd = |n: usize| match n % 11 {
        0 => -0.0,
        1 => 0.0,
        2 if n > 100 => f64::INFINITY,
        _ => (n as f64 * 0.7).sin() * 10f64.powi(n as i32 % 13 - 6),
    };
    let wild = |n: usize| if n % 53 == 7 { -f64::NAN } else { odd(n) };
    compare(&on, &GIVE_DOUBLE, Sum, &lists(odd));
    compare(&on, &GIVE_DOUBLE, Min, &lists(wild));
    compare(&on, &GIVE_DOUBLE, Max, &lists(wild));
    compare(&on, &GIVE_FLOAT, Sum, &lists(|n| odd(n) as f32));
    compare(&on, &GIVE_FLOAT, Min, &lists(|n| wild(n) as f32));
    compare(&on, &GIVE_FLOAT, Max, &lists(|n| wild(n) as f32));
    let whole = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    macro_rules! integers {
        ($($t:ty: $give:ident),*) => {$(
            compare(&on, &$give, Sum, &lists(|n| whole(n) as $t));
            compare(&on, &$give, AnyOrder(Sum), &lists(|n| whole(n) as $t));
            compare(&on, &$give, Min, &lists(|n| whole(n) as $t));
            compare(&on, &$give, Max, &lists(|n| whole(n) as $t));
        )*};
    }
    integers! { i32: GIVE_INT, u32: GIVE_UNSIGNED, i64: GIVE_INT64, u64: GIVE_UINT64 }
    boxes(&on);
}

/// Reductions to boxes of a matrix, which overlap, between tasks that read and write parts of it.
fn boxes(on: &[&Runtime]) {
    let reduced = |rt: &Runtime| {
        let matrix = rt.array(ndarray::Array2::from_elem((12, 10), 0.1));
        let corner = rt.data(vec![0.0; 4]);
        for n in 0..24usize {
            let (rows, columns) = (n % 5..6 + n % 7, n % 3..4 + n % 6);
            let salt = 1.0 / (n as f64 + 3.0);
            rt.task("ramp", (matrix.block((rows, columns)).reduction(Sum),))
                .cpu(move |_, (mut part,)| part.iter_mut().enumerate().for_each(|(i, x)| *x += salt * i as f64))
                .gpu(move |k, (mut part,)| {
                    let n = part.len();
                    k.launch(&RAMP, n, (&mut part, salt, n as i32))
                })
                .submit()
                .unwrap();
            if n % 9 == 5 {
                rt.task("read", (matrix.block((5..6, 4..5)).input(), corner.inout()))
                    .cpu(|_, (x, corner)| corner.iter_mut().for_each(|y| *y += x[[0, 0]]))
                    .gpu(|k, (x, mut corner)| k.launch(&ADD_TOTAL, 4, (&x, &mut corner, 4)))
                    .submit()
                    .unwrap();
            }
        }
        (rt.take(matrix).unwrap(), rt.take(corner).unwrap())
    };
    let expected = reduced(on[0]);
    on[1..].iter().for_each(|rt| assert_eq!(reduced(rt), expected));
}

/// A number that only tasks on the device add to, read and clear never leaves the device.
pub(crate) fn reductions_on_one_device_copy_nothing(kind: UnitKind) {
    const STEPS: usize = 20;
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let (total, y) = (rt.scalar(0.0), rt.data(vec![0.0; 8]));
    let step = |n: usize| {
        rt.task("clear", (total.output(),))
            .cpu(|_, (total,)| total[0] = 0.0)
            .gpu(|k, (mut total,)| k.launch(&SET, 1, (&mut total, 0.0)))
            .submit()
            .unwrap();
        for part in 0..4 {
            let salt = (n * 4 + part) as f64;
            rt.task("add", (total.reduction(Sum),))
                .cpu(move |_, (total,)| total[0] += salt)
                .gpu(move |k, (mut total,)| k.launch(&ADD, 1, (&mut total, salt)))
                .submit()
                .unwrap();
        }
        rt.task("use", (total.input(), y.inout()))
            .cpu(|_, (total, y)| y.iter_mut().for_each(|y| *y += total[0]))
            .gpu(|k, (total, mut y)| k.launch(&ADD_TOTAL, 8, (&total, &mut y, 8)))
            .submit()
            .unwrap();
    };
    let copies = || rt.statistics().links.iter().map(|link| link.copies).sum::<u64>();
    step(0);
    rt.wait().unwrap();
    let before = copies();
    (1..STEPS).for_each(step);
    rt.wait().unwrap();
    assert_eq!(copies(), before, "{:?}", rt.statistics().links);
    let sum: usize = (0..4 * STEPS).sum();
    assert_eq!(rt.take(y).unwrap(), [sum as f64; 8]);
}

/// A body on a core repeats tasks on the device until their residual is large enough. Each iteration copies nothing but
/// the residual, and a task that was submitted after the loop finds the loop's result.
pub(crate) fn loop_in_a_body_copies_only_its_residual(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let (y, residual, later) = (rt.scalar(0.0), rt.scalar(0.0), rt.scalar(0.0));
    let (inner_y, inner_residual) = (y.clone(), residual.clone());
    let repeat = move |at: &Context, ((), ()): ((), ())| -> Result<(), RunError> {
        let (y, residual) = (&inner_y, &inner_residual);
        for _ in 0..20 {
            at.task("step", (y.inout(), residual.output()))
                .cpu(|_, (y, residual)| (y[0], residual[0]) = (y[0] + 1.0, 0.0))
                .gpu(|k, (mut y, mut residual)| {
                    k.launch(&ADD, 1, (&mut y, 1.0))?;
                    k.launch(&SET, 1, (&mut residual, 0.0))
                })
                .submit()?;
            at.task("residual", (y.input(), residual.reduction(Sum)))
                .cpu(|_, (y, residual)| residual[0] += y[0])
                .gpu(|k, (y, mut residual)| k.launch(&ADD_TOTAL, 1, (&y, &mut residual, 1)))
                .submit()?;
            if at.task("look", residual.input()).returns(|_, residual| residual[0]).submit()?.get()? >= 7.0 {
                break;
            }
        }
        Ok(())
    };
    rt.task("loop", (y.weak_inout(), residual.weak_inout())).host(repeat).submit().unwrap();
    rt.task("later", (y.input(), later.inout()))
        .cpu(|_, (y, later)| later[0] += y[0])
        .gpu(|k, (y, mut later)| k.launch(&ADD_TOTAL, 1, (&y, &mut later, 1)))
        .submit()
        .unwrap();
    rt.wait().unwrap();
    let links = rt.statistics().links;
    let to_host: u64 = links.iter().filter(|link| link.to == SpaceId::HOST).map(|link| link.copies).sum();
    let all: u64 = links.iter().map(|link| link.copies).sum();
    assert_eq!((to_host, all), (7, 9), "the residuals, and the first values of two numbers: {links:?}");
    assert_eq!(rt.read(&later).unwrap()[0], 7.0);
}

/// A failed reduction leaves out its own contribution, and nothing else.
pub(crate) fn failed_reduction_on_one_device_leaves_out_its_contribution(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let (total, others) = (rt.scalar(0.5), [(); 4].map(|()| rt.scalar(0.0)));
    for (n, other) in others.iter().enumerate() {
        let value = (n + 1) as f64;
        rt.task("add", (total.reduction(Sum), other.inout()))
            .cpu(move |_, (total, other)| {
                (total[0], other[0]) = (total[0] + value, other[0] + value);
                if n == 1 { Err("no luck") } else { Ok(()) }
            })
            .gpu(move |k, (mut total, mut other)| {
                k.launch(&ADD, 1, (&mut total, value))?;
                k.launch(&ADD, 1, (&mut other, value))?;
                if n == 1 { Err("no luck".into()) } else { Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) }
            })
            .submit()
            .unwrap();
    }
    assert!(rt.read(&total).is_err());
    for (n, other) in others.iter().enumerate() {
        assert_eq!(rt.read(other).ok(), (n != 1).then(|| vec![(n + 1) as f64]), "{n}");
    }
    rt.accept(total.all()).unwrap();
    assert_eq!(rt.read(&total).unwrap()[0], 0.5 + 1.0 + 3.0 + 4.0);
    assert!(rt.wait().unwrap_err().to_string().contains("no luck"));
}
