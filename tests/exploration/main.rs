//! Exploration of schedules (`thalweg::check`): errors that it finds, correct programs that it passes, and the
//! determinism of its schedules.

#[path = "../common/mod.rs"]
mod common;

mod correct;
mod counts;
mod wrong;

use thalweg::Runtime;
use thalweg::check::Explorer;

/// An explorer of schedules on these units.
fn on(units: &'static str) -> Explorer<'static> {
    Explorer::new().runtime(move |builder| builder.compute_units(units))
}

/// Submits a task without accesses.
fn task(rt: &Runtime, name: &'static str, body: impl Fn() + Send + Sync + 'static) {
    rt.task(name, ()).cpu(move |_, ()| body()).submit().unwrap();
}
