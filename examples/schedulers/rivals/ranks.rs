//! The upward and the downward rank of tasks (Topcuoglu, Hariri & Wu 2002, §4.1).

use super::Problem;

/// Returns the length of the longest path from each task's start to the end of the graph, by mean times.
pub(crate) fn upward(problem: &Problem) -> Vec<f64> {
    let link = problem.mean_link();
    let mut behind = vec![0.0f64; problem.cost.len()];
    for task in (0..problem.cost.len()).rev() {
        behind[task] += problem.mean_cost(task);
        for (before, data) in &problem.after[task] {
            // Until all successors have been visited, this is the path after the task's own end.
            behind[*before] = behind[*before].max(behind[task] + data * link);
        }
    }
    behind
}

/// Returns the length of the longest path from the graph's start to each task's start, by mean times.
pub(crate) fn downward(problem: &Problem) -> Vec<f64> {
    let link = problem.mean_link();
    let mut ranks: Vec<f64> = Vec::new();
    for after in &problem.after {
        let through = |(before, data): &(usize, f64)| ranks[*before] + problem.mean_cost(*before) + data * link;
        ranks.push(after.iter().map(through).fold(0.0, f64::max));
    }
    ranks
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The graph of figure 2: costs on three processors, and edges with their communication costs.
    pub(crate) fn figure_2() -> Problem {
        let cost = [
            [14, 16, 9],
            [13, 19, 18],
            [11, 13, 19],
            [13, 8, 17],
            [12, 13, 10],
            [13, 16, 9],
            [7, 15, 11],
            [5, 11, 14],
            [18, 12, 20],
            [21, 7, 16],
        ];
        let edges = [
            (1, 2, 18),
            (1, 3, 12),
            (1, 4, 9),
            (1, 5, 11),
            (1, 6, 14),
            (2, 8, 19),
            (2, 9, 16),
            (3, 7, 23),
            (4, 8, 27),
            (4, 9, 23),
            (5, 9, 13),
            (6, 8, 15),
            (7, 10, 17),
            (8, 10, 11),
            (9, 10, 13),
        ];
        let after = |task: usize| {
            let before = edges.iter().filter(move |(_, to, _)| *to == task + 1);
            before.map(|(from, _, data)| (from - 1, f64::from(*data))).collect()
        };
        let link = (0..3).map(|from| (0..3).map(|to| f64::from(u8::from(from != to))).collect()).collect();
        let cost: Vec<Vec<f64>> = cost.iter().map(|costs| costs.map(f64::from).to_vec()).collect();
        Problem { after: (0..10).map(after).collect(), cost, link }
    }

    #[test]
    fn upward_ranks_are_those_of_table_1() {
        let ranks = upward(&figure_2());
        let expected = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667];
        for (rank, expected) in ranks.iter().zip(expected) {
            assert!((rank - expected).abs() < 1e-3, "{ranks:?}");
        }
    }

    #[test]
    fn downward_ranks_add_up_to_the_critical_path() {
        let problem = figure_2();
        let (up, down) = (upward(&problem), downward(&problem));
        assert_eq!(down[0], 0.0);
        let longest = up.iter().zip(&down).map(|(up, down)| up + down).fold(0.0, f64::max);
        assert!((longest - up[0]).abs() < 1e-9, "{longest}");
        for task in [0, 1, 8, 9] {
            assert!((up[task] + down[task] - 108.0).abs() < 1e-3, "the critical path is 1, 2, 9, 10");
        }
    }
}
