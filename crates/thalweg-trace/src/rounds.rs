//! Replays of recordings: a file has each recording once, and for each replay only its begin and the runs of its tasks.
//!
//! Records of runs name the tasks of the recording. The replays of a recording never overlap, so the time of an event
//! says to which replay it belongs.

use crate::events::{Edge, Events, data_of, mode_of};
use crate::frame::{RecordedDependence, Recording};
use crate::record::{Happened, NO_TASK, Stage};
use crate::tasks::{Choice, Ran, Submission};
use std::collections::{BTreeMap, HashMap};

/// An event of a task in one of its replays.
pub(crate) enum Repeated {
    Ran(Ran),
    Stage(usize),
    Placed(Choice),
    Note(Happened),
}

/// A replay of a recording.
struct Round {
    /// The number of the replay's first task.
    base: u64,
    begun: u64,
}

/// The recordings and their replays; see the module documentation.
#[derive(Default)]
pub(crate) struct Rounds {
    /// The recordings, keyed by the number of the first task.
    recordings: BTreeMap<u64, Recording>,
    /// For each recording, its replays that have begun; sorted by [`Self::unfold`].
    rounds: HashMap<u64, Vec<Round>>,
    /// For each replay: the recording, whether it follows directly after the replay before, and the time and thread of
    /// its submission.
    submitted: BTreeMap<u64, (u64, bool, (u64, usize))>,
    /// Events of recorded tasks, with the number in the recording and the time.
    events: Vec<(u64, u64, Repeated)>,
}

impl Rounds {
    pub(crate) fn new(recordings: Vec<Recording>) -> Self {
        let recordings = recordings.into_iter().map(|recording| (recording.first, recording)).collect();
        Self { recordings, ..Self::default() }
    }

    fn recording_of(&self, task: u64) -> Option<&Recording> {
        let (_, recording) = self.recordings.range(..=task).next_back()?;
        (task - recording.first < recording.sites.len() as u64).then_some(recording)
    }

    /// Returns whether a task belongs to a recording.
    pub(crate) fn have(&self, task: u64) -> bool {
        !self.recordings.is_empty() && self.recording_of(task).is_some()
    }

    /// Adds an event of a recorded task.
    pub(crate) fn note(&mut self, task: u64, at: u64, event: Repeated) {
        self.events.push((task, at, event));
    }

    /// Adds a replay whose tasks have the numbers from `base` on, with the time and thread of its submission.
    pub(crate) fn submitted(&mut self, recording: u64, base: u64, follows: bool, by: (u64, usize)) {
        if self.recordings.contains_key(&recording) {
            self.submitted.insert(base, (recording, follows, by));
        }
    }

    /// Notes that a replay has begun.
    pub(crate) fn begun(&mut self, recording: u64, base: u64, begun: u64) {
        if self.recordings.contains_key(&recording) {
            self.rounds.entry(recording).or_default().push(Round { base, begun });
        }
    }

    /// Returns a recording, by the number of its first task.
    pub(crate) fn recording(&self, first: u64) -> Option<&Recording> {
        self.recordings.get(&first)
    }

    /// Returns all runs of replays that follow each other directly, each with the recording's first task. A replay is
    /// given by its first task.
    pub(crate) fn runs(&self) -> Vec<(u64, Vec<u64>)> {
        let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut latest: HashMap<u64, usize> = HashMap::new();
        for (base, (recording, follows, _)) in &self.submitted {
            match latest.get(recording).filter(|_| *follows) {
                Some(run) => runs[*run].1.push(*base),
                None => {
                    latest.insert(*recording, runs.len());
                    runs.push((*recording, vec![*base]));
                }
            }
        }
        runs
    }

    /// Returns the task of the replay to which a recorded task belongs at some time. Returns `task` itself if it is not
    /// part of a recording.
    pub(crate) fn task_at(&self, task: u64, at: u64) -> u64 {
        let Some(recording) = self.recording_of(task) else { return task };
        let rounds = self.rounds.get(&recording.first).map_or(&[][..], Vec::as_slice);
        match rounds.partition_point(|round| round.begun <= at).checked_sub(1) {
            Some(latest) => rounds[latest].base.wrapping_add(task - recording.first),
            None => NO_TASK,
        }
    }

    /// Adds the tasks of all replays to `events`, with their dependences, accesses and runs.
    ///
    /// The tasks of a recording without predecessors in it are ready when their replay begins.
    pub(crate) fn unfold(&mut self, events: &mut Events) {
        self.rounds.values_mut().for_each(|rounds| rounds.sort_by_key(|round| round.begun));
        for (base, (recording, _, (submitted, thread))) in &self.submitted {
            let Recording { first: _, sites, dependences, accesses, border: _ } = &self.recordings[recording];
            let (at, thread) = (*submitted, *thread as u32);
            let submissions = (0..).zip(sites);
            let submissions =
                submissions.map(|(index, site)| Submission { task: base.wrapping_add(index), at, site: *site, thread });
            events.tasks.submissions.extend(submissions);
            events.dependences.extend(dependences.iter().map(|edge| {
                let RecordedDependence { from, to, data, carries_value } = *edge;
                let [from, to] = [from, to].map(|index| base.wrapping_add(index.into()));
                Edge { from, to, data: data_of(data), carries_value }
            }));
            let access = |[task, region, mode]: &[u32; 3]| (base.wrapping_add((*task).into()), *region, mode_of(*mode));
            events.accesses.extend(accesses.iter().map(access));
        }
        for (task, at, event) in std::mem::take(&mut self.events) {
            let task = self.task_at(task, at);
            match event {
                Repeated::Ran(ran) => events.tasks.runs.push((task, ran)),
                Repeated::Stage(stage) => events.tasks.stages.push((task, stage, at)),
                Repeated::Placed(choice) => events.tasks.choices.push((task, choice)),
                Repeated::Note(note) => events.notes.push((at, task, note)),
            }
        }
        for (recording, rounds) in &self.rounds {
            let Recording { sites, dependences, .. } = &self.recordings[recording];
            let mut is_root = vec![true; sites.len()];
            dependences.iter().for_each(|edge| is_root[edge.to as usize] = false);
            for Round { base, begun } in rounds {
                let roots = (0..).zip(&is_root).filter(|(_, is_root)| **is_root);
                let ready = |(index, _)| (base.wrapping_add(index), Stage::Ready as usize, *begun);
                events.tasks.stages.extend(roots.map(ready));
            }
        }
    }
}
