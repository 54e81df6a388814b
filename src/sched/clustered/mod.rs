//! `clustered-guided`: the CPU units' indices lie left of a pivot, the devices' right of it; a search by measurement
//! finds the pivot and balances each cluster (González Tallada & Morancho 2024, §4.5 and figure 8; González Tallada
//! 2024 (slides), "CLUSTERED GUIDED scheduler").
//!
//! One state per instance:
//!
//! | state | its instance runs | next |
//! | --- | --- | --- |
//! | INIT | pivot = N_cpu, or half of the indices if that is less; equal chunks in both clusters | PROBE |
//! | PROBE | the same again, for times without the cost of moving data | BALANCE, or MOVE if it came from there |
//! | BALANCE | the same pivot, each cluster's chunks balanced by the measured times | PROBE |
//! | MOVE | a new pivot, equal chunks | PROBE |
//! | STEADY | the best that was measured | MOVE's cycle, when speeds change |
//!
//! `clustered-guided:literal` is the search of the sources as printed ([`literal`]). This is how ours differs from
//! it, and how we read the sources where they are silent or disagree:
//! - The pivot moves away from the cluster that takes longer (González Tallada & Morancho 2024, §4.5); the slide
//!   (González Tallada 2024 (slides)) has the sign reversed.
//! - INC and DEC, which begin at N/2 and are halved before each move, would never let the pivot pass N_cpu + N/2, nor
//!   return from a wrong first move. Here they are half of the unsearched range right and left of the pivot. A
//!   bracket represents both: pivots at or left of `left` are known to keep the devices longer, those at or right of
//!   `right` the CPU units. INC = 1 and a change of direction correspond to a bracket of width 1 both of whose ends
//!   have been tried: STEADY.
//! - BALANCE gives the optimal chunks rather than those of one guided pass with its threshold TH, for which no value
//!   is given (see `balance.rs`).
//! - The best *measured* layout is kept. A layout that is only computed to be better is measured first, while the
//!   bound below leaves room.
//! - BALANCE is skipped if it could not matter: the balanced times, computed from the probed ones, differ between the
//!   clusters by more than a twentieth (the pivot is wrong anyway), or are not better than the probed ones. Skipping
//!   it makes room for the bound: STEADY is always reached within 4·log₂(N) instances; if the search has not
//!   converged by then, the best layout so far is kept.
//! - An end of the bracket is a pivot too: a cluster may stay empty.
//!
//! Beyond the sources: if a unit has become slower or faster by more than the threshold, for several instances in a
//! row, the search starts again at PROBE, with that unit's speed corrected. After each new search the required number
//! of instances doubles, so that noise cannot keep it going.

mod literal;
mod search;

pub use literal::ClusteredGuidedLiteral;
use search::{Found, Layout, Search};

use super::{Assignment, Distribution, Times, Workload};

/// Number of instances in a row for which a unit must be off before the first new search.
const FIRST_ROW: u32 = 3;
const LONGEST_ROW: u32 = 96;

/// The purpose of the next instance.
///
/// ```
/// use thalweg::sched::{ClusteredGuided, Distribution, State, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = ClusteredGuided::default();
/// assert_eq!(distribution.state(), State::Init);
/// distribution.assign(&workload, None);
/// assert_ne!(distribution.state(), State::Steady); // the search has begun
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The first instance.
    Init,
    /// Measures a layout again.
    Probe,
    /// Tries a new pivot.
    Move,
    /// Tries balanced chunks for the pivot.
    Balance,
    /// The search is over.
    Steady,
}

/// 4·log₂(N): the number of instances within which the sources expect a search to end (González Tallada & Morancho
/// 2024, §4.5).
fn limit(workload: &Workload<'_>) -> u32 {
    4 * workload.len().max(2).next_power_of_two().ilog2()
}

/// The `clustered-guided` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::{ClusteredGuided, Distribution, State, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = ClusteredGuided::new(0.25);
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 1, 1, 1]); // the pivot begins on the left
/// assert_eq!(distribution.state(), State::Init); // the search begins when this instance is measured
/// ```
#[derive(Debug, Clone)]
pub struct ClusteredGuided {
    threshold: f64,
    state: State,
    balanced: bool,
    search: Option<Search>,
    layout: Layout,
    /// Speed of each unit relative to the first search.
    speeds: Vec<f64>,
    /// Time of every unit in the first steady instance.
    reference: Option<Vec<f64>>,
    off_in_a_row: u32,
    row: u32,
}

impl Default for ClusteredGuided {
    fn default() -> Self {
        Self::new(Self::THRESHOLD)
    }
}

impl ClusteredGuided {
    /// The default threshold.
    pub const THRESHOLD: f64 = 0.25;

    /// Creates the distribution; it searches again when a unit takes longer, or works faster, by more than this
    /// fraction.
    pub fn new(threshold: f64) -> Self {
        Self {
            threshold,
            state: State::Init,
            balanced: false,
            search: None,
            layout: Layout::default(),
            speeds: Vec::new(),
            reference: None,
            off_in_a_row: 0,
            row: FIRST_ROW,
        }
    }

    /// Returns the state of the last assigned instance.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the number of indices left of the pivot.
    pub fn pivot(&self) -> usize {
        self.layout.pivot
    }

    fn begin(&mut self, workload: &Workload<'_>) {
        self.speeds = vec![1.0; workload.team.len()];
        self.layout = Layout::equal(workload, workload.team.cpus.min(workload.len() / 2));
        let alone = workload.team.len() == 1 || workload.is_empty();
        self.state = if alone { State::Steady } else { State::Init };
        self.search = Some(Search::new(workload, 1));
    }

    /// Chooses the next state after a probe.
    fn probed(&mut self, search: &mut Search, workload: &Workload<'_>, times: &Times) {
        let found = search.judge(workload, times, &self.layout, &self.speeds, self.balanced);
        (self.state, self.layout) = match found {
            Found::Balance(layout) => (State::Balance, layout),
            Found::Move(pivot) => (State::Move, Layout::equal(workload, pivot)),
            Found::Best(layout) => (State::Steady, layout),
        };
        self.balanced = self.state == State::Balance;
    }

    fn off(&self, measured: &Times) -> bool {
        let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let Some(reference) = &self.reference else { return false };
        let slower = longest(&measured.slot_ns) > longest(reference) * (1.0 + self.threshold);
        let faster = |(now, before): (&f64, &f64)| now * (1.0 + self.threshold) < *before;
        slower || measured.slot_ns.iter().zip(reference).any(faster)
    }
}

impl Distribution for ClusteredGuided {
    fn name(&self) -> &'static str {
        "clustered-guided"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        match (measured, self.search.take()) {
            (Some(times), Some(mut search)) if self.state != State::Steady => {
                match self.state {
                    State::Probe => self.probed(&mut search, workload, times),
                    _ => self.state = State::Probe,
                }
                search.count();
                if self.state != State::Steady && search.is_spent() {
                    let best = search.best();
                    (self.state, self.layout) = (State::Steady, best.unwrap_or_else(|| self.layout.clone()));
                }
                self.search = Some(search);
            }
            (_, None) => self.begin(workload),
            (_, search) => self.search = search,
        }
        self.layout.chunks.clone().into()
    }

    fn search_state(&self) -> State {
        self.state
    }

    fn is_steady(&self) -> bool {
        self.state == State::Steady
    }

    fn observe(&mut self, workload: &Workload<'_>, measured: &Times) {
        if self.reference.is_none() {
            self.reference = Some(measured.slot_ns.clone());
            return;
        }
        self.off_in_a_row = if self.off(measured) { self.off_in_a_row + 1 } else { 0 };
        if self.off_in_a_row < self.row || workload.team.len() == 1 {
            return;
        }
        let reference = self.reference.take().unwrap_or_default();
        for ((speed, now), before) in self.speeds.iter_mut().zip(&measured.slot_ns).zip(&reference) {
            if *now > 0.0 && *before > 0.0 {
                *speed *= before / now;
            }
        }
        (self.off_in_a_row, self.row) = (0, (self.row * 2).min(LONGEST_ROW));
        self.state = State::Move; // the next instance probes the unbalanced layout
        self.balanced = false;
        self.search = Some(Search::new(workload, 0));
    }
}

#[cfg(test)]
mod tests;
