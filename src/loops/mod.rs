//! Tasks of functions of loops: written once, for cores and all accelerators (feature `macros`).
//!
//! The attribute [`target`] makes a task of a plain function. Directions are the types: what the function has by `&` the
//! task reads, what it has by `&mut` it reads and writes, what is [`Out`] it overwrites.
//!
//! ```
//! use thalweg::loops::Out;
//! use thalweg::prelude::*;
//!
//! #[thalweg::loops::target]
//! fn vecadd(a: &[f64], b: &[f64], c: Out<'_, [f64]>) {
//!     for i in 0..c.len() {
//!         c[i] = a[i] + b[i];
//!     }
//! }
//!
//! let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
//! let (a, b, c) = (rt.data(vec![1.0; 1000]), rt.data(vec![2.0; 1000]), rt.zeros(1000));
//! vecadd::task(&rt, &a, &b, &c).submit()?;
//! assert_eq!(rt.take(c)?, [3.0; 1000]);
//! println!("{}", vecadd::KERNELS); // what accelerators run
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The function itself stays what it is, and can be called. Beside it there is a type of its name, with
//! - `task(&runtime, ..)`, which begins the description of a task: each array is a data object or a region;
//! - `KERNELS`, the text of its kernels.
//!
//! # Sharing out
//!
//! | attribute | above | the loop's iterations are shared out over |
//! | --- | --- | --- |
//! | none | an outermost loop | teams and their threads, as with the next two together |
//! | `#[distribute]` | an outermost loop | teams: groups of threads with memory of their own, that can wait for each other |
//! | `#[parallel_for]` | a loop inside such a one, up to three deep | the threads of a team |
//! | `#[distribute] #[parallel_for]` | an outermost loop | teams and their threads at once |
//!
//! On cores the outermost loop is shared out over the unit's cores, and the others are as they are written. On accelerators
//! iterations are dealt out in turns; the innermost of nested loops gets neighbouring threads.
//!
//! | clause | of | what it does |
//! | --- | --- | --- |
//! | `reduction(+: sum)`, also `*`, `min`, `max` | `parallel_for` | combines what threads add to `sum`, always in the same order |
//! | `scan(+: sum)`, also `*`, `min`, `max` | `parallel_for` | iterations read `sum` so far, see below |
//! | `dist_firstprivate([N] x)` | `distribute` | teams have N elements of `x` at a time in their memory, those of their iterations |
//! | `dist_lastprivate([N] x)` | `distribute` | the same, and what they hold at the end goes to `x` |
//! | `dist_private([N] x)` | `distribute` | the same without either |
//! | `teams(num = N, thread_limit = N)` | `target` | at most so many teams, and so many threads in each (256) |
//! | `teams(firstprivate(x: N))` | `target` | each team has a copy of all of `x`, N elements at most |
//! | `teams(private(x: N))` | `target` | each team has an array `x` of its own; the task does not access it |
//! | `split`, `split = N` | `target` | a function `split` beside `task`, see below |
//! | `fuse` | `target` | two loops over the same range become one, where iterations allow it |
//! | `shared(x)` | `target` | iterations may write the same element of `x`: on cores they run one after the other |
//! | `off(team_memory, once, innermost_first)` | `target` | leaves optimizations out |
//!
//! # Running sums
//!
//! A variable from before a loop over teams and threads, `let mut sum = 0.0`, or a parameter `sum: &mut f64`, may be added to
//! once in each iteration and read by it: in front of `sum += ..` without what this iteration adds, behind it with it. Devices
//! add up runs of iterations in a kernel, find what stands before each run, and run the loop from there; so what is added
//! depends neither on the sum nor on what the loop stores in front of it. Sums and products of floating-point numbers are
//! combined in the same order on all machines, cores included, which is not that of the plain loop; all else is as there.
//! What a parameter holds behind the loop is the sum of all runs, whose last bits need not be those that the last iteration saw.
//!
//! # In pieces
//!
//! With the option `split` there is a function `split(&runtime, ..)` beside `task`, which submits a task for each of N parts of
//! the outermost loop, two for each unit without a number; the scheduler chooses where each runs. A task gets of each array the
//! least box that includes what its iterations touch, as far as indices are made of loops' variables, with a halo where they
//! are `i - 1`; of what is read at an index that depends on data, all. Parts that write the same elements are refused with
//! [`SubmitError::Split`](crate::error::SubmitError::Split). Each adds to sums of its own, which are combined in the order of
//! the parts: so a sum's last bits depend on N, and on nothing else.
//!
//! # What loops consist of
//!
//! Numbers, `let`, `if`, `while`, `for` over ranges, arrays `[0.0; N]`, elements `a[i]`, `a[[i, j]]`, `a[[i, j, k]]` of slices and
//! of `ArrayRef2` and `ArrayRef3`, constants in capitals, mathematical functions, and calls of functions with the attribute
//! [`device`]. Anything else is an error at its place, which says what to write instead.
//!
//! Both bodies give the same bits, as long as only `+ - * /` and `sqrt` are used and the accelerator's compiler fuses nothing
//! (NVIDIA's may). An index that leads out of its array is a panic on cores; on an accelerator such an element reads as 0,
//! and is not written.

// What generated code alone calls is no part of the interface, and its names say what it is.
#[allow(missing_docs)]
mod cores;
mod disjoint;
mod extents;
#[allow(missing_docs)]
mod form;
mod nest;
#[allow(missing_docs)]
mod number;
#[allow(missing_docs)]
mod parts;
#[allow(missing_docs)]
mod scan;
#[allow(missing_docs)]
mod shape;
mod variants;
#[allow(missing_docs)]
mod windows;

pub use thalweg_macros::{device, target};

/// A parameter that the task overwrites: `out`. For the function itself it is a mutable reference.
///
/// ```
/// use thalweg::loops::Out;
/// use thalweg::prelude::*;
/// #[thalweg::loops::target]
/// fn number(x: Out<'_, [u64]>) {
///     for i in 0..x.len() {
///         x[i] = i as u64;
///     }
/// }
/// let mut plain = [0; 4];
/// number(&mut plain);
/// assert_eq!(plain, [0, 1, 2, 3]);
/// ```
pub type Out<'a, T> = &'a mut T;

/// What the code that [`target`] makes is made of. Not for use by hand: it may change with any version.
#[doc(hidden)]
pub mod support {
    pub use super::cores::{chunks, collect, half_open, pieces, total, tree};
    pub use super::extents::{Extents, Measure};
    pub use super::form::{Form, Whole};
    pub use super::nest::Nest;
    pub use super::number::Number;
    pub use super::parts::{Own, Part, part};
    pub use super::scan::{chunk_number, exclusive, is_cut, offsets};
    pub use super::shape::{Launch, MOST_TEAM_BYTES, Shape};
    pub use super::variants::Variants;
    pub use super::windows::{Piece, Product, Window, apart, extents};

    /// A runtime, as generated code needs it.
    pub trait Counts {
        /// Counts bytes that fused loops do not read again.
        fn count_spared(&self, bytes: u64);
    }

    /// Counts what fused loops do not read again.
    pub fn spared(runtime: &impl Counts, len: usize, bytes: usize) {
        runtime.count_spared((len * bytes) as u64);
    }

    /// What kernels are written with, beside the dialect.
    pub const LOOPS: &str = include_str!("../../kernels/loops.h");
}
