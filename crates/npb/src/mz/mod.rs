//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks as dependent tasks.
//!
//! A mesh is divided into zones, which are solved independently within a step and exchange their faces once per
//! step. Results are verified against the official values, and rates are given in NPB's own count of operations per
//! second (NASA report NAS-03-010).
//!
//! | files | contents |
//! | --- | --- |
//! | `program`, `stages`, `whole`, `batch`, `nested`, `log` | the run as tasks: the only part that uses the runtime |
//! | `plain`, `plain_loop`, `serial`, `placement` | the same run as a plain loop |
//! | `bt`, `sp`, `lu` | the three methods, on the arrays of one zone |
//! | `gpu` | the same on accelerators: the calls of the kernels in `kernels/` |
//! | `operator`, `passes`, `in_z`, `update`, `physics`, `initial`, `exchange`, `faces`, `norms` | shared code |
//! | `lanes`, `lines`, `columns`, `rows`, `components`, `prefetch` | many grid lines in the lanes of vectors |
//! | `classes`, `zones`, `verify` | problem sizes and reference values |
//!
//! The methods and the shared code compute on the arrays of one zone and know nothing about tasks. Conversely,
//! `program`, `stages` and `whole` declare the data that these functions read and write, and know nothing about
//! numerics. Zones receive their neighbours' faces in one of two ways: either separate tasks copy regions of the
//! zones' arrays (`exchange`), or a step ends by writing face arrays, which the neighbours' next steps read in
//! place (`faces`, the default).
//!
//! `plain_loop` runs the same functions on any number of threads. It works either on its own arrays (`plain`,
//! `serial`), which are placed like the runtime's arrays (`placement`), or on a program's arrays, inside a task
//! that accesses them all (`Program::in_loop`). Comparing the times of loop and tasks gives the cost of the
//! runtime. `npb-cg` is built in the same way.
//!
//! The tests are separate programs (`crates/npb/tests`, `crates/npb-cg/tests`), so that the numerics, which take
//! long to compile, are compiled only once. The modules used by the tests are public but hidden from the
//! documentation. The tests are slow without optimization and therefore not part of `cargo test`. Run them with
//! `cargo test --release --test mz --test lanes --test cg_numerics`.

#![allow(rustdoc::private_intra_doc_links, reason = "modules are public only for the tests")]
#![allow(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

// The modules below are public only for `tests/mz`, and are hidden from the documentation.
#[doc(hidden)]
#[macro_use]
pub mod lanes;

#[doc(hidden)]
pub mod bt;
#[doc(hidden)]
pub mod classes;
#[doc(hidden)]
pub mod columns;
#[doc(hidden)]
pub mod components;
#[doc(hidden)]
pub mod exchange;
#[doc(hidden)]
pub mod faces;
#[doc(hidden)]
pub mod gpu;
#[doc(hidden)]
pub mod initial;
#[doc(hidden)]
pub mod lines;
#[doc(hidden)]
pub mod lu;
#[doc(hidden)]
pub mod nested;
#[doc(hidden)]
pub mod operator;
#[doc(hidden)]
pub mod passes;
#[doc(hidden)]
pub mod physics;
#[doc(hidden)]
pub mod placement;
#[doc(hidden)]
pub mod plain_loop;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod sp;
#[doc(hidden)]
pub mod stages;
#[doc(hidden)]
pub mod update;
#[doc(hidden)]
pub mod verify;
#[doc(hidden)]
pub mod zones;

mod batch;
mod in_z;
mod log;
mod norms;
mod plain;
mod prefetch;
mod report;
mod rows;
mod serial;
mod stopwatch;
mod whole;

pub use classes::{Benchmark, Class, Fuse, Problem};
pub use lanes::{lanes, limit_lanes};
pub use log::Log;
pub use physics::{COMPONENTS, Mesh};
pub use plain::{Zone, Zones};
pub use plain_loop::{PlainLoop, ZoneMut};
pub use program::{Exchange, Periods, Program, RecordedSteps, Settings, Times};
pub use report::{banner, bytes_needed};
pub use serial::{PlainStage, Run, plain_stages, run as run_serially};
pub use stopwatch::Stopwatch;
pub use verify::{Norms, Verdict};
pub use zones::Shape;
