//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks as dependent tasks.
//!
//! A mesh is cut into zones, which are solved side by side and exchange their faces in every step. Results are verified
//! against the official values; the rate is NPB's own count of operations per second (NASA report NAS-03-010).
//!
//! | files | what is in them |
//! | --- | --- |
//! | `program`, `stages`, `whole`, `nested`, `log` | the run as tasks: the only part that knows of the runtime |
//! | `plain`, `plain_loop`, `serial`, `placement` | the same as a plain loop |
//! | `bt`, `sp`, `lu` | the three methods, on the arrays of one zone |
//! | `gpu` | the same on accelerators: the calls of the kernels in `kernels/` |
//! | `operator`, `passes`, `in_z`, `update`, `physics`, `initial`, `exchange`, `faces`, `norms` | what they share |
//! | `lanes`, `lines`, `columns`, `rows`, `components`, `prefetch` | many grid lines at once in the lanes of vector registers |
//! | `classes`, `zones`, `verify` | problem sizes and reference values |

#![allow(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

#[macro_use]
mod lanes;

mod bt;
mod classes;
mod columns;
mod components;
mod exchange;
mod faces;
mod gpu;
mod in_z;
mod initial;
mod lines;
mod log;
mod lu;
mod nested;
mod norms;
mod operator;
mod passes;
mod physics;
mod placement;
mod plain;
mod plain_loop;
mod prefetch;
mod program;
mod report;
mod rows;
mod serial;
mod sp;
mod stages;
mod stopwatch;
#[cfg(test)]
mod tests;
mod update;
mod verify;
mod whole;
mod zones;

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
