//! Figures by task name: bodies' durations, and the delay from ready to start.

use super::prepare::Prepared;
use super::spans::sum;
use std::collections::HashMap;

/// Figures for all tasks with the same name. Times are in nanoseconds; all are 0 if no body ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameUse {
    /// The tasks' name.
    pub name: String,
    /// Index in [`Trace::sites`](crate::Trace::sites) of the site with the most tasks of this name.
    pub site: usize,
    /// The number of bodies that ran.
    pub count: u64,
    /// The number of bodies that failed.
    pub failed: u64,
    /// The number of tasks that did not run: poisoned, cancelled, or still waiting when the trace ended.
    pub unrun: u64,
    /// The sum of the bodies' durations.
    pub total: u64,
    /// The mean duration.
    pub mean: u64,
    /// The median: half of the bodies took at most this long.
    pub p50: u64,
    /// 99 of 100 bodies took at most this long.
    pub p99: u64,
    /// The longest duration.
    pub max: u64,
    /// The median delay from ready to start.
    pub wait_p50: u64,
    /// The delay from ready to start that 99 of 100 tasks did not exceed.
    pub wait_p99: u64,
    /// Histogram of durations: the lower bound of each class and the number of bodies in it. Bounds are 0, 1, 2, 3,
    /// 4, 6, 8, 12, …. All classes between the shortest and the longest duration are present, including empty ones.
    pub histogram: Vec<(u64, u64)>,
    /// The same bodies by kind of unit, most time first.
    pub kinds: Vec<KindUse>,
}

/// The bodies of one task name that ran on one kind of unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindUse {
    /// The kind, such as `CPU`; `?` if the trace does not say.
    pub kind: String,
    /// The number of bodies that ran on this kind of unit.
    pub count: u64,
    /// The sum of those bodies' durations, in nanoseconds.
    pub total: u64,
}

#[derive(Default)]
struct Collected {
    sites: HashMap<usize, u64>,
    durations: Vec<u64>,
    waits: Vec<u64>,
    failed: u64,
    unrun: u64,
    /// Count and total duration per unit; the last entry is for bodies on an unknown unit.
    units: Vec<(u64, u64)>,
}

/// Returns the figures for each name, largest total first and ties by name; the median duration of all bodies; and
/// the median and 99th percentile of the delay from ready to start over all tasks.
pub(super) fn by_name(prepared: &Prepared<'_>) -> (Vec<NameUse>, u64, [u64; 2]) {
    let trace = prepared.trace;
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let name_of: Vec<usize> = trace
        .sites
        .iter()
        .map(|site| {
            let next = numbers.len();
            *numbers.entry(site.name.as_str()).or_insert(next)
        })
        .collect();
    let mut names: Vec<Collected> = numbers.iter().map(|_| Collected::default()).collect();
    let mut per_site = vec![0_u64; trace.sites.len()];
    for (number, task) in trace.tasks.iter().enumerate() {
        per_site[task.site] += 1;
        let name = &mut names[name_of[task.site]];
        let Some(start) = task.start else {
            name.unrun += 1;
            continue;
        };
        let duration = prepared.duration(number);
        name.durations.push(duration);
        name.waits.push(start - prepared.ready[number].min(start));
        name.failed += u64::from(task.outcome == Some(crate::Outcome::Failed));
        if name.units.is_empty() {
            name.units.resize(prepared.units + 1, (0, 0));
        }
        let (count, total) = &mut name.units[task.unit.unwrap_or(prepared.units)];
        (*count, *total) = (*count + 1, total.saturating_add(duration));
    }
    for (site, tasks) in per_site.into_iter().enumerate().filter(|(_, tasks)| *tasks > 0) {
        names[name_of[site]].sites.insert(site, tasks);
    }
    let mut waits: Vec<u64> = names.iter().flat_map(|name| name.waits.iter().copied()).collect();
    let mut bodies: Vec<u64> = names.iter().flat_map(|name| name.durations.iter().copied()).collect();
    let names = names.into_iter().filter(|name| !name.sites.is_empty());
    let mut names: Vec<NameUse> = names.map(|name| name.figures(prepared)).collect();
    names.sort_by(|one, other| other.total.cmp(&one.total).then_with(|| one.name.cmp(&other.name)));
    let [body_p50, _] = percentiles(&mut bodies);
    (names, body_p50, percentiles(&mut waits))
}

impl Collected {
    fn figures(mut self, prepared: &Prepared<'_>) -> NameUse {
        let most = self.sites.iter().max_by_key(|(site, tasks)| (**tasks, std::cmp::Reverse(**site)));
        let site = *most.expect("only names with tasks are kept").0;
        let (count, total) = (self.durations.len() as u64, sum(self.durations.iter().copied()));
        let [p50, p99] = percentiles(&mut self.durations);
        let [wait_p50, wait_p99] = percentiles(&mut self.waits);
        NameUse {
            name: prepared.trace.sites[site].name.clone(),
            site,
            count,
            failed: self.failed,
            unrun: self.unrun,
            total,
            mean: total.checked_div(count).unwrap_or(0),
            p50,
            p99,
            max: self.durations.iter().copied().max().unwrap_or(0),
            wait_p50,
            wait_p99,
            histogram: histogram(&self.durations),
            kinds: self.kinds(prepared),
        }
    }

    fn kinds(&self, prepared: &Prepared<'_>) -> Vec<KindUse> {
        let mut kinds: Vec<KindUse> = Vec::new();
        for (unit, (count, total)) in self.units.iter().enumerate().filter(|(_, (count, _))| *count > 0) {
            let kind = prepared.trace.units.get(unit).map_or("?", |unit| unit.kind.as_str());
            match kinds.iter_mut().find(|known| known.kind == kind) {
                Some(known) => (known.count, known.total) = (known.count + count, known.total.saturating_add(*total)),
                None => kinds.push(KindUse { kind: kind.to_owned(), count: *count, total: *total }),
            }
        }
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.total));
        kinds
    }
}

/// Returns the 50th and 99th percentiles. Reorders `values`.
fn percentiles(values: &mut [u64]) -> [u64; 2] {
    [50, 99].map(|percent| match (values.len() * percent).div_ceil(100).checked_sub(1) {
        None => 0,
        Some(rank) => *values.select_nth_unstable(rank).1,
    })
}

/// Returns the histogram class of a value. From 2 on, each power of two is split into two classes.
fn class(value: u64) -> u32 {
    match value {
        0 | 1 => value as u32,
        _ => 2 * value.ilog2() + (value >> (value.ilog2() - 1) & 1) as u32,
    }
}

/// Returns the lowest value of a class.
fn lower_bound(class: u32) -> u64 {
    if class < 2 { class.into() } else { (2 + u64::from(class & 1)) << (class / 2 - 1) }
}

fn histogram(values: &[u64]) -> Vec<(u64, u64)> {
    let Some(last) = values.iter().copied().max().map(class) else { return Vec::new() };
    let first = values.iter().copied().min().map_or(last, class);
    let mut counts: Vec<(u64, u64)> = (first..=last).map(|class| (lower_bound(class), 0)).collect();
    for value in values {
        counts[(class(*value) - first) as usize].1 += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_at_their_lower_bounds() {
        for class_number in 0..128 {
            assert_eq!(class(lower_bound(class_number)), class_number);
            assert!(class_number == 0 || class(lower_bound(class_number) - 1) == class_number - 1);
        }
        assert_eq!(histogram(&[5, 6, 13]), [(4, 1), (6, 1), (8, 0), (12, 1)]);
        assert_eq!(class(u64::MAX), 127);
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        assert_eq!(percentiles(&mut []), [0, 0]);
        assert_eq!(percentiles(&mut [7]), [7, 7]);
        let mut values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(percentiles(&mut values), [100, 198]);
    }
}
