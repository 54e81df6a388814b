//! Conversion of a recording into a graph that is kept, which is possible if every task may run on any thread in host
//! memory.

use super::Recording;
use super::condition::Repeat;
use super::explanation::Obstacle;
use super::step::Step;
use crate::depend::{Datum, Freezer, Fringe, Keeps, Replays, Settle, running};
use crate::error::SubmitError;
use crate::ids::TaskId;
use crate::memory::settle;
use crate::runtime::door::Door;
use crate::task::Kept;
use std::sync::Arc;

impl Keeps for Kept {
    fn datum(&self) -> &Datum {
        &self.cell.datum
    }
}

/// The state of a recording's frozen form.
pub(super) enum Frozen {
    /// No replay has needed the frozen form yet.
    Unknown,
    /// The recording cannot be frozen, for this reason.
    None(Obstacle),
    Graph(Arc<Replays>),
}

impl Recording {
    /// Replays the frozen form, if it exists and can be replayed in this call. With `repeat`, replays it in a loop.
    ///
    /// # Errors
    /// As for a replay.
    pub(super) fn replay_frozen(
        &mut self,
        door: &Door,
        repeat: Option<&Repeat>,
    ) -> Result<Option<Obstacle>, SubmitError> {
        let Some(threads) = door.driver.fast_path() else {
            let simulated = door.driver.simulated().is_some();
            return Ok(Some(if simulated { Obstacle::Simulation } else { Obstacle::Placement }));
        };
        if running::is_inside(door.id) {
            return Ok(Some(Obstacle::Body));
        }
        if let Frozen::Unknown = self.frozen {
            self.frozen = freeze(&self.steps, door);
        }
        let replays = match &self.frozen {
            Frozen::Graph(replays) => replays,
            Frozen::None(obstacle) => return Ok(Some(obstacle.clone())),
            Frozen::Unknown => unreachable!("it was just determined"),
        };
        let settle: Option<Settle> = (!self.settings.is_empty()).then(|| settle(&self.settings));
        let decide = repeat.map(|repeat| repeat.decide(&self.spaces));
        threads.replay(replays, settle, decide).map_err(|error| self.name_task(error))?;
        self.spaces.iter().for_each(|space| _ = space.begin());
        Ok(None)
    }

    /// Adds the name of the refused task, which the joint check of all tasks does not know.
    #[cold]
    fn name_task(&self, error: SubmitError) -> SubmitError {
        self.check().err().unwrap_or(error)
    }
}

/// Tries to make a graph of the recorded tasks.
fn freeze(steps: &[Box<dyn Step>], door: &Door) -> Frozen {
    if let Some(obstacle) = steps.iter().find_map(|step| step.obstacle()) {
        return Frozen::None(obstacle);
    }
    let tasks: Vec<_> = steps.iter().filter(|step| step.is_task()).collect();
    let mut fringe = Fringe::default();
    for (number, task) in (0..).zip(&tasks) {
        task.regions().iter().for_each(|region| fringe.enter(number, &region.record()));
    }
    if let Some((number, mode)) = fringe.group_outside() {
        return Frozen::None(Obstacle::Group { task: tasks[number as usize].name().to_owned(), mode });
    }
    let shared = door.shared();
    if shared.engine.records_graph() {
        return Frozen::None(Obstacle::Graph);
    }
    // Their IDs belong to these tasks alone, and no thread waits for the tasks.
    if tasks.is_empty() {
        return Frozen::None(Obstacle::Nothing);
    }
    let first = shared.progress.skip(tasks.len() as u64);
    let mut freezer = Freezer::new(fringe, shared.engine.recorder_of_recording(first));
    for (number, task) in (0..).zip(tasks) {
        task.freeze(TaskId(first.0 + number), &mut freezer);
    }
    Frozen::Graph(Replays::new(freezer))
}
