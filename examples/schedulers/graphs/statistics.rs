//! Means, confidence intervals and ranks of the runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{POLICIES, RIVALS, Took};
use crate::interval::{Mean, mean};

/// Returns all schedulers, the library's first.
pub(super) fn schedulers() -> impl Iterator<Item = &'static str> {
    POLICIES.into_iter().chain(RIVALS)
}

/// Returns the means of each case, in order, by scheduler.
pub(super) fn means(rows: &[Took], of: fn(&Took) -> f64) -> Vec<(String, BTreeMap<&'static str, Mean>)> {
    let by_case = rows.chunk_by(|one, other| one.case == other.case);
    let of_case = |rows: &[Took]| {
        let of = |scheduler: &'static str| {
            let values: Vec<f64> = rows.iter().filter(|row| row.scheduler == scheduler).map(of).collect();
            (!values.is_empty()).then(|| (scheduler, mean(&values)))
        };
        (rows[0].case.clone(), schedulers().filter_map(of).collect())
    };
    by_case.map(of_case).collect()
}

/// Formats the warm runs of each case; values within 2 % of the best are bold.
pub(super) fn by_case(rows: &[Took]) -> String {
    let mut text = format!("| case | {} |\n|", schedulers().collect::<Vec<_>>().join(" | "));
    text += &" --- |".repeat(1 + schedulers().count());
    text.push('\n');
    for (case, means) in means(rows, |row| row.warm) {
        let best = means.values().map(|(mean, _)| *mean).fold(f64::INFINITY, f64::min);
        let _ = write!(text, "| {case} |");
        for scheduler in schedulers() {
            let (mean, interval) = means[scheduler];
            let bold = if mean <= 1.02 * best { "**" } else { "" };
            let _ = write!(text, " {bold}{mean:.3}{bold} ± {interval:.3} |");
        }
        text.push('\n');
    }
    text
}

/// Formats the geometric mean over all cases, the largest excess over the best scheduler that runs in the simulation,
/// and the mean rank.
pub(super) fn summary(rows: &[Took]) -> String {
    let mut text = String::from(
        "| scheduler | cold: geometric mean | mean rank | most over the best | warm: geometric mean | mean rank | most \
         over the best |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let all = [means(rows, |row| row.cold), means(rows, |row| row.warm)];
    for scheduler in schedulers() {
        let _ = write!(text, "| `{scheduler}` |");
        for means in &all {
            let n = means.len() as f64;
            let log: f64 = means.iter().map(|(_, means)| means[scheduler].0.ln()).sum();
            let rank = |means: &BTreeMap<&str, Mean>| {
                let better = means.values().filter(|(mean, _)| *mean < means[scheduler].0);
                1.0 + better.count() as f64
            };
            let ranks: f64 = means.iter().map(|(_, means)| rank(means)).sum();
            let excess = |means: &BTreeMap<&str, Mean>| {
                let real = means.iter().filter(|(name, _)| **name != "heteroprio");
                means[scheduler].0 / real.map(|(_, (mean, _))| *mean).fold(f64::INFINITY, f64::min) - 1.0
            };
            let most = means.iter().map(|(_, means)| excess(means)).fold(0.0, f64::max);
            let _ = write!(text, " {:.3} | {:.1} | {:.0} % |", (log / n).exp(), ranks / n, 100.0 * most);
        }
        text.push('\n');
    }
    text
}
