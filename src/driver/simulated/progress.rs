//! Progress of running tasks under changing load.
//!
//! Units of one kind share caches and memory, so the more of them are busy, the slower each of them is. Tasks with the
//! same response to load form a *class*. All tasks of a class slow down together, so a single number suffices to track
//! them: the *service* that a task would have received if it had run since the class's zero point. A task that needs
//! `w` and starts at service `s` ends when the class has provided `s + w`, however the load changes meanwhile (virtual
//! time, as in Parekh and Gallager's generalized processor sharing, 1993). A load change only updates classes, not
//! individual tasks. A unit whose speed changes during the run has separate classes, with its speed.
//!
//! Times are integers and are rounded up. Tasks that end at the same time end in the order in which they began.

use crate::engine::Nanos;
use crate::sim::Curve;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Identifies a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassId(pub(super) usize);

/// All running tasks.
#[derive(Debug, Default)]
pub(super) struct Progress {
    classes: Vec<Class>,
    /// For each pool of units that share resources, the number of busy cores (or devices).
    loads: Vec<f64>,
    begun: u64,
}

#[derive(Debug)]
struct Class {
    pool: usize,
    slowdown: Curve,
    /// Service provided until `since`, and the slowdown from then on.
    service: f64,
    since: Nanos,
    factor: f64,
    speed: f64,
    running: BinaryHeap<Reverse<Begun>>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    ends_at_service: f64,
    begun: u64,
    unit: usize,
}

impl Begun {
    fn key(&self, other: &Self) -> Ordering {
        self.ends_at_service.total_cmp(&other.ends_at_service).then(self.begun.cmp(&other.begun))
    }
}

impl PartialEq for Begun {
    fn eq(&self, other: &Self) -> bool {
        self.key(other).is_eq()
    }
}

impl Eq for Begun {}

impl PartialOrd for Begun {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Begun {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key(other)
    }
}

impl Class {
    /// Sets the load of the pool and the speed of the units from `now` on.
    fn change(&mut self, now: Nanos, load: f64, speed: f64) {
        self.catch_up(now);
        self.speed = speed;
        self.factor = self.slowdown.at(load) / speed;
    }

    fn catch_up(&mut self, now: Nanos) {
        self.service += (now - self.since) as f64 / self.factor;
        self.since = now;
    }

    fn next_end(&self) -> Option<Nanos> {
        let Reverse(first) = self.running.peek()?;
        let missing = (first.ends_at_service - self.service).max(0.0);
        Some(self.since.saturating_add((missing * self.factor).ceil() as Nanos))
    }
}

impl Progress {
    /// Creates `pools` idle pools.
    pub(super) fn new(pools: usize) -> Self {
        Self { classes: Vec::new(), loads: vec![0.0; pools], begun: 0 }
    }

    /// Adds a class of tasks that run on units of `pool` with this speed.
    pub(super) fn add_class(&mut self, pool: usize, slowdown: Curve, speed: f64) -> ClassId {
        let factor = slowdown.at(self.loads[pool]) / speed;
        self.classes.push(Class { pool, slowdown, service: 0.0, since: 0, factor, speed, running: BinaryHeap::new() });
        ClassId(self.classes.len() - 1)
    }

    /// Changes the speed of a class's units.
    pub(super) fn set_speed(&mut self, now: Nanos, ClassId(class): ClassId, speed: f64) {
        let class = &mut self.classes[class];
        class.change(now, self.loads[class.pool], speed);
    }

    /// Adds a unit's load to its pool, or removes it if `by` is negative.
    pub(super) fn load(&mut self, now: Nanos, pool: usize, by: f64) {
        self.loads[pool] += by;
        let load = self.loads[pool];
        for class in self.classes.iter_mut().filter(|class| class.pool == pool) {
            class.change(now, load, class.speed);
        }
    }

    /// Begins a task on `unit` that would take `work_ns` without any slowdown.
    pub(super) fn begin(&mut self, now: Nanos, ClassId(class): ClassId, work_ns: f64, unit: usize) {
        let class = &mut self.classes[class];
        class.catch_up(now);
        if class.running.is_empty() {
            class.service = 0.0; // preserves the precision of the sum
        }
        self.begun += 1;
        let ends_at_service = class.service + work_ns;
        class.running.push(Reverse(Begun { ends_at_service, begun: self.begun, unit }));
    }

    /// Returns the end time and class of the task that ends next, provided the load does not change before that.
    pub(super) fn next_end(&self) -> Option<(Nanos, ClassId)> {
        let ends = self.classes.iter().enumerate().filter_map(|(id, class)| Some((class.next_end()?, id)));
        ends.min().map(|(at, id)| (at, ClassId(id)))
    }

    /// Ends the next task of `class` at the time `now`. Returns the task's unit.
    pub(super) fn end(&mut self, now: Nanos, ClassId(class): ClassId) -> usize {
        let class = &mut self.classes[class];
        class.catch_up(now);
        let Reverse(ended) = class.running.pop().expect("a task of the class runs");
        ended.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Beyond;

    #[test]
    fn task_slows_down_while_others_run() {
        let mut progress = Progress::new(1);
        let class = progress.add_class(0, Curve::through(vec![(1.0, 1.0), (2.0, 3.0)], Beyond::Rises), 1.0);
        progress.load(0, 0, 1.0);
        progress.begin(0, class, 100.0, 7);
        assert_eq!(progress.next_end(), Some((100, class)));
        progress.load(40, 0, 1.0); // 60 to go, three times as slow
        progress.begin(40, class, 10.0, 8);
        assert_eq!(progress.next_end(), Some((70, class)));
        assert_eq!(progress.end(70, class), 8);
        progress.load(70, 0, -1.0);
        assert_eq!(progress.next_end(), Some((120, class)), "alone again, with 50 to go");
        assert_eq!(progress.end(120, class), 7);
        assert_eq!(progress.next_end(), None);
    }

    #[test]
    fn running_task_continues_at_the_new_speed() {
        let mut progress = Progress::new(1);
        let class = progress.add_class(0, Curve::flat(1.0), 2.0);
        progress.load(0, 0, 1.0);
        progress.begin(0, class, 100.0, 7);
        assert_eq!(progress.next_end(), Some((50, class)));
        progress.set_speed(20, class, 0.5); // 60 to go
        assert_eq!(progress.next_end(), Some((140, class)));
        progress.load(30, 0, 1.0);
        assert_eq!(progress.next_end(), Some((140, class)), "the load changes no speed");
    }

    #[test]
    fn ties_end_in_order_of_beginning_and_ends_round_up() {
        let mut progress = Progress::new(1);
        let class = progress.add_class(0, Curve::flat(1.0), 1.0);
        for unit in [5, 3, 4] {
            progress.begin(10, class, 2.5, unit);
        }
        let order: Vec<_> = (0..3)
            .map(|_| {
                let (at, class) = progress.next_end().unwrap();
                (at, progress.end(at, class))
            })
            .collect();
        assert_eq!(order, [(13, 5), (13, 3), (13, 4)]);
    }
}
