//! HEFT and CPOP (Topcuoglu, Hariri & Wu 2002, §4.2 and §4.3): static list schedules with insertion.

use super::{Problem, ranks};

/// The unit, start and end of each task.
pub(crate) type Schedule = Vec<(usize, f64, f64)>;
/// Returns the time of a task on a unit from a start on.
pub(crate) type Takes<'a> = &'a dyn Fn(usize, usize, f64) -> f64;

/// Computes the schedule of HEFT: tasks by descending upward rank, each on the unit where it ends first.
pub(crate) fn heft(problem: &Problem) -> Schedule {
    heft_with(problem, &|task, unit, _| problem.cost[task][unit])
}

/// Computes the schedule of HEFT from the times that `takes` returns for a task, a unit and a start. The ranks are
/// those of the mean times.
pub(crate) fn heft_with(problem: &Problem, takes: Takes<'_>) -> Schedule {
    let ranks = ranks::upward(problem);
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|one, other| ranks[*other].total_cmp(&ranks[*one]).then(one.cmp(other)));
    let mut partial = Partial::new(problem, takes);
    order.into_iter().for_each(|task| partial.place_first(task));
    partial.placed
}

/// Computes the schedule of CPOP: the tasks of one critical path on the unit that runs them fastest, others where they
/// end first. Of the ready tasks, the one with the largest sum of both ranks comes first.
pub(crate) fn cpop(problem: &Problem) -> Schedule {
    let (up, down) = (ranks::upward(problem), ranks::downward(problem));
    let priority: Vec<f64> = up.iter().zip(&down).map(|(up, down)| up + down).collect();
    let longest = priority.iter().copied().fold(0.0, f64::max);
    let is_critical = |task: usize| priority[task] > longest * (1.0 - 1e-9);
    let mut path: Vec<usize> = Vec::new();
    for task in 0..priority.len() {
        let follows = path.last().is_none_or(|last| problem.after[task].iter().any(|(before, _)| before == last));
        if is_critical(task) && follows {
            path.push(task);
        }
    }
    let on = |unit: &usize| path.iter().map(|task| problem.cost[*task][*unit]).sum::<f64>();
    let fastest = (0..problem.units()).min_by(|one, other| on(one).total_cmp(&on(other))).unwrap_or(0);
    let takes = |task: usize, unit: usize, _| problem.cost[task][unit];
    let mut partial = Partial::new(problem, &takes);
    let mut open: Vec<usize> = problem.after.iter().map(Vec::len).collect();
    let mut successors = vec![Vec::new(); open.len()];
    for (task, after) in problem.after.iter().enumerate() {
        after.iter().for_each(|(before, _)| successors[*before].push(task));
    }
    let mut ready: Vec<usize> = (0..open.len()).filter(|task| open[*task] == 0).collect();
    while let Some(at) = (0..ready.len()).max_by(|one, other| priority[ready[*one]].total_cmp(&priority[ready[*other]]))
    {
        let task = ready.swap_remove(at);
        if path.contains(&task) {
            partial.place(task, fastest)
        } else {
            partial.place_first(task)
        }
        for next in &successors[task] {
            open[*next] -= 1;
            if open[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    partial.placed
}

/// A schedule under construction.
struct Partial<'a> {
    problem: &'a Problem,
    takes: Takes<'a>,
    placed: Schedule,
    /// Start and end of the tasks on each unit, in order.
    busy: Vec<Vec<(f64, f64)>>,
}

impl<'a> Partial<'a> {
    fn new(problem: &'a Problem, takes: Takes<'a>) -> Self {
        let placed = vec![(0, 0.0, 0.0); problem.cost.len()];
        Self { problem, takes, placed, busy: vec![Vec::new(); problem.units()] }
    }

    /// Returns the earliest start of a task on a unit, which may be between two tasks.
    fn start(&self, task: usize, unit: usize) -> f64 {
        let arrives = |(before, data): &(usize, f64)| {
            let (from, _, end) = self.placed[*before];
            end + data * self.problem.link[from][unit]
        };
        let ready = self.problem.after[task].iter().map(arrives).fold(0.0, f64::max);
        let busy = &self.busy[unit];
        let mut free = ready;
        for (start, end) in &busy[busy.partition_point(|(_, end)| *end <= ready)..] {
            if free + (self.takes)(task, unit, free) <= *start {
                break;
            }
            free = free.max(*end);
        }
        free
    }

    fn place(&mut self, task: usize, unit: usize) {
        let start = self.start(task, unit);
        let end = start + (self.takes)(task, unit, start);
        self.placed[task] = (unit, start, end);
        let at = self.busy[unit].partition_point(|(other, _)| *other < start);
        self.busy[unit].insert(at, (start, end));
    }

    /// Places a task on the unit where it ends first.
    fn place_first(&mut self, task: usize) {
        let end = |unit: &usize| {
            let start = self.start(task, *unit);
            start + (self.takes)(task, *unit, start)
        };
        let first = (0..self.problem.units()).min_by(|one, other| end(one).total_cmp(&end(other)));
        self.place(task, first.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranks::tests::figure_2;
    use super::*;

    fn makespan(problem: &Problem, schedule: &Schedule) -> f64 {
        for (task, (unit, start, end)) in schedule.iter().enumerate() {
            assert_eq!(end - start, problem.cost[task][*unit]);
            for (before, data) in &problem.after[task] {
                let (from, _, ended) = schedule[*before];
                assert!(ended + data * problem.link[from][*unit] <= *start, "{before} before {task}");
            }
            let overlaps = |other: &&(usize, f64, f64)| other.0 == *unit && other.1 < *end && *start < other.2;
            assert_eq!(schedule.iter().filter(overlaps).count(), 1, "only itself");
        }
        schedule.iter().map(|(_, _, end)| *end).fold(0.0, f64::max)
    }

    #[test]
    fn example_of_the_paper_takes_80_under_heft_and_86_under_cpop() {
        let problem = figure_2();
        assert_eq!(makespan(&problem, &heft(&problem)), 80.0);
        assert_eq!(makespan(&problem, &cpop(&problem)), 86.0);
    }
}
