//! `clustered-guided:literal`: the states of González Tallada & Morancho 2024, §4.5 and figure 8, exactly as printed.
//!
//! The literal search differs from the default search (`search.rs`) as follows, which is why it is not the default:
//! - INC and DEC are two numbers that begin at N/2 and are halved before each move in their direction. All moves to one
//!   side add up to less than N/2. So the pivot, which begins at N_cpu, cannot pass N_cpu + N/2 until INC is 1 and
//!   moves it by one index each time; nor does the pivot return to the place from which a wrong first move led it away.
//! - After every MOVE, both clusters are balanced by one pass of figure 8: a unit whose work differs from the mean by
//!   more than TH takes or gives indices at its end until its work has passed the mean; the last unit keeps the
//!   rounding error.
//! - The last layout is kept, not the best one.
//!
//! Where the sources are silent or disagree, we read them as follows: the pivot moves away from the cluster that takes
//! longer (as in the article; the slide has the sign reversed); TH is a twentieth of the mean; INC and DEC stay at 1
//! once they reach it; the search ends after 4·log₂(N) instances in any case (the article expects fewer); every unit of
//! a cluster with enough indices keeps at least one index.

use super::search::Layout;
use super::{State, limit};
use crate::sched::{Assignment, Chunks, Distribution, Times, Workload};

/// TH, as a fraction of the mean over a cluster's units.
const TH: f64 = 0.05;

/// The `clustered-guided:literal` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::{ClusteredGuidedLiteral, Distribution, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = ClusteredGuidedLiteral::default();
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 1, 1, 1]); // INIT: an index for each CPU unit
/// ```
#[derive(Debug, Clone)]
pub struct ClusteredGuidedLiteral {
    state: State,
    /// The state whose instance is repeated by the probe.
    probed: State,
    layout: Layout,
    inc: usize,
    dec: usize,
    /// Whether the last move was to the right; `None` before the first move.
    went_right: Option<bool>,
    instances: u32,
}

impl Default for ClusteredGuidedLiteral {
    fn default() -> Self {
        let state = State::Init;
        Self { state, probed: state, layout: Layout::default(), inc: 0, dec: 0, went_right: None, instances: 0 }
    }
}

impl ClusteredGuidedLiteral {
    fn begin(&mut self, workload: &Workload<'_>) {
        self.layout = Layout::equal(workload, workload.team.cpus.min(workload.len()));
        (self.inc, self.dec) = (workload.len() / 2, workload.len() / 2);
        if workload.team.len() == 1 || workload.is_empty() {
            self.state = State::Steady;
        }
    }

    /// The transition to MOVE, or to STEADY.
    fn shift(&mut self, workload: &Workload<'_>, times: &Times) {
        let [cpus, devices] = times.longest(workload.team);
        let right = devices > cpus;
        let switched = self.went_right.is_some_and(|before| before != right);
        if is_one_cluster(workload) || (switched && (self.inc == 1 || self.dec == 1)) {
            self.state = State::Steady;
            return;
        }
        let step = if right { &mut self.inc } else { &mut self.dec };
        *step = (*step / 2).max(1);
        let pivot = match right {
            true => (self.layout.pivot + *step).min(workload.len()),
            false => self.layout.pivot.saturating_sub(*step),
        };
        self.went_right = Some(right);
        self.layout = Layout::equal(workload, pivot);
        self.state = State::Move;
    }

    /// The transition to BALANCE: balances each cluster by one pass.
    fn balance(&mut self, workload: &Workload<'_>, times: &Times) {
        let (cpus, devices) = self.layout.chunks.split_at(workload.team.cpus);
        let mut chunks = pass(cpus, &times.index_ns);
        chunks.extend(pass(devices, &times.index_ns));
        self.layout.chunks = chunks;
        self.state = State::Balance;
    }
}

/// Returns whether there is only one unit kind, and thus no pivot to move but only chunks to balance.
fn is_one_cluster(workload: &Workload<'_>) -> bool {
    workload.team.cpus == 0 || workload.team.devices == 0
}

/// Runs BALANCE of figure 8 for one cluster.
fn pass(chunks: &[std::ops::Range<usize>], ns: &[f64]) -> Chunks {
    let (Some(start), Some(end)) = (chunks.first().map(|chunk| chunk.start), chunks.last().map(|chunk| chunk.end))
    else {
        return Chunks::new();
    };
    if end - start < chunks.len() {
        return chunks.to_vec(); // at most one index per unit
    }
    let mean = ns[start..end].iter().sum::<f64>() / chunks.len() as f64;
    let mut next = Chunks::with_capacity(chunks.len());
    let mut first = start;
    for (unit, chunk) in chunks.iter().enumerate() {
        let most = end - (chunks.len() - 1 - unit);
        let mut last = chunk.end.clamp(first + 1, most);
        let mut work: f64 = ns[first..last].iter().sum();
        if mean - work > TH * mean {
            while work < mean && last < most {
                work += ns[last];
                last += 1;
            }
        } else if work - mean > TH * mean {
            while work > mean && last > first + 1 {
                last -= 1;
                work -= ns[last];
            }
        }
        let last = if unit + 1 == chunks.len() { end } else { last };
        next.push(first..last);
        first = last;
    }
    next
}

impl Distribution for ClusteredGuidedLiteral {
    fn name(&self) -> &'static str {
        "clustered-guided"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let one_cluster = is_one_cluster(workload);
        match (self.state, measured) {
            (State::Steady, _) => {}
            (_, None) => self.begin(workload),
            (State::Probe, Some(times)) if self.probed == State::Move || one_cluster && self.probed == State::Init => {
                self.balance(workload, times)
            }
            (State::Probe, Some(times)) => self.shift(workload, times),
            (state, Some(_)) => (self.probed, self.state) = (state, State::Probe),
        }
        self.instances += 1;
        if self.instances > limit(workload) {
            self.state = State::Steady;
        }
        self.layout.chunks.clone().into()
    }

    fn is_steady(&self) -> bool {
        self.state == State::Steady
    }
}
