//! Mistakes in sizes, alignments and counts, which must not compromise memory safety. Mistakes that the type system
//! prevents are in `compile_fail/`.

#![allow(unsafe_code)] // for `Pod` types and promises about kernel texts

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::memory::Elementwise;
use thalweg::prelude::*;

/// Returns the panic message of a call.
fn panic_of<R>(call: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(_) => panic!("the call should have been refused"),
        Err(message) => *message.downcast::<String>().expect("the message is formatted"),
    }
}

/// Fills an array of zeros with ones. Large arrays are aligned to a cache line.
fn zeros_become_ones<T: Element + PartialEq>(rt: &Runtime, one: fn() -> T) {
    let large = (256 << 10) / size_of::<T>();
    for len in [1, large, large + 1] {
        let x: Data<T> = rt.zeros(len);
        rt.task("zeros?", (x.input(),)).cpu(|_, (x,)| assert!(x.iter().all(|x| *x == T::zeroed()))).submit().unwrap();
        rt.task("ones", (x.inout(),)).cpu(move |_, (x,)| x.fill(one())).submit().unwrap();
        let x = rt.take(x).unwrap();
        assert!(x.len() == len && x.iter().all(|x| *x == one()));
    }
}

#[test]
fn zeros_work_for_elements_of_any_size() {
    for units in ["1:CPU:1", "1:EMU:1"] {
        let rt = common::runtime(units);
        zeros_become_ones(&rt, || 1u8);
        zeros_become_ones(&rt, || 1.0f64);
        zeros_become_ones(&rt, || [1.0f64; 3]);
        zeros_become_ones(&rt, || [1.0f64; 8]); // the size of a cache line, aligned to an eighth of it
        zeros_become_ones(&rt, || [1u8; 64]);
        zeros_become_ones(&rt, || [1.0f64; 32]);
        zeros_become_ones(&rt, || Page([1; 4096]));
    }
}

#[test]
fn arrays_larger_than_the_address_space_are_refused() {
    let rt = common::runtime("1:CPU:1");
    let half = 1usize << 63;
    let refused = [
        panic_of(|| rt.zeros::<u64, _>([half + 1, 2])), // 2 elements, if the product wrapped
        panic_of(|| rt.zeros::<u64, _>([half, 2])),     // 0 elements, likewise
        panic_of(|| rt.zeros::<u8, _>(usize::MAX)),
        panic_of(|| rt.zeros::<u64, _>(usize::MAX / 8)), // more bytes than half of the address space
        panic_of(|| rt.zeros::<(), _>([half, half])),    // no bytes, but the count overflows
        panic_of(|| rt.zeros::<u64, _>([half, 0, half])), // empty, but the strides overflow
        panic_of(|| rt.zeros::<u8, _>([1 << 16, 1 << 16, 1 << 16, 1 << 16])),
    ];
    for message in refused {
        assert!(message.contains("cannot register an array of") && message.contains("try"), "{message}");
    }
    let empty: Data<u64, Ix2> = rt.zeros([0, 1 << 40]);
    assert!(empty.is_empty());
    let nothing: Data<()> = rt.zeros(1 << 40);
    assert_eq!(rt.take(nothing).unwrap().len(), 1 << 40);
}

#[test]
fn region_whose_size_overflows_is_out_of_bounds() {
    let rt = common::runtime("1:CPU:1");
    let x = rt.array(ndarray::Array2::<u64>::zeros((4, 4)));
    for (rows, columns) in [(0..usize::MAX, 0..usize::MAX), (0..1 << 32, 0..1 << 32), (0..usize::MAX, 3..4)] {
        let region = x.block((rows, columns));
        assert!(region.len() > 1 << 62);
        let error = rt.task("large", (region.inout(),)).cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(error, SubmitError::OutOfBounds { .. }), "{error}");
    }
    assert!(blocks(10, usize::MAX).eq(std::iter::once(0..10)));
}

/// An element that is aligned to a page.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);
// SAFETY: the type is an array of bytes, so it has no padding and every bit pattern is valid.
unsafe impl bytemuck::Zeroable for Page {}
// SAFETY: the type is an array of bytes, so it has no padding and every bit pattern is valid.
unsafe impl bytemuck::Pod for Page {}

#[test]
fn elements_are_aligned_in_every_memory() {
    for units in ["1:CPU:1", "1:EMU:1", "2:EMU:1"] {
        let rt = common::runtime(units);
        let (sent, got) = channel();
        for _ in 0..8 {
            let (x, y): (Data<Page>, Data<Page>) = (rt.data(vec![Page([1; 4096]); 3]), rt.zeros(5));
            let sent = sent.clone();
            rt.task("look", (x.slice(1..3).inout(), y.slice(1..).output()))
                .cpu(move |_, (x, y)| {
                    sent.send([x.as_ptr().addr(), y.as_ptr().addr()]).unwrap();
                    y.fill(Page([0; 4096])); // the contents of an output are undefined before this
                    (x[0].0[0], y[0].0[0]) = (7, 8);
                })
                .submit()
                .unwrap();
            let first = |pages: Vec<Page>| pages.into_iter().map(|page| page.0[0]).collect::<Vec<_>>();
            assert_eq!(first(rt.take(x).unwrap()), [1, 7, 1]);
            assert_eq!(first(rt.take(y).unwrap()), [0, 8, 0, 0, 0]);
        }
        let looked: Vec<usize> = got.try_iter().flatten().collect();
        assert_eq!(looked.len(), 16);
        // Use `black_box`, because otherwise the compiler could assume that references are aligned, which is what this
        // line checks.
        assert!(looked.iter().all(|address| std::hint::black_box(*address) % 4096 == 0), "{units}: {looked:x?}");
    }
}

#[test]
fn elementwise_reduction_covers_whole_array_elements() {
    let rt = common::runtime("1:CPU:1,1:EMU:1");
    let x: Data<[f64; 8]> = rt.zeros(3);
    for _ in 0..10 {
        rt.task("add", (x.reduction(Elementwise(Sum)),))
            .cpu(|_, (x,)| x.iter_mut().for_each(|x| x.iter_mut().for_each(|x| *x += 1.0)))
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [[10.0; 8]; 3]);
}

const TEXT: &str = "
    KERNEL(64, 1, 1) fill(OUT(double, y, n), double value, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = value;
    }
    KERNEL(64, 1, 1) copy(IN(double, x, m), OUT(double, y, n), INT64 m, UINT64 n)
    {
        REGION(x); REGION(y);
        INT64 i = GLOBAL_ID(0);
        if (i < m && (UINT64)i < n) y[i] = x[i];
    }
    KERNEL(8, 8, 1) fill_rows(OUT(double, y, [rows : stride][columns]), int rows, int columns, INT64 stride)
    {
        REGION(y);
        int i = GLOBAL_ID(1), j = GLOBAL_ID(0);
        if (i < rows && j < columns) y[i * stride + j] = 1.0;
    }
";
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("memory_safety.cl", TEXT) };
static FILL: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&PROGRAM, "fill");
static COPY: Kernel<(Read<f64>, Write<f64>, i64, u64)> = Kernel::new(&PROGRAM, "copy");
static FILL_ROWS: Kernel<(Write<f64>, i32, i32, i64)> = Kernel::new(&PROGRAM, "fill_rows");

/// Returns a new runtime with an accelerator.
fn accelerator() -> Option<Runtime> {
    Some(common::accelerated("1:OPENCL:1")?.build().unwrap())
}

/// Returns the text of the failure of the only submitted task.
fn failure(rt: &Runtime) -> String {
    match rt.wait() {
        Err(RunError::Failed(failures)) => failures.to_string(),
        other => panic!("the task should have failed: {other:?}"),
    }
}

#[test]
fn launch_with_a_count_beyond_the_region_is_refused() {
    let Some(rt) = accelerator() else { return };
    let x = rt.data(vec![5.0; 100]);
    rt.task("place", (x.inout(),)).gpu(|_, _| ()).submit().unwrap();
    for count in [11, 1000, i32::MAX, -1, i32::MIN] {
        rt.task("too many", (x.slice(20..30).output(),))
            .gpu(move |k, (mut y,)| k.launch(&FILL, 100_000, (&mut y, 1.0, count)))
            .submit()
            .unwrap();
        let why = failure(&rt);
        assert!(["too many", "`fill`", "`y`", "has [10]", "try counts"].iter().all(|word| why.contains(word)), "{why}");
        // This task reads nothing, so it clears the poison of the failed task.
        rt.task("as many", (x.slice(20..30).output(),))
            .gpu(|k, (mut y,)| k.launch(&FILL, 100_000, (&mut y, 2.0, 10)))
            .submit()
            .unwrap();
        rt.wait().unwrap();
    }
    let found = rt.take(x).unwrap();
    assert!(found.iter().enumerate().all(|(i, x)| *x == if (20..30).contains(&i) { 2.0 } else { 5.0 }), "{found:?}");
}

#[test]
fn launch_checks_regions_that_are_read_like_those_written() {
    let Some(rt) = accelerator() else { return };
    let (x, y) = (rt.data((0..20).map(f64::from).collect::<Vec<_>>()), rt.data(vec![0.0; 20]));
    for (m, n, good) in
        [(10, 10, true), (11, 10, false), (10, 11, false), (-1, 10, false), (10, u64::MAX, false), (3, 0, true)]
    {
        rt.task("copy", (x.slice(5..15).input(), y.slice(0..10).output()))
            .gpu(move |k, (x, mut y)| k.launch(&COPY, 64, (&x, &mut y, m, n)))
            .submit()
            .unwrap();
        assert_eq!(rt.wait().is_ok(), good, "{m} {n}");
    }
}

#[test]
fn launch_with_a_stride_beyond_the_block_is_refused() {
    let Some(rt) = accelerator() else { return };
    let x = rt.array(ndarray::Array2::<f64>::zeros((8, 9)));
    rt.task("place", (x.inout(),)).gpu(|_, _| ()).submit().unwrap();
    for (rows, columns, stride) in
        [(3, 4, 9), (3, 4, 10), (3, 4, 8), (3, 5, 9), (4, 4, 9), (1, 4, 0), (3, 4, -9), (0, 4, 9)]
    {
        let fits = rows <= 3 && columns <= 4 && (stride == 9 || rows == 1);
        rt.task("rows", (x.block((2..5, 3..7)).output(),))
            .gpu(move |k, (mut y,)| {
                assert_eq!((y.extents()[..2].to_vec(), y.strides()[0]), (vec![3, 4], 9));
                k.launch(&FILL_ROWS, [64, 64], (&mut y, rows, columns, stride))
            })
            .submit()
            .unwrap();
        assert_eq!(rt.wait().is_ok(), fits, "{rows} {columns} {stride}");
    }
}

#[test]
fn launch_checks_the_bounds_of_scratch_memory() {
    let Some(rt) = accelerator() else { return };
    let x = rt.scalar(0.0);
    rt.task("scratch", (x.inout(),))
        .gpu(|k, (x,)| {
            let mut scratch = k.scratch::<f64>(10)?;
            k.launch(&FILL, 10, (&mut scratch, 1.0, 10))?;
            let refused = k.launch(&FILL, 10, (&mut scratch, 1.0, 11)).unwrap_err();
            assert!(matches!(refused, DeviceError::Bounds { .. }), "{refused}");
            let refused = k.launch(&COPY, 1, (&x, &mut scratch, 2, 1)).unwrap_err();
            assert!(refused.to_string().contains("`x`"), "{refused}");
            // Request more than the device has, and a size that overflows when it is rounded up.
            assert!(k.scratch::<f64>(usize::MAX / 8).is_err() && k.scratch::<f64>(usize::MAX).is_err());
            k.launch(&FILL, 1, (&mut scratch, 2.0, 1))
        })
        .submit()
        .unwrap();
    rt.wait().unwrap();
}

#[test]
fn launch_with_more_threads_than_an_int_counts_is_refused() {
    let Some(rt) = accelerator() else { return };
    let x = rt.data(vec![0.0; 64]);
    rt.task("threads", (x.output(),))
        .gpu(|k, (mut x,)| {
            for threads in [1 << 31, (1 << 31) - 63, usize::MAX] {
                let refused = k.launch(&FILL, threads, (&mut x, 1.0, 64)).unwrap_err();
                assert!(matches!(refused, DeviceError::Geometry { .. }), "{refused}");
            }
            k.launch(&FILL, 64, (&mut x, 3.0, 64))
        })
        .submit()
        .unwrap();
    assert_eq!(rt.take(x).unwrap(), [3.0; 64]);
}

#[test]
fn empty_zero_sized_and_over_aligned_arrays_can_be_borrowed() {
    for units in common::MIXES {
        let rt = common::runtime(units);
        let (mut none, mut nothing, mut wide) = (Vec::<u64>::new(), [(); 5], [Page([1; 4096]); 3]);
        let mut flat = ndarray::Array2::<u8>::zeros((0, 7));
        rt.scope(|s| {
            let (x, y, z) = (s.borrow_mut(&mut none), s.borrow_mut(&mut nothing), s.borrow_mut(&mut wide[1..]));
            let f = s.borrow_array_mut(flat.view_mut()).unwrap();
            s.task("all", (x.inout(), y.inout(), z.inout(), f.inout()))
                .cpu(|_, (x, y, z, f)| {
                    assert_eq!((x.len(), y.len(), z.len(), f.dim()), (0, 5, 2, (0, 7)));
                    assert_eq!(z.as_ptr().addr() % 4096, 0);
                    z[1].0[4095] = 2;
                })
                .submit()
                .unwrap();
        })
        .unwrap();
        assert!(wide[2].0[4095] == 2 && wide[0] == wide[1]);
    }
}

/// Under valgrind, this test detects accesses to memory that was not borrowed or has already been returned.
#[test]
fn borrowed_heap_memory_is_not_touched_after_its_scope() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1", "1:EMU:1"] {
        let rt = common::runtime(units);
        for n in 0..20u64 {
            let mut square = Box::new(ndarray::Array2::from_elem((6, 8), n));
            let name = String::from("captured");
            rt.scope(|scope| {
                let x = scope.borrow_array_mut(square.slice_mut(ndarray::s![1..5, 2..7])).unwrap();
                for row in 0..4 {
                    let name = &name;
                    let body = move |_: &thalweg::Context, (mut x,): (ndarray::ArrayViewMut2<'_, u64>,)| {
                        x += name.len() as u64;
                    };
                    scope.task("add", (x.block((row, ..)).inout(),)).cpu(body).submit().unwrap();
                    scope.task("sum", (x.block((.., row)).reduction(Sum),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
                    scope
                        .task("more", (x.block((row, ..)).accumulate(Sum),))
                        .cpu(|_, (mut x,)| x += 1)
                        .submit()
                        .unwrap();
                }
                scope.task("fails", (x.block((3, 4)).inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
            })
            .unwrap_err();
            assert_eq!(square.sum(), 48 * n + 20 * 8 + 16 + 20);
            drop((square, name));
        }
    }
}
