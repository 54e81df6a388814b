//! The tasks of the suite. Each task has a body for cores and a body for accelerators.

use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;
use thalweg::task::Region;

const TEXT: &str = "
    KERNEL(64, 1, 1) mixed(IN(UINT64, x, n), INOUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 31 + x[i] + salt;
    }
    KERNEL(64, 1, 1) fill(OUT(UINT64, y, n), UINT64 value, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = value;
    }
    KERNEL(8, 4, 2) add(INOUT(UINT64, y, [n0 : s0][n1 : s1][n2 : s2][n3 : s3]), UINT64 value, int n0, int n1, int n2,
                        int n3, int s0, int s1, int s2, int s3)
    {
        REGION(y);
        int l = GLOBAL_ID(0), k = GLOBAL_ID(1), j = GLOBAL_ID(2);
        if (l < n3 && k < n2 && j < n1)
            for (int i = 0; i < n0; i++) {
                UINT64 at = (UINT64)i * s0 + (UINT64)j * s1 + (UINT64)k * s2 + (UINT64)l * s3;
                y[at] = y[at] * 7 + value;
            }
    }
    KERNEL(64, 1, 1) sum(IN(double, x, n), INOUT(double, total, 1), int n)
    {
        REGION(x); REGION(total);
        int i = GLOBAL_ID(0);
        if (i < n) ATOMIC_ADD(total, x[i]);
    }
    KERNEL(64, 1, 1) slow(INOUT(UINT64, y, n), int rounds, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) for (int r = 0; r < rounds; r++) y[i] = y[i] * 3 + 1;
    }
    KERNEL(64, 1, 1) stencil(IN(UINT64, x, m), OUT(UINT64, y, n), int before, int m, int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) {
            int left = i + before - 1, right = i + before + 1;
            y[i] = x[left < 0 ? 0 : left] * 3 + x[right < m ? right : m - 1];
        }
    }
";
#[allow(unsafe_code)]
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("conformance.cl", TEXT) };
static MIX: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "mixed");
static FILL: Kernel<(Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "fill");
/// Arguments: the box, the value, the extents and the strides.
type Add = (Write<u64>, u64, i32, i32, i32, i32, i32, i32, i32, i32);
static ADD: Kernel<Add> = Kernel::new(&PROGRAM, "add");
static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");
static SLOW: Kernel<(Write<u64>, i32, i32)> = Kernel::new(&PROGRAM, "slow");
static STEP: Kernel<(Read<u64>, Write<u64>, i32, i32, i32)> = Kernel::new(&PROGRAM, "stencil");

/// Sets each element of `y` to three times its left neighbour in `x` plus its right neighbour. `x` begins `before`
/// elements before `y`.
pub(crate) fn stepped(x: &[u64], y: &mut [u64], before: usize) {
    for (i, y) in y.iter_mut().enumerate() {
        let here = i + before;
        *y = x[here.saturating_sub(1)].wrapping_mul(3).wrapping_add(x[(here + 1).min(x.len() - 1)]);
    }
}

/// Does the same as [`stepped`] with a loop over blocks of `size` elements, spread over devices.
pub(crate) fn step(rt: &Runtime, x: &Data<u64>, y: &Data<u64>, size: usize, devices: &[DeviceId]) {
    rt.for_each("step", (0.., x.blocks(size).grow(1).input(), y.blocks(size).output()))
        .cpu(|_, (part, x, y)| stepped(x, y, usize::from(part > 0)))
        .gpu(|k, (part, x, mut y)| {
            let (m, n) = (x.len(), y.len());
            k.launch(&STEP, n, (&x, &mut y, i32::from(part > 0), m as i32, n as i32))
        })
        .spread(devices)
        .submit()
        .unwrap();
}

pub(crate) fn mixed(x: &[u64], y: &mut [u64], salt: u64) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = y.wrapping_mul(31).wrapping_add(*x).wrapping_add(salt);
    }
}

/// Enqueues `y ← 31 y + x + salt` for the length of the shorter region.
pub(crate) fn mix_some(
    k: &mut Launcher<'_>,
    x: &DeviceView<'_, u64>,
    y: &mut DeviceViewMut<'_, u64>,
    salt: u64,
) -> Result<(), DeviceError> {
    let n = x.len().min(y.len());
    k.launch(&MIX, n, (x, y, salt, n as i32))
}

/// Enqueues `y ← value`.
pub(crate) fn fill_some(k: &mut Launcher<'_>, y: &mut DeviceViewMut<'_, u64>, value: u64) -> Result<(), DeviceError> {
    let n = y.len();
    k.launch(&FILL, n, (y, value, n as i32))
}

/// Submits `y ← 31 y + x + salt`, for regions of the same length.
pub(crate) fn mix(rt: &Runtime, x: Region<'_, u64>, y: Region<'_, u64>, salt: u64) {
    rt.task("mix", (x.input(), y.inout()))
        .cpu(move |_, (x, y)| mixed(x, y, salt))
        .gpu(move |k, (x, mut y)| k.launch(&MIX, x.len(), (&x, &mut y, salt, x.len() as i32)))
        .submit()
        .unwrap();
}

/// Submits `y ← value`.
pub(crate) fn fill(rt: &Runtime, y: Region<'_, u64>, value: u64) {
    rt.task("fill", (y.output(),))
        .cpu(move |_, (y,)| y.fill(value))
        .gpu(move |k, (mut y,)| {
            let n = y.len();
            k.launch(&FILL, n, (&mut y, value, n as i32))
        })
        .submit()
        .unwrap();
}

/// Enqueues `y ← 7 y + value` for a box of any number of dimensions.
pub(crate) fn add(k: &mut Launcher<'_>, mut y: DeviceViewMut<'_, u64>, value: u64) -> Result<(), DeviceError> {
    let ([n0, n1, n2, n3], [s0, s1, s2, s3]) = (y.extents().map(|n| n as i32), y.strides().map(|s| s as i32));
    let [_, j, k_, l] = y.extents();
    k.launch(&ADD, [l, k_, j], (&mut y, value, n0, n1, n2, n3, s0, s1, s2, s3))
}

/// Submits `total ← total + Σ x` as a reduction.
pub(crate) fn sum(rt: &Runtime, x: Region<'_, f64>, total: &Data<f64>) {
    rt.task("sum", (x.input(), total.reduction(Sum)))
        .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
        .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
        .submit()
        .unwrap();
}

/// Like [`sum`], but accumulates into a replica that all tasks on a unit share.
pub(crate) fn accumulate(rt: &Runtime, x: Region<'_, f64>, total: &Data<f64>) {
    rt.task("sum", (x.input(), total.accumulate(Sum)))
        .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
        .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
        .submit()
        .unwrap();
}

pub(crate) fn slowed(y: &mut [u64], rounds: u32) {
    y.iter_mut().for_each(|y| (0..rounds).for_each(|_| *y = y.wrapping_mul(3).wrapping_add(1)));
}

/// Submits `y ← 3 y + 1`, repeated `rounds` times.
pub(crate) fn slow(rt: &Runtime, y: Region<'_, u64>, rounds: u32) {
    rt.task("slow", (y.inout(),))
        .cpu(move |_, (y,)| slowed(y, rounds))
        .gpu(move |k, (mut y,)| {
            let n = y.len();
            k.launch(&SLOW, n, (&mut y, rounds as i32, n as i32))
        })
        .submit()
        .unwrap();
}
