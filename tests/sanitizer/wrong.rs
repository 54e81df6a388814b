//! Wrong bodies on cores and emulated devices.

use super::{findings, sanitizing};
use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use thalweg::Context;
use thalweg::dynamic::{AnyData, AnyView, Dtype};
use thalweg::error::Breach::{self, *};
use thalweg::prelude::*;

/// Writes what a task must not write.
fn plant<T>(at: *mut T, value: T) {
    // SAFETY: each planted write goes to a guard zone, or to an element that no other thread uses at that time.
    unsafe { at.write(value) }
}

/// Reads what a task may not read.
fn peek<T: Copy>(at: *const T) -> T {
    // SAFETY: each planted read is in a region or in a guard zone.
    unsafe { at.read() }
}

/// Submits a program on each of these machines, and expects these findings of its task `wrong`.
fn expect_on(machines: &[&str], program: impl Fn(&Runtime), expected: &[(usize, Breach, &str, usize)]) {
    for units in machines {
        let rt = sanitizing(units);
        program(&rt);
        let found = findings(&rt);
        let found: Vec<_> = found.iter().map(|(access, breach, first, n)| (*access, *breach, &**first, *n)).collect();
        assert_eq!(found, expected, "{units}");
        // The runtime can be used on.
        let x = rt.data(vec![1.0; 4]);
        rt.task("right", x.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1.0)).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), [2.0; 4]);
    }
}

fn expect(program: impl Fn(&Runtime), expected: &[(usize, Breach, &str, usize)]) {
    expect_on(&["2:CPU:1", "1:EMU:1", "1:CPU:1,1:EMU:1"], program, expected);
}

/// Submits a task that calls `body` with elements 2 to 5 of an array of 8 to update.
fn update(rt: &Runtime, body: impl FnOnce(&mut [f64]) + Send + 'static) {
    let x = rt.data(vec![1.0; 8]);
    rt.task("wrong", x.slice(2..6).inout()).cpu(move |_, x| body(x)).submit().unwrap();
}

/// Like [`update`], for an output.
fn output(rt: &Runtime, body: impl FnOnce(&mut [f64]) + Send + 'static) {
    let x = rt.data(vec![1.0; 8]);
    rt.task("wrong", x.slice(2..6).output()).cpu(move |_, x| body(x)).submit().unwrap();
}

#[test]
fn write_after_an_array_is_found() {
    let body = |x: &mut [f64]| plant(x.as_mut_ptr().wrapping_add(4), 7.0);
    expect(|rt| update(rt, body), &[(0, WroteOutside, "0 bytes after its last element", 8)]);
}

#[test]
fn write_before_an_array_is_found() {
    let body = |x: &mut [f64]| plant(x.as_mut_ptr().wrapping_sub(1), 7.0);
    expect(|rt| update(rt, body), &[(0, WroteOutside, "8 bytes before its first element", 8)]);
}

#[test]
fn write_far_behind_an_array_is_found() {
    let body = |x: &mut [f64]| plant(x.as_mut_ptr().wrapping_add(500), 7.0);
    expect(|rt| update(rt, body), &[(0, WroteOutside, "3968 bytes after its last element", 8)]);
}

#[test]
fn write_by_a_c_function_with_a_wrong_count_is_found() {
    extern "C" fn fill(x: *mut f64, last: usize) {
        (0..=last).for_each(|n| plant(x.wrapping_add(n), 0.0));
    }
    let body = |x: &mut [f64]| fill(x.as_mut_ptr(), x.len());
    expect(|rt| update(rt, body), &[(0, WroteOutside, "0 bytes after its last element", 8)]);
}

#[test]
fn write_next_to_a_row_of_a_block_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.array(Array2::<f64>::zeros((8, 9)));
        let body = |_: &Context, mut x: ArrayViewMut2<'_, f64>| plant(x.as_mut_ptr().wrapping_add(4), 1.0);
        rt.task("wrong", x.block((2..5, 3..7)).inout()).cpu(body).submit().unwrap();
    };
    expect_on(&["2:CPU:1"], program, &[(0, WroteOutside, "between its rows, 32 bytes after its first element", 8)]);
}

#[test]
fn write_to_the_row_after_a_block_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.array(Array2::<f64>::zeros((8, 9)));
        let body = |_: &Context, mut x: ArrayViewMut2<'_, f64>| {
            let row = x.strides()[0];
            plant(x.as_mut_ptr().wrapping_offset(3 * row), 1.0)
        };
        rt.task("wrong", x.block((2..5, 3..7)).inout()).cpu(body).submit().unwrap();
    };
    expect_on(&["2:CPU:1"], program, &[(0, WroteOutside, "40 bytes after its last element", 8)]);
}

#[test]
fn write_outside_of_a_commutative_region_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.data(vec![0u8; 100]);
        let body = |_: &Context, x: &mut [u8]| plant(x.as_mut_ptr().wrapping_add(10), 1);
        rt.task("wrong", x.slice(50..60).commutative()).cpu(body).submit().unwrap();
    };
    expect(program, &[(0, WroteOutside, "0 bytes after its last element", 1)]);
}

#[test]
fn changed_input_is_found() {
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![1.0; 8]), rt.data(vec![1.0; 8]));
        let body = |_: &Context, (x, y): (&[f64], &mut [f64])| {
            y.copy_from_slice(x);
            plant(x.as_ptr().cast_mut().wrapping_add(1), 3.0)
        };
        rt.task("wrong", (x.slice(4..).input(), y.slice(..4).output())).cpu(body).submit().unwrap();
    };
    expect(program, &[(0, ChangedInput, "[5]", 1)]);
}

#[test]
fn changed_input_block_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.array(Array2::<u16>::zeros((8, 9)));
        let body = |_: &Context, x: ArrayView2<'_, u16>| {
            let at: *const u16 = &x[[1, 2]];
            plant(at.cast_mut(), 3)
        };
        rt.task("wrong", x.block((2..5, 3..7)).input()).cpu(body).submit().unwrap();
    };
    expect(program, &[(0, ChangedInput, "[3, 5]", 1)]);
}

#[test]
fn unwritten_end_of_an_output_is_found() {
    expect(|rt| output(rt, |x| x[..3].fill(2.0)), &[(0, LeftUnwritten, "[5]", 1)]);
}

#[test]
fn untouched_output_is_found() {
    expect(|rt| output(rt, |_| ()), &[(0, LeftUnwritten, "[2]", 4)]);
}

#[test]
fn unwritten_column_of_an_output_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.array(Array2::<f32>::zeros((8, 9)));
        let body = |_: &Context, mut x: ArrayViewMut2<'_, f32>| x.slice_mut(ndarray::s![.., ..3]).fill(1.0);
        rt.task("wrong", x.block((2..5, 3..7)).output()).cpu(body).submit().unwrap();
    };
    expect(program, &[(0, LeftUnwritten, "[2, 6]", 3)]);
}

#[test]
fn unwritten_bytes_of_an_output_are_found() {
    let program = |rt: &Runtime| {
        let x = rt.data(vec![0u8; 100]);
        rt.task("wrong", x.output()).cpu(|_, x| x[..60].fill(9)).submit().unwrap();
    };
    expect(program, &[(0, LeftUnwritten, "[60]", 40)]);
}

#[test]
fn output_that_is_updated_is_found() {
    expect(|rt| output(rt, |x| x.iter_mut().for_each(|x| *x += 1.0)), &[(0, LeftUnwritten, "[2]", 4)]);
}

#[test]
fn output_that_is_read_into_another_one_is_found() {
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![1.0f32; 8]), rt.data(vec![1.0f32; 8]));
        let body = |_: &Context, (x, y): (&mut [f32], &mut [f32])| {
            y[3] = -2.0 * x[3] + 1.0;
            x.fill(1.0);
        };
        rt.task("wrong", (x.output(), y.inout())).cpu(body).submit().unwrap();
    };
    expect(program, &[(1, ReadUnwritten, "[3]", 1)]);
}

#[test]
fn read_outside_of_a_region_is_found() {
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![1.0; 8]), rt.data(vec![1.0; 8]));
        let body = |_: &Context, (x, y): (&[f64], &mut [f64])| {
            (0..4).for_each(|n| y[n] = peek(x.as_ptr().wrapping_add(n)) + peek(x.as_ptr().wrapping_add(n + 1)));
        };
        rt.task("wrong", (x.slice(..4).input(), y.slice(..4).output())).cpu(body).submit().unwrap();
    };
    expect(program, &[(1, ReadOutside, "[3]", 1)]);
}

/// The address of an array's memory, as a program may have it from elsewhere.
struct Address(*mut f64);
// SAFETY: the tests use it only in the body of one task at a time.
unsafe impl Send for Address {}

impl Address {
    fn write(&self, at: usize) {
        plant(self.0.wrapping_add(at), 9.0)
    }
}

fn array_with_address(rt: &Runtime) -> (Data<f64>, Address) {
    let mut elements = vec![1.0; 8];
    let address = Address(elements.as_mut_ptr());
    (rt.data(elements), address)
}

#[test]
fn write_past_the_view_is_found() {
    let program = |rt: &Runtime| {
        let (x, address) = array_with_address(rt);
        rt.task("wrong", x.slice(2..6).inout()).cpu(move |_, _| address.write(3)).submit().unwrap();
    };
    expect_on(&["2:CPU:1"], program, &[(0, WroteElsewhere, "[3]", 1)]);
}

#[test]
fn write_to_an_input_past_the_view_is_found() {
    let program = |rt: &Runtime| {
        let (x, address) = array_with_address(rt);
        rt.task("wrong", x.slice(2..6).input()).cpu(move |_, _| address.write(3)).submit().unwrap();
    };
    expect_on(&["2:CPU:1"], program, &[(0, ChangedInput, "[3]", 1)]);
}

/// Submits a task with a region of type float64 whose type is known only at run time.
fn dynamic(rt: &Runtime, reads: bool, body: impl FnOnce(&mut AnyView<'_>) + Send + 'static) {
    let x = AnyData::zeros(rt, Dtype::F64, &[8]).unwrap();
    let region = x.block(std::slice::from_ref(&(2..6)));
    let access = if reads { region.input() } else { region.output() };
    rt.task("wrong", vec![access]).cpu(move |_, mut views| body(&mut views[0])).submit().unwrap();
}

#[test]
fn dynamic_write_outside_is_found() {
    let body = |view: &mut AnyView<'_>| {
        let x = view.as_mut_ptr().cast::<f64>();
        (0..5).for_each(|n| plant(x.wrapping_add(n), 1.0));
    };
    expect(|rt| dynamic(rt, false, body), &[(0, WroteOutside, "0 bytes after its last element", 8)]);
}

#[test]
fn dynamic_unwritten_output_is_found() {
    let body = |view: &mut AnyView<'_>| view.bytes_mut().unwrap()[..16].fill(0);
    expect(|rt| dynamic(rt, false, body), &[(0, LeftUnwritten, "[4]", 2)]);
}

#[test]
fn dynamic_changed_input_is_found() {
    let body = |view: &mut AnyView<'_>| plant(view.as_ptr().cast_mut(), 1);
    expect(|rt| dynamic(rt, true, body), &[(0, ChangedInput, "[2]", 1)]);
}

#[test]
fn iteration_that_writes_its_neighbours_part_is_found() {
    let program = |rt: &Runtime| {
        let x = rt.data((0..12).map(f64::from).collect::<Vec<_>>());
        let body = |_: &Context, x: &mut [f64]| {
            if x[0] == 4.0 {
                plant(x.as_mut_ptr().wrapping_sub(1), 0.0)
            }
        };
        rt.for_each("wrong", x.blocks(4).inout()).cpu(body).submit().unwrap();
    };
    expect(program, &[(0, WroteOutside, "8 bytes before its first element", 8)]);
}

#[test]
fn task_of_a_recording_is_checked_in_each_replay() {
    let rt = sanitizing("1:CPU:1");
    let (x, calls) = (rt.data(vec![1.0; 4]), std::sync::atomic::AtomicUsize::new(0));
    let mut recording = rt
        .record(|r| {
            let body = move |_: &Context, x: &mut [f64]| {
                let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                x[..if call == 1 { 3 } else { 4 }].fill(1.0);
            };
            r.task("wrong", x.output()).cpu(body).submit().map(|_| ())
        })
        .unwrap();
    recording.replay().unwrap();
    rt.wait().unwrap();
    recording.replay().unwrap();
    assert_eq!(findings(&rt), [(0, LeftUnwritten, "[3]".to_owned(), 1)]);
    recording.replay().unwrap();
    assert_eq!(rt.take(x).unwrap(), [1.0; 4]);
}

#[test]
fn child_is_checked_like_its_parent() {
    let program = |rt: &Runtime| {
        let x = rt.data(vec![1.0; 4]);
        let child = x.clone();
        let body =
            move |cx: &Context, ()| cx.task("wrong", child.output()).cpu(|_, x| x[1..].fill(0.0)).submit().map(|_| ());
        rt.task("parent", x.weak_inout()).host(body).submit().unwrap();
    };
    expect_on(&["2:CPU:1"], program, &[(0, LeftUnwritten, "[0]", 1)]);
}

#[test]
fn several_findings_are_reported_together() {
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![1.0; 4]), rt.data(vec![1.0; 4]));
        let body = |_: &Context, (x, y): (&[f64], &mut [f64])| {
            plant(x.as_ptr().cast_mut(), 5.0);
            plant(y.as_mut_ptr().wrapping_add(4), 5.0);
        };
        rt.task("wrong", (x.input(), y.output())).cpu(body).submit().unwrap();
    };
    let outside = (1, WroteOutside, "0 bytes after its last element", 8);
    expect(program, &[(0, ChangedInput, "[0]", 1), outside, (1, LeftUnwritten, "[0]", 4)]);
}

#[test]
fn failing_body_keeps_its_own_error() {
    let rt = sanitizing("1:CPU:1");
    let x = rt.data(vec![1.0; 4]);
    rt.task("wrong", x.output()).cpu(|_, _| Err("no")).submit().unwrap();
    let error = rt.wait().unwrap_err().to_string();
    assert!(error.contains("failed: no") && !error.contains("cannot accept"), "{error}");
}
