//! Batches of recorded tasks that may be submitted together: by the device or index that determines where they run, and
//! by their dependences.

use super::step::{Graphable, RecordedRegion};
use crate::depend::Mode;
use crate::ids::{DataId, DeviceId};
use crate::region::RegionMap;
use rustc_hash::FxHashMap;

/// The device or index that determines where a task runs, if there are several devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    Device(DeviceId),
    /// The iteration space and the index, and whether the task only runs near the index.
    Index(u64, usize, bool),
}

impl Destination {
    pub(super) fn task(task: &Graphable<'_>) -> Option<Self> {
        let index = task.index.map(|(space, index, beside)| Self::Index(space.id(), *index, *beside));
        index.or(task.device.map(Self::Device))
    }
}

/// Tasks with the same destination.
struct Batch {
    tasks: Vec<usize>,
    /// The index of the task that ended the batch; `None` while the batch is open.
    end: Option<usize>,
}

/// Returns batches of tasks with the same destination, in an order in which no batch comes before a batch that it
/// depends on.
///
/// A batch ends when a task of another destination depends on one of its tasks. It also ends when a task of the same
/// destination depends on a batch of another destination that had not ended when this batch began. Otherwise, the whole
/// batch would have to wait for that other batch, and the destinations would wait for each other alternately.
pub(super) fn by_destination(destinations: &[Destination], before: &[Before]) -> Vec<Vec<usize>> {
    let (mut batches, mut ended): (Vec<Batch>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut of_task: Vec<usize> = Vec::with_capacity(destinations.len());
    let mut open: FxHashMap<Destination, usize> = FxHashMap::default();
    for (task, destination) in destinations.iter().enumerate() {
        let mut ending = Vec::new();
        for other in before[task].all.iter().filter(|other| destinations[**other] != *destination) {
            let theirs = of_task[*other];
            if batches[theirs].end.is_none() {
                batches[theirs].end = Some(task);
                ending.push((destinations[*other], theirs));
            }
            if let Some(own) = open.get(destination)
                && batches[theirs].end > Some(batches[*own].tasks[0])
                && batches[*own].end.is_none()
            {
                batches[*own].end = Some(task);
                ending.push((*destination, *own));
            }
        }
        for (destination, batch) in ending {
            open.remove(&destination);
            ended.push(batch);
        }
        let batch = *open.entry(*destination).or_insert_with(|| {
            batches.push(Batch { tasks: Vec::new(), end: None });
            batches.len() - 1
        });
        batches[batch].tasks.push(task);
        of_task.push(batch);
    }
    let mut rest: Vec<usize> = open.into_values().collect();
    rest.sort_unstable();
    ended.into_iter().chain(rest).map(|batch| std::mem::take(&mut batches[batch].tasks)).collect()
}

/// The tasks of a list that most recently accessed a part.
#[derive(Clone, Default)]
struct Latest {
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// The tasks that a task depends on, by their indices in a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) all: Vec<usize>,
    /// Those that only the combination of the task's reductions has to wait for.
    pub(super) combination: Vec<usize>,
}

/// Returns, for each task, the tasks that it depends on. The members of a group of reductions combine their
/// contributions one after the other.
pub(super) fn predecessors(tasks: &[Graphable<'_>]) -> Vec<Before> {
    let mut latest: FxHashMap<DataId, RegionMap<Latest>> = FxHashMap::default();
    let enter = |(number, task): (usize, &Graphable<'_>)| {
        let [mut body, mut combination] = [Vec::new(), Vec::new()];
        for region in task.regions {
            let record = region.record();
            let before = if record.is_reduced_in_place() { &mut combination } else { &mut body };
            let new = || RegionMap::new(record.datum.whole(), record.datum.ndim(), Latest::default());
            let map = latest.entry(record.datum.id).or_insert_with(new);
            map.visit(record.block, |_, Latest { writer, readers }| {
                before.extend(*writer);
                if record.mode.writes() {
                    before.append(readers);
                    *writer = Some(number);
                } else {
                    readers.push(number);
                }
            });
        }
        let sorted = |mut tasks: Vec<usize>| {
            tasks.retain(|other| *other != number);
            tasks.sort_unstable();
            tasks.dedup();
            tasks
        };
        let (body, mut combination) = (sorted(body), sorted(combination));
        combination.retain(|other| body.binary_search(other).is_err());
        Before { all: sorted(body.into_iter().chain(combination.iter().copied()).collect()), combination }
    };
    tasks.iter().enumerate().map(enter).collect()
}

/// The latest use of a part by a list of tasks.
#[derive(Clone, Default)]
enum LatestUse {
    /// No task of the list has used it.
    #[default]
    None,
    Other,
    /// A group of reductions with this mode, which consists of these tasks.
    Group(Mode, Vec<usize>),
    /// A group of reductions with this mode, which began before the list.
    Begun(Mode),
}

/// Returns the tasks of a batch with reductions whose groups may have members outside the batch: a group may begin
/// before the batch, unless one of its tasks uses the region in another way before, and it may continue after it,
/// unless one of its tasks uses the region in another way afterwards.
pub(super) fn open_groups(batch: &[usize], tasks: &[Graphable<'_>]) -> Vec<usize> {
    let mut latest: FxHashMap<DataId, RegionMap<LatestUse>> = FxHashMap::default();
    let mut open = Vec::new();
    if !batch.iter().flat_map(|task| tasks[*task].regions).any(|region| region.record().is_reduced_in_place()) {
        return open;
    }
    for task in batch {
        for record in tasks[*task].regions.iter().map(RecordedRegion::record) {
            let new = || RegionMap::new(record.datum.whole(), record.datum.ndim(), LatestUse::None);
            let map = latest.entry(record.datum.id).or_insert_with(new);
            map.visit(record.block, |_, latest| match latest {
                _ if !record.is_reduced_in_place() => *latest = LatestUse::Other,
                LatestUse::Group(mode, members) if *mode == record.mode => members.push(*task),
                LatestUse::None => {
                    open.push(*task);
                    *latest = LatestUse::Begun(record.mode);
                }
                LatestUse::Begun(mode) if *mode == record.mode => open.push(*task),
                _ => *latest = LatestUse::Group(record.mode, vec![*task]),
            });
        }
    }
    for record in batch.iter().flat_map(|task| tasks[*task].regions).map(RecordedRegion::record) {
        if let Some(map) = latest.get(&record.datum.id) {
            map.peek(record.block, |_, latest| {
                if let LatestUse::Group(_, members) = latest {
                    open.extend(members);
                }
            });
        }
    }
    open.sort_unstable();
    open.dedup();
    open
}

/// Returns batches of tasks without dependences between batches. Each batch keeps the order of its tasks.
pub(super) fn connected(before: &[Before]) -> Vec<Vec<usize>> {
    let mut batch: Vec<usize> = (0..before.len()).collect();
    fn root(batch: &mut [usize], mut task: usize) -> usize {
        while batch[task] != task {
            batch[task] = batch[batch[task]];
            task = batch[task];
        }
        task
    }
    for (task, before) in before.iter().enumerate() {
        for other in &before.all {
            let (a, b) = (root(&mut batch, task), root(&mut batch, *other));
            batch[a.max(b)] = a.min(b);
        }
    }
    let mut batches: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    (0..before.len()).for_each(|task| batches[root(&mut batch, task)].push(task));
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Returns whether each task depends on the one before it.
pub(super) fn is_chain(batch: &[usize], before: &[Before]) -> bool {
    batch.windows(2).all(|pair| before[pair[1]].all.contains(&pair[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after<const N: usize>(before: [Vec<usize>; N]) -> [Before; N] {
        before.map(|all| Before { all, combination: Vec::new() })
    }

    #[test]
    fn batch_lasts_until_another_destination_depends_on_it() {
        let [a, b] = [0, 1].map(|device| Destination::Device(DeviceId(device)));
        // Two steps of two parts each, first without and then with halos.
        let apart = after([vec![], vec![], vec![0], vec![1]]);
        assert_eq!(by_destination(&[a, b, a, b], &apart), [[0, 2], [1, 3]]);
        let halos = after([vec![], vec![], vec![0, 1], vec![0, 1]]);
        assert_eq!(by_destination(&[a, b, a, b], &halos), [[1], [0], [2], [3]]);
        // Two tasks of each destination between two exchanges, and one task that depends only on its own destination.
        let before = after([vec![], vec![], vec![0], vec![1], vec![2, 3], vec![2, 3], vec![4], vec![5]]);
        assert_eq!(
            by_destination(&[a, b, a, b, a, b, a, b], &before),
            [vec![1, 3], vec![0, 2], vec![4, 6], vec![5, 7]]
        );
        // For arbitrary dependences, a successor is in the same batch or a later one.
        let destinations: Vec<_> = (0..60).map(|task| Destination::Device(DeviceId(task * 7 % 11 % 3))).collect();
        let before: Vec<Before> = (0..60)
            .map(|task| (0..task).filter(|other| (task * 31 + other * 17) % 23 == 0).collect())
            .map(|all| Before { all, combination: Vec::new() })
            .collect();
        let batches = by_destination(&destinations, &before);
        let number = |task: usize| batches.iter().position(|batch| batch.contains(&task)).unwrap();
        for (task, before) in before.iter().enumerate() {
            assert!(before.all.iter().all(|other| number(*other) <= number(task)), "{task}");
        }
        assert_eq!(batches.iter().flatten().count(), 60);
    }

    #[test]
    fn connected_tasks_are_batched_and_chains_recognized() {
        let before = after([vec![], vec![], vec![0], vec![1], vec![2, 0], vec![1]]);
        let batches = connected(&before);
        assert_eq!(batches, [vec![0, 2, 4], vec![1, 3, 5]]);
        assert!(is_chain(&batches[0], &before) && !is_chain(&batches[1], &before));
    }
}
