//! The quality of policies' estimates: measured durations of bodies relative to those that the policy expected.

use super::prepare::Prepared;
use crate::Outcome;
use std::collections::HashMap;

/// The placements by one policy, and the ratios of measured to expected durations.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyUse {
    /// The policy's name.
    pub policy: String,
    /// The number of tasks that it placed.
    pub placed: u64,
    /// The number of bodies that ran to their end and for which it had an estimate.
    pub estimated: u64,
    /// The median ratio of measured to expected duration; 0 if no body had an estimate.
    pub ratio_p50: f64,
    /// The task name whose median ratio is farthest from 1, with that ratio.
    pub worst: Option<(String, f64)>,
}

/// Returns the quality of each policy's estimates, most placements first. Durations below 1 ns count as 1 ns.
pub(super) fn by_policy(prepared: &Prepared<'_>) -> Vec<PolicyUse> {
    let trace = prepared.trace;
    let mut placed = vec![0; trace.policies.len()];
    let mut ratios: Vec<HashMap<&str, Vec<f64>>> = trace.policies.iter().map(|_| HashMap::new()).collect();
    for (number, task) in trace.tasks.iter().enumerate() {
        let Some(policy) = task.policy.filter(|policy| *policy < placed.len()) else { continue };
        placed[policy] += 1;
        if let (Some(expected), Some(Outcome::Done)) = (task.expected, task.outcome) {
            let ratio = prepared.duration(number).max(1) as f64 / expected.max(1) as f64;
            ratios[policy].entry(trace.name(number)).or_default().push(ratio);
        }
    }
    let of_policy = |((policy, placed), names): ((&String, u64), HashMap<&str, Vec<f64>>)| {
        let mut all: Vec<f64> = names.values().flatten().copied().collect();
        let mut names: Vec<(&str, f64)> =
            names.into_iter().map(|(name, mut ratios)| (name, median(&mut ratios))).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        let worst = names.into_iter().max_by(|one, other| one.1.ln().abs().total_cmp(&other.1.ln().abs()));
        let worst = worst.map(|(name, ratio)| (name.to_owned(), ratio));
        let (estimated, ratio_p50) = (all.len() as u64, median(&mut all));
        PolicyUse { policy: policy.clone(), placed, estimated, ratio_p50, worst }
    };
    let policies = trace.policies.iter().zip(placed).zip(ratios).map(of_policy);
    let mut policies: Vec<PolicyUse> = policies.filter(|policy| policy.placed > 0).collect();
    policies.sort_by(|one, other| other.placed.cmp(&one.placed).then_with(|| one.policy.cmp(&other.policy)));
    policies
}

/// Returns the lower median, or 0 if there are no values. Reorders the values.
fn median(values: &mut [f64]) -> f64 {
    match values.len().div_ceil(2).checked_sub(1) {
        None => 0.0,
        Some(rank) => *values.select_nth_unstable_by(rank, f64::total_cmp).1,
    }
}
