//! Goals of the runtime relative to bare calls of the same run. A missed goal does not fail the bench: because machines
//! are shared, a person has to judge the result.

use super::Row;
use super::launches::{CHAIN, GRAPH, LAUNCH, REPLAYED};
use super::overlap::COPIES;
use super::report::Table;

/// A pair of cases, and the most that the first may take relative to the second.
struct Goal {
    question: &'static str,
    ours: &'static str,
    bare: &'static str,
    most: f64,
}

const GOALS: [Goal; 3] = [
    Goal { question: "launches", ours: CHAIN, bare: LAUNCH, most: 1.3 },
    Goal { question: "launches", ours: REPLAYED, bare: GRAPH, most: 1.2 },
    // Data streams through the device at 90 % of the rate of its copy engines.
    Goal { question: "overlap", ours: COPIES, bare: COPIES, most: 1.0 / 0.9 },
];

impl Goal {
    fn value(&self, rows: &[Row], case: &str, contender: &str) -> Option<f64> {
        let row = |row: &&Row| (row.question, row.contender, row.case.as_str()) == (self.question, contender, case);
        rows.iter().find(row).map(|row| row.value)
    }
}

/// Prints each goal for which both sides have been measured.
pub(crate) fn print(rows: &[Row]) {
    let mut table = Table::new("compared with bare calls", &["times the time", "goal", "met"]);
    let mut are_compared = false;
    for goal in GOALS {
        let sides = goal.value(rows, goal.ours, "thalweg").zip(goal.value(rows, goal.bare, "bare"));
        let Some((ours, bare)) = sides else { continue };
        let ratio = ours / bare;
        // Times are differences, which noise can make negative.
        let met = if ratio > 0.0 && ratio <= goal.most { "yes" } else { "no" };
        table.row(
            &format!("{}: {}", goal.question, goal.ours),
            [Some(format!("{ratio:.2}")), Some(format!("≤ {:.2}", goal.most)), Some(met.to_owned())],
        );
        are_compared = true;
    }
    if are_compared {
        table.print("Goals (medians)");
    }
}
