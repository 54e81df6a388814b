//! HeteroPrio with spoliation (Agullo, Beaumont et al. 2016; Beaumont et al. 2017): ready tasks are sorted by how much
//! faster a GPU is. An idle GPU takes the first task and an idle core the last; of equals, the one with the higher
//! upward rank. An idle unit without a ready task *spoliates*: it restarts a task that runs on the other kind of unit
//! if it would end it earlier, the one that ends last first.

use super::{Problem, ranks};

/// Returns the time of the graph on `cpus` cores, which are the first units, and the other units, which are GPUs.
/// Copies take no time.
pub(crate) fn makespan_ns(problem: &Problem, cpus: usize) -> f64 {
    let units = problem.units();
    let kind = |unit: usize| usize::from(unit >= cpus);
    let takes = |task: usize, kind: usize| problem.cost[task][if kind == 0 { 0 } else { units - 1 }];
    let gain = |task: usize| takes(task, 0) / takes(task, 1);
    let rank = ranks::upward(problem);
    let mut open: Vec<usize> = problem.after.iter().map(Vec::len).collect();
    let mut successors = vec![Vec::new(); open.len()];
    for (task, after) in problem.after.iter().enumerate() {
        after.iter().for_each(|(before, _)| successors[*before].push(task));
    }
    let mut ready: Vec<usize> = (0..open.len()).filter(|task| open[*task] == 0).collect();
    let mut running: Vec<Option<(f64, usize)>> = vec![None; units];
    let mut now = 0.0;
    loop {
        // GPUs choose first.
        for unit in (0..units).rev() {
            if running[unit].is_some() {
                continue;
            }
            let by = |one: &usize, other: &usize| {
                let gains = if kind(unit) == 1 {
                    gain(*one).total_cmp(&gain(*other))
                } else {
                    gain(*other).total_cmp(&gain(*one))
                };
                gains.then(rank[*one].total_cmp(&rank[*other])).then(other.cmp(one))
            };
            if let Some(at) = (0..ready.len()).max_by(|one, other| by(&ready[*one], &ready[*other])) {
                let task = ready.swap_remove(at);
                running[unit] = Some((now + takes(task, kind(unit)), task));
                continue;
            }
            let others = (0..units).filter(|other| kind(*other) != kind(unit));
            let gains = |other: &usize| running[*other].is_some_and(|(end, task)| now + takes(task, kind(unit)) < end);
            let ends = |other: &usize| running[*other].map_or(0.0, |(end, _)| end);
            let last = others.filter(gains).max_by(|one, other| ends(one).total_cmp(&ends(other)));
            if let Some((_, task)) = last.and_then(|victim| running[victim].take()) {
                running[unit] = Some((now + takes(task, kind(unit)), task));
            }
        }
        let first = (0..units).filter(|unit| running[*unit].is_some()).min_by(|one, other| {
            let end = |unit: usize| running[unit].map_or(f64::INFINITY, |(end, _)| end);
            end(*one).total_cmp(&end(*other))
        });
        let Some((end, task)) = first.and_then(|unit| running[unit].take()) else { return now };
        now = end;
        for next in &successors[task] {
            open[*next] -= 1;
            if open[*next] == 0 {
                ready.push(*next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn independent(times: &[[f64; 2]], cpus: usize, gpus: usize) -> f64 {
        let cost = times.iter().map(|[cpu, gpu]| [vec![*cpu; cpus], vec![*gpu; gpus]].concat()).collect();
        let units = cpus + gpus;
        let problem = Problem { cost, after: vec![vec![]; times.len()], link: vec![vec![0.0; units]; units] };
        makespan_ns(&problem, cpus)
    }

    /// The example that shows the bound φ for one core and one GPU to be tight (Beaumont et al. 2017): two tasks of the
    /// same gain φ, one that takes 1 on the GPU, and one that takes 1 on the core. The optimum is 1.
    #[test]
    fn worst_case_on_one_core_and_one_gpu_is_the_golden_ratio() {
        let phi = f64::midpoint(1.0, 5.0f64.sqrt());
        // The gain of y is a little larger, so that the GPU takes y and the core x. At 1/φ the GPU restarts x, and ends
        // it at 1/φ + 1 = φ, hardly earlier.
        let (x, y) = ([phi, 1.0], [1.0, 1.0 / phi - 1e-6]);
        assert!((independent(&[y, x], 1, 1) - phi).abs() < 1e-5);
    }

    #[test]
    fn idle_gpu_spoliates_a_core() {
        // The core takes the second task, which the GPU ends at 1 + 1 instead.
        assert_eq!(independent(&[[50.0, 1.0], [40.0, 1.0]], 1, 1), 2.0);
    }
}
