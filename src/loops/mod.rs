//! Tasks made from functions of loops: written once, for cores and all accelerators (feature `macros`).
//!
//! The attribute [`target`] turns a plain function into a task. The types of its parameters define the accesses: the
//! task reads `&` parameters, reads and writes `&mut` parameters, and overwrites [`Out`] parameters.
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
//! println!("{}", vecadd::KERNELS); // the code that accelerators run
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The function itself is unchanged and can be called. In addition there is a type of the same name, with
//! - `task(&runtime, ..)`, which begins the description of a task: each array is a data object or a region;
//! - `KERNELS`, the text of its kernels.
//!
//! # Sharing out
//!
//! | attribute | above | the loop's iterations are shared out over |
//! | --- | --- | --- |
//! | none | an outermost loop | teams and their threads, as with the next two together |
//! | `#[distribute]` | an outermost loop | teams: groups of threads that share memory and can wait for each other |
//! | `#[parallel_for]` | a loop inside such a one, up to three deep | the threads of a team |
//! | `#[distribute] #[parallel_for]` | an outermost loop | teams and their threads at once |
//!
//! On cores, the outermost loop is shared out over the unit's cores, and the other loops run as written. On
//! accelerators iterations are dealt out cyclically; the innermost of nested loops gets neighbouring threads.
//!
//! | clause | on | effect |
//! | --- | --- | --- |
//! | `reduction(+: sum)`, also `*`, `min`, `max` | `parallel_for` | combines contributions to `sum` in a fixed order |
//! | `scan(+: sum)`, also `*`, `min`, `max` | `parallel_for` | iterations read the running `sum`, see below |
//! | `dist_firstprivate([N] x)` | `distribute` | each team keeps N elements of `x` at a time, those of its iterations |
//! | `dist_lastprivate([N] x)` | `distribute` | the same, and their final values are written to `x` |
//! | `dist_private([N] x)` | `distribute` | the same without initial or final copies |
//! | `teams(num = N, thread_limit = N)` | `target` | maximum number of teams, and of threads in each (256) |
//! | `teams(firstprivate(x: N))` | `target` | each team has a copy of all of `x`, at most N elements |
//! | `teams(private(x: N))` | `target` | each team has a private array `x`; the task does not access it |
//! | `split`, `split = N` | `target` | adds a function `split` next to `task`, see below |
//! | `fuse` | `target` | fuses two loops over the same range, if iterations allow it |
//! | `shared(x)` | `target` | iterations may write the same element of `x`: on cores they run one after the other |
//! | `off(team_memory, once, innermost_first)` | `target` | disables optimizations |
//!
//! # Running sums
//!
//! A variable declared before a loop over teams and threads, `let mut sum = 0.0`, or a parameter `sum: &mut f64`, may
//! be added to once in each iteration and read in it: before `sum += ..` without this iteration's contribution, after
//! it with the contribution. Devices add up runs of iterations in one kernel, compute the prefix of each run, and run
//! the loop from there; so the contribution may depend neither on the sum nor on earlier stores of the loop. Sums and
//! products of floating-point numbers are combined in the same order on all machines, cores included, which is not
//! the order of the plain loop; all other results equal those of the plain loop. After the loop, a parameter holds
//! the sum of all runs, whose last bits may differ from the value that the last iteration saw.
//!
//! # Splitting into several tasks
//!
//! With the option `split` there is a function `split(&runtime, ..)` next to `task`. It submits a task for each of N
//! parts of the outermost loop, or two per unit without a number; the scheduler chooses where each runs. A task
//! accesses the smallest box of each array that includes all elements its iterations touch, as far as indices are
//! formed from loop variables, with a halo if they are `i - 1`; it accesses all of an array that is read at
//! data-dependent indices. Parts that write the same elements are refused with
//! [`SubmitError::Split`](crate::error::SubmitError::Split). Each task adds to private sums, which are combined in
//! the order of the parts: so a sum's last bits depend on N, and on nothing else.
//!
//! # The supported subset
//!
//! Numbers, `let`, `if`, `while`, `for` over ranges, arrays `[0.0; N]`, elements `a[i]`, `a[[i, j]]`, `a[[i, j, k]]`
//! of slices and of `ArrayRef2` and `ArrayRef3`, constants in capitals, mathematical functions, and calls of
//! functions with the attribute [`device`]. Anything else is a compile error at its place, which says what to write
//! instead.
//!
//! Both bodies give the same bits, as long as only `+ - * /` and `sqrt` are used and the accelerator's compiler fuses
//! no operations (NVIDIA's may). An index out of bounds is a panic on cores; on an accelerator such an element reads
//! as 0, and is not written.

// Items called only by generated code are not part of the interface, and their names are self-explanatory.
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

/// A parameter that the task overwrites (`out`). For the function itself it is a mutable reference.
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

/// The items that the code generated by [`target`] uses. Not for direct use: they may change with any version.
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

    /// The part of a runtime that generated code needs.
    pub trait Counts {
        /// Counts bytes that fused loops do not read a second time.
        fn count_spared(&self, bytes: u64);
    }

    /// Counts the elements that fused loops do not read a second time.
    pub fn spared(runtime: &impl Counts, len: usize, bytes: usize) {
        runtime.count_spared((len * bytes) as u64);
    }

    /// The header that kernels include in addition to the dialect.
    pub const LOOPS: &str = include_str!("../../kernels/loops.h");
}
