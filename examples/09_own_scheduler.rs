//! A custom scheduler: it learns how long tasks of each name take and starts the longest first, so that no long
//! task is left until the end. Its decisions change the time, never the result.

use std::borrow::Cow;
use std::collections::HashMap;
use thalweg::prelude::*;
use thalweg::sched::{Policy, ReadyTask, Sample, View};

#[derive(Default)]
struct LongestFirst {
    ready: Vec<ReadyTask>,
    /// Running average of the time that tasks of each name take.
    elapsed_ns: HashMap<Cow<'static, str>, u64>,
}

impl Policy for LongestFirst {
    fn name(&self) -> &'static str {
        "longest-first"
    }

    /// Called when a task is ready, which means that it waits only for a unit.
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.ready.push(task);
    }

    /// Called when a unit has room for a task. Tasks with unmeasured names go first, because their times are worth
    /// knowing.
    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        let length = |task: &ReadyTask| self.elapsed_ns.get(&task.name).copied().unwrap_or(u64::MAX);
        let runs_here = self.ready.iter().enumerate().filter(|(_, task)| task.runs_on(unit));
        let (longest, _) = runs_here.max_by_key(|(_, task)| length(task))?;
        Some(self.ready.swap_remove(longest).id)
    }

    fn finished(&mut self, sample: &Sample) {
        let known = self.elapsed_ns.entry(sample.name.clone()).or_insert(sample.elapsed_ns);
        *known = (*known + sample.elapsed_ns) / 2;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().policy(LongestFirst::default()).build()?;
    let kinds = [("short", 1_000), ("short", 1_000), ("medium", 10_000), ("long", 100_000)];
    let sums = rt.data(vec![0.0; 32 * kinds.len()]);

    for i in 0..sums.len() {
        let (name, terms) = kinds[i % kinds.len()];
        rt.task(name, (sums.slice(i).output(),))
            .cpu(move |_, (sum,)| sum[0] = (1..=terms).map(|k| 1.0 / f64::from(k).powi(2)).sum())
            .submit()?;
    }

    let sums = rt.read(&sums)?;
    for (sum, (_, terms)) in sums.iter().zip(kinds.iter().cycle()) {
        assert!((sum - std::f64::consts::PI.powi(2) / 6.0).abs() < 1.0 / f64::from(*terms));
    }
    println!("{} sums, by {}:\n{}", sums.len(), rt.machine().configuration(), rt.statistics());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every policy should be tested like this: on many programs, without a runtime.
    #[test]
    fn longest_first_keeps_the_policy_contract() -> Result<(), thalweg::sched::Violation> {
        thalweg::sched::check(|_| LongestFirst::default())
    }
}
