//! Waits of bodies that keep their units while they wait for another runtime. Also detects deadlocks in which runtimes
//! wait for each other in this way with all of their units.
//!
//! A waiting body on a CPU unit is suspended ([`super::foreign_wait`]). By contrast, a body on a device, a destructor,
//! or a body in the pool of a user's thread keeps its unit. If every unit of some runtimes is kept by a wait for
//! another runtime of the same set, nothing that these runtimes wait for can run. All such waits of the process are in
//! one table, so that one of them can be refused: among the waits that can be refused, the one that began last. As
//! long as any of the units is free to run tasks, no wait is refused.
//!
//! A wait in the table may be over although its thread has not noticed that yet. So the thread that finds a stuck
//! group wakes the other threads, each of them checks whether it still has to wait, and the last of them refuses a
//! wait. A kept unit runs nothing meanwhile, so a condition that did not hold at such a check cannot hold later.
//! Activities that proceed without a unit, namely detached tasks and copies by a separate thread, prevent waits from
//! being refused.
//!
//! Invariants:
//! 1. A wait has an entry in the table exactly while its thread is in the wait and keeps the unit. The thread removes
//!    the entry under the lock, even when it unwinds.
//! 2. Waits with a time limit end by themselves, so they have no entry.
//! 3. Only threads that [`share`] the process state hold the lock, so the lock is free at a fork. No user code is
//!    called while the lock is held.

use super::host::Host;
use super::state::Threads;
use crate::depend::{Meta, running};
use crate::driver::deadlock::Circle;
use crate::sync::CallSite;
use crate::sync::{Parker, share};
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Interval for checking a group again that is stuck except for something that proceeds without a unit.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

static TABLE: Mutex<Table> = Mutex::new(Table { waits: Vec::new(), begun: 0 });

struct Table {
    waits: Vec<Wait>,
    begun: u64,
}

/// A wait that keeps a unit.
struct Wait {
    /// ID of the wait; IDs increase in the order in which the waits began.
    id: u64,
    /// The runtime that owns the kept unit.
    keeper: Weak<Threads>,
    of: u64,
    unit: usize,
    awaited: u64,
    parker: Arc<Parker>,
    /// Name and submission site of the task whose code waits; `None` if the wait cannot be refused.
    task: Option<(String, CallSite)>,
    /// Whether the thread meanwhile runs tasks for the awaited runtime's first unit.
    hosts: bool,
    /// Number of waits that had begun when the thread last saw that it still has to wait.
    seen: u64,
    refused: Option<String>,
}

/// A thread's entry in the table, if its wait has one.
pub(super) struct Kept(Option<u64>);

/// What a waiting thread does next.
pub(super) enum Outlook {
    /// The thread sleeps, for at most this time if given.
    Sleeps(Option<Duration>),
    Refused(Circle),
}

thread_local! {
    /// The runtime to whose first unit's pool this thread belongs; set only if a user's thread hosts that unit.
    static POOL_OF: OnceCell<Weak<Threads>> = const { OnceCell::new() };
}

/// Notes that this thread runs bodies for a user's thread that hosts the first unit.
pub(super) fn join_pool(threads: Weak<Threads>) {
    let _ = POOL_OF.try_with(|pool| pool.set(threads));
}

/// Returns the runtime and the unit that the code on this thread keeps while it waits for the runtime `awaited`.
fn kept_here(awaited: u64) -> Option<(Arc<Threads>, usize)> {
    let (runtime, is_of_task) = running::innermost().filter(|(runtime, _)| *runtime != awaited)?;
    let of_host = Host::with(runtime, |host| {
        host.map(|host| {
            host.threads.upgrade().filter(|threads| threads.hosting[host.slot()].is_there()).zip(Some(host.unit))
        })
    });
    let kept = of_host.unwrap_or_else(|| {
        let pool = POOL_OF.try_with(|pool| pool.get().and_then(Weak::upgrade)).ok().flatten();
        pool.filter(|threads| is_of_task && threads.shared.id == runtime).zip(Some(0))
    });
    kept.filter(|(threads, unit)| *unit > 0 || threads.seat.get().is_none_or(|seat| seat.is_locked()))
}

impl Kept {
    /// Begins a wait for the runtime `awaited` on this thread, which sleeps on `parker`.
    pub(super) fn begin(awaited: &Threads, parker: &Arc<Parker>, ends_by_itself: bool, can_be_refused: bool) -> Self {
        let kept = if ends_by_itself { None } else { kept_here(awaited.shared.id) };
        Self(kept.map(|(keeper, unit)| {
            let of = keeper.shared.id;
            let task = running::with_task(of, |task| {
                let Meta { name, location, .. } = task.shared();
                (name.clone().into_owned(), *location)
            });
            with_table(|table| {
                table.begun += 1;
                let (id, keeper) = (table.begun, Arc::downgrade(&keeper));
                let (awaited, parker, task) = (awaited.shared.id, parker.clone(), task.filter(|_| can_be_refused));
                let (hosts, seen, refused) = (false, 0, None);
                table.waits.push(Wait { id, keeper, of, unit, awaited, parker, task, hosts, seen, refused });
                id
            })
        }))
    }

    /// Calls `run`, during which the thread runs tasks for the awaited runtime's first unit.
    pub(super) fn hosting(&self, run: impl FnOnce()) {
        let hosts = |hosts| {
            self.0
                .into_iter()
                .for_each(|id| with_table(|table| table.of(id).into_iter().for_each(|wait| wait.hosts = hosts)));
        };
        hosts(true);
        run();
        hosts(false);
    }

    /// Determines what the thread does next while something is `left` to wait for. Called before the thread sleeps.
    pub(super) fn look(&self, left: impl Fn() -> u64) -> Outlook {
        let Some(id) = self.0 else { return Outlook::Sleeps(None) };
        with_table(|table| table.look(id, left))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            let own = with_table(|table| table.waits.extract_if(.., |wait| wait.id == id).next());
            drop(own);
        }
    }
}

fn with_table<R>(look: impl FnOnce(&mut Table) -> R) -> R {
    let (_unforked, mut table) = (share(), TABLE.lock());
    look(&mut table)
}

impl Table {
    fn of(&mut self, id: u64) -> Option<&mut Wait> {
        self.waits.iter_mut().find(|wait| wait.id == id)
    }

    fn look(&mut self, id: u64, left: impl Fn() -> u64) -> Outlook {
        let begun = self.begun;
        let Some(own) = self.of(id).filter(|_| left() > 0) else { return Outlook::Sleeps(None) };
        own.seen = begun;
        let awaited = own.awaited;
        let Some((group, moves)) = self.stuck(awaited) else { return Outlook::Sleeps(None) };
        if moves {
            return Outlook::Sleeps(Some(LOOK_AGAIN));
        }
        if self.of(id).is_some_and(|own| own.refused.is_none()) {
            self.settle(&group);
        }
        let refused = self.of(id).and_then(|own| own.refused.clone().zip(own.task.clone()));
        refused.map_or(Outlook::Sleeps(None), |(way, (task, submitted_at))| {
            Outlook::Refused(Circle { task, submitted_at, way })
        })
    }

    /// Searches for a stuck group: all units of this runtime, and of all runtimes that it waits for directly or
    /// indirectly, are kept by waits. Returns these waits, and whether anything in these runtimes proceeds without a
    /// unit; `None` if any unit is free.
    fn stuck(&self, awaited: u64) -> Option<(Vec<usize>, bool)> {
        let (mut runtimes, mut group, mut moves, mut next) = (vec![awaited], vec![], false, 0);
        while let Some(runtime) = runtimes.get(next).copied() {
            next += 1;
            let own = || self.waits.iter().enumerate().filter(|(_, wait)| wait.of == runtime);
            // The runtime cannot end meanwhile: one of its bodies is in a wait, and the lock keeps that wait in the
            // table.
            let threads = own().next()?.1.keeper.upgrade()?;
            let mut units = 0..threads.shared.machine.num_units();
            if !units.all(|unit| own().any(|(_, wait)| wait.unit == unit)) {
                return None;
            }
            moves |= threads.moves_without_units();
            for (n, wait) in own() {
                group.push(n);
                if !runtimes.contains(&wait.awaited) {
                    runtimes.push(wait.awaited);
                }
            }
        }
        Some((group, moves))
    }

    /// Refuses the latest refusable wait of a stuck group, once all threads of the group have seen that they still
    /// have to wait. Until then, wakes the threads that have not seen it.
    fn settle(&mut self, group: &[usize]) {
        let last = group.iter().map(|n| self.waits[*n].id).max().unwrap_or(0);
        // A thread that hosts for another runtime does not return before the body that keeps that runtime's unit, so
        // it is not awaited here.
        let unseen: Vec<_> =
            group.iter().filter(|n| self.waits[**n].seen < last && !self.waits[**n].hosts).copied().collect();
        if !unseen.is_empty() {
            return unseen.iter().for_each(|n| self.waits[*n].parker.unpark());
        }
        if group.iter().any(|n| self.waits[*n].refused.is_some()) {
            return;
        }
        let refusable = group.iter().copied().filter(|n| self.waits[*n].task.is_some() && !self.waits[*n].hosts);
        if let Some(refused) = refusable.max_by_key(|n| self.waits[*n].id) {
            let way = self.describe(group);
            self.waits[refused].refused = Some(way);
            self.waits[refused].parker.unpark();
        }
    }

    /// Describes why such a group cannot continue.
    fn describe(&self, group: &[usize]) -> String {
        let task = |n: &usize| {
            let task = self.waits[*n].task.as_ref();
            task.map(|(name, at)| format!("`{name}`, submitted at {at}"))
        };
        let tasks: Vec<_> = group.iter().filter_map(task).collect();
        format!(
            "all units of the runtimes that wait for each other are kept by such waits, in {}; one more unit in one of \
             them would suffice",
            tasks.join(", and in ")
        )
    }
}

impl Threads {
    /// Returns whether anything may proceed although each unit is kept.
    fn moves_without_units(&self) -> bool {
        let copies = self.devices.as_ref().is_some_and(|devices| devices.is_copying());
        let hosts_unseated = self.hosts_unseated.load(Ordering::SeqCst);
        copies || hosts_unseated || !self.shared.away.is_empty()
    }
}
