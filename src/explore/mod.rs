//! The decisions of an exploration: at each point where several things can happen next, which of them does.
//!
//! An exploration runs a program on one thread. The driver and the policy ask [`Choices`] for each decision, so a seed,
//! or a list of decisions, determines the whole schedule. This module also keeps the trace of the schedule and the
//! figures that later schedules depend on.
//!
//! Invariants:
//! 1. The answers depend only on the plan and on the earlier questions, never on clocks, addresses or threads.
//! 2. A question with one possible answer is not a decision: it is not counted, and it consumes no randomness.

mod draw;

pub(crate) use draw::Draw;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write as _};

/// Something that can happen next in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The program continues to submit.
    Submission,
    /// A suspended body continues, on the fiber with this index.
    Resumption(usize),
    /// A copy with this number arrives.
    Arrival(u64),
    /// A task with this number begins.
    Task(u64),
}

/// How the decisions of one schedule are made.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// Decisions in this order, and the first possibility after the last of them. Tasks run only while the program
    /// waits.
    Listed(Vec<usize>),
    /// All possibilities are equally likely, except that this fraction of the submissions, in 1/16, is delayed by
    /// tasks.
    Random { seed: u64, delays: usize },
    /// Steps have random priorities, and the first one loses its priority at `changes` of about `steps` decisions
    /// (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010).
    Priorities { seed: u64, changes: usize, steps: u64 },
}

/// The decisions of one schedule.
pub(crate) struct Choices(Mutex<State>);

struct State {
    source: Source,
    /// The decisions so far, each with its number of possibilities.
    decided: Vec<(usize, usize)>,
    /// Number of questions about steps so far, with those whether the program continues to submit.
    asked: u64,
    trace: String,
    largest_task_bytes: u64,
}

enum Source {
    Listed(Vec<usize>),
    Random { draw: Draw, delays: usize },
    Priorities { draw: Draw, of: FxHashMap<Step, u64>, changes: Vec<u64>, lowest: u64 },
}

/// Initial priorities are at least this; priorities after a change are less.
const INITIAL: u64 = 1 << 32;

/// The record of a schedule that has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) decided: Vec<(usize, usize)>,
    pub(crate) asked: u64,
    pub(crate) trace: String,
    /// The largest total size of one task's regions.
    pub(crate) largest_task_bytes: u64,
}

impl Choices {
    pub(crate) fn new(plan: Plan) -> Self {
        let source = match plan {
            Plan::Listed(listed) => Source::Listed(listed),
            Plan::Random { seed, delays } => Source::Random { draw: Draw::new(seed), delays },
            Plan::Priorities { seed, changes, steps } => {
                let mut draw = Draw::new(seed);
                // Further changes than there are decisions would fall on the same ones.
                let changes = (0..steps.min(changes as u64)).map(|_| draw.next() % steps.max(1)).collect();
                Source::Priorities { draw, of: FxHashMap::default(), changes, lowest: INITIAL }
            }
        };
        Self(Mutex::new(State { source, decided: Vec::new(), asked: 0, trace: String::new(), largest_task_bytes: 0 }))
    }

    /// Decides which of these steps happens next. There must be at least one.
    pub(crate) fn next(&self, steps: &[Step]) -> usize {
        self.0.lock().next(steps)
    }

    /// Decides whether one of these steps happens before the program continues to submit.
    pub(crate) fn before_submission(&self, steps: &[Step]) -> Option<usize> {
        let mut state = self.0.lock();
        match &mut state.source {
            _ if steps.is_empty() => None,
            Source::Listed(_) => {
                state.asked += 1;
                None
            }
            Source::Random { draw, delays } => {
                let is_delayed = draw.below(16) < *delays;
                is_delayed.then(|| state.next(steps))
            }
            Source::Priorities { .. } => {
                let all: Vec<_> = [Step::Submission].iter().chain(steps).copied().collect();
                state.next(&all).checked_sub(1)
            }
        }
    }

    /// Decides between `count` alternatives without an order, such as units. There must be at least one.
    pub(crate) fn pick(&self, count: usize) -> usize {
        let mut state = self.0.lock();
        match &mut state.source {
            _ if count == 1 => 0,
            Source::Listed(_) => state.listed(count),
            Source::Random { draw, .. } | Source::Priorities { draw, .. } => draw.below(count),
        }
    }

    /// Appends a line to the trace.
    pub(crate) fn note(&self, line: fmt::Arguments<'_>) {
        let _ = writeln!(self.0.lock().trace, "{line}");
    }

    /// Notes the total size of a task's regions.
    pub(crate) fn note_bytes(&self, bytes: u64) {
        let mut state = self.0.lock();
        state.largest_task_bytes = state.largest_task_bytes.max(bytes);
    }

    /// Takes the record of the schedule.
    pub(crate) fn take_record(&self) -> Record {
        let mut state = self.0.lock();
        let State { decided, asked, trace, largest_task_bytes, .. } = &mut *state;
        Record {
            decided: std::mem::take(decided),
            asked: *asked,
            trace: std::mem::take(trace),
            largest_task_bytes: *largest_task_bytes,
        }
    }
}

impl State {
    fn next(&mut self, steps: &[Step]) -> usize {
        if steps.len() == 1 {
            return 0;
        }
        self.asked += 1;
        let chosen = match &mut self.source {
            Source::Listed(_) => return self.listed(steps.len()),
            Source::Random { draw, .. } => draw.below(steps.len()),
            Source::Priorities { draw, of, changes, lowest } => {
                let mut priority = |step: &Step| *of.entry(*step).or_insert_with(|| INITIAL + (draw.next() >> 32));
                let priorities: Vec<u64> = steps.iter().map(&mut priority).collect();
                let first = |priorities: &[u64]| {
                    let highest = (0..priorities.len()).max_by_key(|n| (priorities[*n], std::cmp::Reverse(*n)));
                    highest.expect("there is at least one step")
                };
                let chosen = first(&priorities);
                if changes.contains(&(self.asked - 1)) {
                    *lowest -= 1;
                    of.insert(steps[chosen], *lowest);
                    let priorities: Vec<u64> = steps.iter().map(|step| of[step]).collect();
                    first(&priorities)
                } else {
                    chosen
                }
            }
        };
        self.decided.push((chosen, steps.len()));
        chosen
    }

    fn listed(&mut self, count: usize) -> usize {
        let Source::Listed(listed) = &self.source else { unreachable!("only listed decisions are looked up") };
        let chosen = listed.get(self.decided.len()).map_or(0, |chosen| (*chosen).min(count - 1));
        self.decided.push((chosen, count));
        chosen
    }
}

/// Returns the list of decisions that comes after these in the order of a depth-first search; `None` after the last.
pub(crate) fn after(mut decided: Vec<(usize, usize)>) -> Option<Vec<usize>> {
    while let Some((chosen, count)) = decided.pop() {
        if chosen + 1 < count {
            let mut next: Vec<usize> = decided.iter().map(|(chosen, _)| *chosen).collect();
            next.push(chosen + 1);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 4] = [Step::Resumption(0), Step::Arrival(3), Step::Task(1), Step::Task(2)];

    #[test]
    fn same_plan_gives_the_same_decisions() {
        let plans = [
            Plan::Listed(vec![3, 1, 9]),
            Plan::Random { seed: 7, delays: 4 },
            Plan::Priorities { seed: 7, changes: 3, steps: 20 },
        ];
        for plan in plans {
            let decide = || {
                let choices = Choices::new(plan.clone());
                (0..20)
                    .map(|n| (choices.next(&STEPS[n % 3..]), choices.before_submission(&STEPS), choices.pick(3)))
                    .collect::<Vec<_>>()
            };
            assert_eq!(decide(), decide(), "{plan:?}");
        }
    }

    #[test]
    fn depth_first_search_visits_every_list_once() {
        // The second decision exists only after some answers to the first one.
        let (mut path, mut seen) = (Some(Vec::new()), Vec::new());
        while let Some(listed) = path {
            let choices = Choices::new(Plan::Listed(listed));
            let first = choices.next(&STEPS[..3]);
            let second = if first == 1 { choices.pick(4) } else { 0 };
            seen.push((first, second));
            path = after(choices.take_record().decided);
        }
        assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]);
    }

    #[test]
    fn priorities_change_only_at_the_drawn_steps() {
        let orders = |changes| {
            let mut orders: Vec<_> = (0..200)
                .map(|seed| {
                    let choices = Choices::new(Plan::Priorities { seed, changes, steps: 8 });
                    (0..8).map(|_| choices.next(&STEPS)).collect::<Vec<_>>()
                })
                .collect();
            orders.sort();
            orders.dedup();
            orders
        };
        assert_eq!(
            orders(0),
            [[0; 8], [1; 8], [2; 8], [3; 8]],
            "the step with the highest priority always comes first"
        );
        let changed = |order: &[usize]| order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(orders(2).iter().map(|order| changed(order)).max(), Some(2));
    }
}
