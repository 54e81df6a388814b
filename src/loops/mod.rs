//! Tasks generated from functions that consist of loops. The loops are written once and run on cores and on all
//! accelerators (feature `macros`).
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
//! The function itself is unchanged and can still be called. In addition, the attribute generates a type of the same
//! name, with
//! - `task(&runtime, ..)`, which begins the description of a task and takes a data object or a region for each array;
//! - `KERNELS`, the source text of the generated kernels.
//!
//! # Distribution
//!
//! | attribute | above | the loop's iterations are distributed over |
//! | --- | --- | --- |
//! | none | an outermost loop | teams and their threads, as with the next two together |
//! | `#[distribute]` | an outermost loop | teams: groups of threads that share memory and can wait for each other |
//! | `#[parallel_for]` | a loop inside one of these, up to three deep | the threads of a team |
//! | `#[distribute] #[parallel_for]` | an outermost loop | teams and their threads at once |
//!
//! On cores, the iterations of the outermost loop are distributed over the unit's cores, and the other loops run as
//! written. On accelerators, iterations are assigned cyclically; the innermost of several nested loops gets
//! neighbouring threads.
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
//! | `device(smp)`, `device(acc)` | `target` | the task runs on CPU units only; on accelerators and emulated devices only |
//! | `split`, `split = N` | `target` | adds a function `split` next to `task`, see below |
//! | `fuse` | `target` | fuses two loops over the same range, if iterations allow it |
//! | `shared(x)` | `target` | iterations may write the same element of `x`: on cores they run one after the other |
//! | `off(team_memory, once, innermost_first)` | `target` | disables optimizations |
//!
//! # Running sums
//!
//! Each iteration of a loop over teams and threads may add once to a running sum, and may read the sum. The running
//! sum is either a variable that is declared before the loop (`let mut sum = 0.0`) or a parameter (`sum: &mut f64`).
//! Before `sum += ..`, an iteration reads the sum without its own contribution, and after it, with its own
//! contribution. Devices first add up runs of consecutive iterations in one kernel, then compute the prefix of each
//! run, and finally run the loop starting from these prefixes. Therefore the contribution may depend neither on the
//! sum nor on earlier stores of the loop. Floating-point sums and products are combined in the same order on all
//! machines, including cores, but this is not the order of the plain loop; all other results equal those of the plain
//! loop. After the loop, a parameter holds the sum of all runs, whose last bits may differ from the value that the
//! last iteration saw.
//!
//! # Splitting into several tasks
//!
//! The option `split` adds a function `split(&runtime, ..)` next to `task`. This function submits one task for each
//! of N parts of the outermost loop; if N is not given, it submits two tasks per unit. The scheduler chooses where
//! each task runs. If the indices of an array are formed from loop variables, a task accesses the smallest box of the
//! array that includes all elements touched by the task's iterations; an index such as `i - 1` adds a halo to the
//! box. If an array is read at data-dependent indices, a task accesses the whole array. Parts that write the same
//! elements are refused with [`SubmitError::Split`](crate::error::SubmitError::Split). Each task adds to private
//! sums, which are combined in the order of the parts, so the last bits of a sum depend on N and on nothing else.
//!
//! # The supported subset
//!
//! The functions may contain numbers, `let`, `if`, `while`, `for` over ranges, arrays `[0.0; N]`, elements `a[i]`,
//! `a[[i, j]]`, `a[[i, j, k]]` of slices and of `ArrayRef2` and `ArrayRef3`, constants named in capitals,
//! mathematical functions, and calls of functions with the attribute [`device`]. Anything else is a compile error at
//! the offending token, with a message that says what to write instead.
//!
//! The results on cores and on accelerators are bitwise equal, as long as only `+ - * /` and `sqrt` are used and the
//! accelerator's compiler fuses no operations (NVIDIA's compiler may). An out-of-bounds index causes a panic on
//! cores; on an accelerator, the element reads as 0, and writes to it are ignored.

// Items that only generated code calls are not part of the public interface, and their names are self-explanatory.
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

/// A parameter that the task overwrites completely (`out`). For the function itself, it is a plain mutable reference.
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

/// The items used by code that [`target`] generates. They are not for direct use, and may change in any version.
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

    /// The part of a runtime's interface that generated code needs.
    pub trait Counts {
        /// Counts the bytes that fused loops avoid reading a second time.
        fn count_spared(&self, bytes: u64);
    }

    /// Counts the elements that fused loops avoid reading a second time.
    pub fn spared(runtime: &impl Counts, len: usize, bytes: usize) {
        runtime.count_spared((len * bytes) as u64);
    }

    /// The header that kernels include in addition to the dialect.
    pub const LOOPS: &str = include_str!("../../kernels/loops.h");
}
