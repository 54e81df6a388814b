//! The threads of a runtime: one hosts each unit, one copies for each device; rayon's are inside the units.
//!
//! Each starts pinned and named, and ends by itself when the runtime does. What they do is not here: tasks are run by
//! [`Host`], copies served by [`super::devices`]. Nothing is joined here either; whoever starts a thread keeps its handle.

use super::core::Core;
use super::devices::CopyJob;
use super::host::Host;
use crate::depend::{OwnedTask, Team, running};
use crate::engine::Command;
use crate::error::BuildError;
use crate::ids::DeviceId;
use crate::machine::ComputeUnit;
use core_affinity::CoreId;
use crossbeam_deque::Worker;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

fn pin(core: usize) {
    if !core_affinity::set_for_current(CoreId { id: core }) {
        tracing::debug!("core {core} can not be pinned to");
    }
}

fn thread_error(what: &str, source: std::io::Error) -> BuildError {
    BuildError::Thread { what: what.to_owned(), source }
}

/// The pool that rayon uses inside a unit's bodies.
///
/// A unit's own thread joins its pool, so that a body is already inside it. The thread of the user's that hosts a unit
/// does not: its own use of rayon stays as it is, and for a unit of one core there is no pool at all.
pub(super) fn inner_pool(core: &Core, unit: &ComputeUnit, join: bool) -> Result<Option<rayon::ThreadPool>, BuildError> {
    if unit.is_cpu() && unit.inner_cores() == 1 && !join {
        return Ok(None);
    }
    let cores = if unit.is_cpu() { unit.cores.clone() } else { unit.cores[..1].to_vec() };
    let (runtime, id, count) = (core.id, unit.id, cores.len());
    let team: Arc<Team> = Arc::default();
    if join {
        running::join(runtime, team.clone());
    }
    let mut builder = rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |n| format!("thalweg-{}.{n}", id.0))
        .start_handler(move |n| {
            pin(cores[n]);
            Host::enter_inside(runtime);
            running::join(runtime, team.clone());
        })
        .panic_handler(|payload| {
            // A task spawned into the pool and forgotten: nobody can be told but the log, and nothing may abort.
            tracing::error!("{}", crate::error::FailureReason::from_panic(payload));
        });
    if join {
        builder = builder.use_current_thread();
    }
    builder.build().map(Some).map_err(|error| thread_error(&format!("{id}"), std::io::Error::other(error)))
}

/// The thread that hosts a unit, pinned; it executes tasks until the runtime is dropped.
pub(super) fn start_unit(
    core: &Arc<Core>,
    unit: ComputeUnit,
    deque: Worker<OwnedTask>,
) -> Result<JoinHandle<()>, BuildError> {
    let core = core.clone();
    let what = unit.id.to_string();
    let life = move || {
        pin(unit.hosting_core());
        // In the pool or not, tasks run; without it rayon would only use the cores of others too.
        let pool = inner_pool(&core, &unit, true);
        if let Err(error) = &pool {
            tracing::warn!("{error}; rayon inside {} uses the global pool", unit.id);
        }
        let host = Host::new(&core, unit.id.index(), unit.id.index(), deque, None);
        host.clone().enter();
        Host::enter_inside(core.id);
        host.work(&core);
        Host::leave(core.id);
        drop(pool);
    };
    let name = format!("thalweg-{}", what.replace(' ', ""));
    std::thread::Builder::new().name(name).spawn(life).map_err(|source| thread_error(&what, source))
}

/// The thread that performs a device's copies, one after the other, until their queue is closed.
pub(super) fn start_copy_engine(
    core: &Arc<Core>,
    device: DeviceId,
    jobs: Receiver<CopyJob>,
) -> Result<JoinHandle<()>, BuildError> {
    let core = core.clone();
    let life = move || {
        let Some(devices) = core.devices() else { return };
        Host::enter_inside(core.id); // what a skipped body captured may be dropped here
        let mut out: Vec<Command> = Vec::new();
        while let Ok(job) = jobs.recv() {
            let Some(happened) = devices.serve(device, &job) else { return };
            core.engine.on(happened, &mut out);
            core.carry_out(None, &mut out);
        }
    };
    let what = format!("the copies of {device}");
    let name = format!("thalweg-copy{}", device.0);
    std::thread::Builder::new().name(name).spawn(life).map_err(|source| thread_error(&what, source))
}
