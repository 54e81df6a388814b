//! The oracle: applies the acts of a program one after the other, to elements that are valid or poisoned.
//!
//! The only thing that is not known in advance is which tasks of a cancelled group had already begun. This is taken
//! from the log of the run ([`Log`]).

use crate::log::{Log, Seen};
use crate::program::{Access, Act, Body, Kind, Loop, Mode, Object, Program, Task};
use crate::steps::{End, Part, mix};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Returns the new value of the `k`-th element of a region that a body accesses in this mode. `h` is the hash of the
/// body's inputs.
pub(crate) fn updated(mode: Mode, x: u64, h: u64, k: usize) -> u64 {
    match mode {
        Mode::Out => mix(h, k as u64),
        Mode::Inout => mix(x, h),
        _ => x.wrapping_add(h),
    }
}

/// Returns the number that a body adds to its hash for the `k`-th element of a region that it reads.
pub(crate) fn taken(x: u64, k: usize) -> u64 {
    mix(x, k as u64)
}

/// Number that a body hashes for a region without a value.
pub(crate) const MISSING: u64 = 0x5eed;

/// Returns the initial value of an element of a new object.
pub(crate) fn start(object: Object, e: usize) -> u64 {
    mix(object as u64, e as u64)
}

#[derive(Debug, Clone, Copy)]
struct Element {
    value: u64,
    is_poisoned: bool,
    /// Mode of the group that the next task may join, and whether the element was poisoned before the group began.
    group: Option<(Mode, bool)>,
    /// Whether a task has held the element for its children since the last write.
    is_weak: bool,
    /// Whether the group's first task followed poisoned elements in a weakly held region. Tasks that join the group at
    /// other elements may then be skipped together with it, because they wait for the same predecessors.
    is_unsure: bool,
}

const GOOD: Element = Element { value: 0, is_poisoned: false, group: None, is_weak: false, is_unsure: false };

#[derive(Default)]
pub(crate) struct Oracle<'a> {
    log: Option<&'a Log>,
    objects: HashMap<Object, (Kind, Vec<Element>)>,
    /// Tasks that have failed, by their names.
    failures: BTreeSet<usize>,
    /// Failures that were reported to the program.
    told: BTreeSet<usize>,
    /// Failures that were reported to a body. A wait that began earlier may report them again.
    told_inside: BTreeSet<usize>,
    /// Failures of tasks submitted by other threads and of tasks that may have been skipped. It is not determined which
    /// wait reports them.
    aside: BTreeSet<usize>,
    given_up: HashSet<usize>,
}

type Judgement = Result<(), String>;

/// The place where acts are performed.
struct Place {
    at: At,
    /// Whether the place is in a body, possibly in a scope inside the body.
    is_inside: bool,
    /// Failures of tasks submitted here that have not been reported to the body yet.
    untold: BTreeSet<usize>,
}

#[derive(PartialEq)]
enum At {
    Outside,
    Body,
    Scope,
}

impl Place {
    fn new(at: At, is_inside: bool) -> Self {
        Self { at, is_inside, untold: BTreeSet::new() }
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: std::fmt::Arguments<'_>, found: T, expected: T) -> Judgement {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

impl<'a> Oracle<'a> {
    /// Checks the observations of a run. Returns the first defect if there is one.
    pub(crate) fn judge(program: &Program, log: &'a Log) -> Judgement {
        if let Some(error) = log.errors().first() {
            return Err(error.clone());
        }
        let mut oracle = Self { log: Some(log), ..Self::default() };
        let cancelled = program.acts.iter().filter_map(|act| if let Act::Cancel(g, _) = act { Some(*g) } else { None });
        oracle.given_up = cancelled.collect();
        for group in 1..program.groups.len() {
            if program.groups[group] && oracle.given_up.contains(&(group - 1)) {
                oracle.given_up.insert(group);
            }
        }
        oracle.acts(&program.acts, &mut Place::new(At::Outside, false))?;
        expect(format_args!("objects that were not dropped once"), log.lives(), vec![])
    }

    fn log(&self) -> &'a Log {
        self.log.expect("`judge` has set the log")
    }

    fn acts(&mut self, acts: &[Act], place: &mut Place) -> Judgement {
        acts.iter().try_for_each(|act| self.act(act, place))
    }

    fn act(&mut self, act: &Act, place: &mut Place) -> Judgement {
        match act {
            Act::Make(object, kind) => self.make(*object, *kind),
            Act::Task(task) => self.task(task, place)?,
            Act::Loop(all) => self.tasks_of(all, place)?,
            Act::Wait(n) => match self.log().seen(*n) {
                Some(Seen::Failures(names)) if place.at == At::Outside => {
                    let mut expected: BTreeSet<_> = self.failures.difference(&self.told).copied().collect();
                    expected.retain(|name| names.contains(name) || !self.told_inside.contains(name));
                    let [names, expected] = [names, &expected].map(|all| all.difference(&self.aside).copied());
                    let names: BTreeSet<_> = names.collect();
                    expect(format_args!("wait {n}"), &names, &expected.collect())?;
                    self.told.extend(names);
                    self.told.append(&mut self.told_inside);
                }
                Some(Seen::Failures(names)) => {
                    self.tells(*n, names, place)?;
                    place.untold.clear();
                    if place.at == At::Scope {
                        self.tell(names, place);
                    }
                }
                other => self.is_refused(*n, other, place)?,
            },
            Act::Read(n, object, _) => match self.log().seen(*n) {
                Some(Seen::Elements(found)) => self.compare(*n, *object, found)?,
                None if !self.objects.contains_key(object) => {}
                other => self.is_refused(*n, other, place)?,
            },
            Act::Take(n, object) => match self.log().seen(*n) {
                Some(Seen::Elements(found)) => self.compare(*n, *object, found)?,
                Some(Seen::Nothing) if self.is_lost(*object) => {}
                Some(Seen::NoResult(name)) if self.is_lost(*object) => {
                    let name = BTreeSet::from([*name]);
                    self.are_failures(*n, &name)?;
                    self.tell(&name, place);
                }
                Some(Seen::Nothing | Seen::NoResult(_)) => {
                    return Err(format!("{n} cannot take {object}, which is valid"));
                }
                None if !self.objects.contains_key(object) => {}
                Some(Seen::Missing) => {}
                other => self.is_refused(*n, other, place)?,
            },
            Act::Drop(_) | Act::Cancel(..) => {}
            Act::Clear(part) => self.each(part, |x, _| *x = GOOD),
            Act::Scope { n, lent, acts } => self.scope(*n, lent, acts, place)?,
            Act::Aside(acts) => {
                let before = self.failures.clone();
                self.acts(acts, &mut Place::new(At::Outside, false))?;
                self.aside.extend(self.failures.difference(&before));
            }
            Act::WaitForGroup(n, _) => {
                if let Some(Seen::Failures(names)) = self.log().seen(*n) {
                    self.are_failures(*n, names)?;
                    self.tell(names, place);
                }
            }
        }
        Ok(())
    }

    fn make(&mut self, object: Object, kind: Kind) {
        let element = |e| Element { value: start(object, e), ..GOOD };
        let elements = (0..kind.extents().iter().product()).map(element).collect();
        self.objects.insert(object, (kind, elements));
    }

    fn each(&mut self, part: &Part, mut act: impl FnMut(&mut Element, usize)) {
        let Some((kind, elements)) = self.objects.get_mut(&part.data) else { return };
        part.elements(kind.extents()).into_iter().enumerate().for_each(|(k, e)| act(&mut elements[e], k));
    }

    fn is_lost(&self, object: Object) -> bool {
        self.objects.get(&object).is_some_and(|(_, elements)| elements.iter().any(|x| x.is_poisoned))
    }

    /// Checks that a wait for tasks submitted here has reported `names`, and that these are all expected failures.
    fn tells(&self, n: usize, names: &BTreeSet<usize>, place: &Place) -> Judgement {
        self.are_failures(n, names)?;
        match place.untold.difference(names).next() {
            Some(missing) => Err(format!("{n} reports {names:?}, but not {missing}")),
            None => Ok(()),
        }
    }

    fn tell(&mut self, names: &BTreeSet<usize>, place: &Place) {
        if place.is_inside { &mut self.told_inside } else { &mut self.told }.extend(names);
    }

    fn are_failures(&self, n: usize, names: &BTreeSet<usize>) -> Judgement {
        match names.difference(&self.failures).next() {
            Some(name) => Err(format!("{n} reports {name}, which has not failed")),
            None => Ok(()),
        }
    }

    /// Checks that an act was refused and that it is in a body that is not allowed to wait.
    fn is_refused(&self, n: usize, seen: Option<&Seen>, place: &Place) -> Judgement {
        match seen {
            Some(Seen::Refused) if place.at == At::Body && self.log().may_refuse() => Ok(()),
            other => Err(format!("act {n} must not end with {other:?}")),
        }
    }

    fn compare(&mut self, n: usize, object: Object, found: &[Option<u64>]) -> Judgement {
        let Some((kind, elements)) = self.objects.get_mut(&object) else {
            return Err(format!("act {n} has found {object}, which is not present"));
        };
        if *kind != Kind::Token {
            for (e, (found, x)) in found.iter().zip(&*elements).enumerate() {
                let expected = (!x.is_poisoned).then_some(x.value);
                expect(format_args!("act {n}: element {e} of {object}"), *found, expected)?;
            }
        }
        elements.iter_mut().for_each(|x| x.group = None);
        Ok(())
    }

    fn tasks_of(&mut self, all: &Loop, place: &mut Place) -> Judgement {
        let is_there = self.objects.contains_key(&all.whole.data);
        all.tasks().iter().filter(|_| is_there).try_for_each(|task| self.task(task, place))
    }

    fn task(&mut self, task: &Task, place: &mut Place) -> Judgement {
        let is_given_up = task.group.is_some_and(|group| self.given_up.contains(&group));
        if self.log().is_refused(task.n) {
            return expect(format_args!("whether {} is in a cancelled group", task.n), is_given_up, true);
        }
        let mut is_skipped = task.results.iter().any(|result| self.is_lost(*result));
        let is_unsure = task.accesses.iter().any(|access| self.joins_unsure(access));
        task.accesses.iter().for_each(|access| is_skipped |= self.enter(access));
        let runs = self.log().runs(task.n);
        is_skipped |= is_unsure && runs == 0;
        let begins = match is_skipped {
            true => expect(format_args!("runs of {}, which lacks a value", task.n), runs, 0).map(|()| false)?,
            false if is_given_up && runs == 0 => false,
            false => expect(format_args!("runs of {}", task.n), runs, 1).map(|()| true)?,
        };
        let (mut h, mut is_lost) = (task.n as u64, true);
        if begins {
            self.are_failures(task.n, &self.log().outcomes(task.n))?;
            let reads = |access: &&Access| matches!(access.mode, Mode::In | Mode::Outcome);
            for Access { part, .. } in task.accesses.iter().filter(reads) {
                let mut is_missing = false;
                self.each(part, |x, _| is_missing |= x.is_poisoned);
                if is_missing {
                    h = h.wrapping_add(MISSING); // an outcome: tasks with other reads of the region are skipped
                    continue;
                }
                let is_token = self.objects.get(&part.data).is_some_and(|(kind, _)| *kind == Kind::Token);
                self.each(part, |x, k| h = h.wrapping_add(if is_token { 0 } else { taken(x.value, k) }));
            }
            for result in &task.results {
                let value = self.objects.get(result).map(|(_, elements)| taken(elements[0].value, 0));
                h = h.wrapping_add(value.unwrap_or(0));
            }
            self.acts(&task.acts, &mut Place::new(At::Body, true))?;
            // A cancelled group drops futures that have begun.
            let may_be_dropped = is_given_up && matches!(task.body, Body::Async(_));
            is_lost = task.end != End::Returns || may_be_dropped && !self.log().has_ended(task.n);
        }
        if is_lost && !is_skipped {
            self.failures.insert(task.name);
            place.untold.insert(task.name);
        } else if is_unsure && is_given_up && !begins {
            // The task was skipped, or cancelled before it began. A cancelled task counts as a failure, a skipped task
            // does not.
            self.failures.insert(task.name);
            self.aside.insert(task.name);
        }
        for Access { part, mode } in task.accesses.iter().rev() {
            self.each(part, |x, k| leave(*mode, x, h, k, is_lost));
        }
        if task.body == Body::Returns {
            let element = Element { value: h, is_poisoned: is_lost, ..GOOD };
            self.objects.insert(task.n, (Kind::Value, vec![element]));
        }
        Ok(())
    }

    /// Returns whether a task with this access joins a group that may be skipped as a whole.
    fn joins_unsure(&mut self, access: &Access) -> bool {
        let mut is_unsure = false;
        self.each(&access.part, |x, _| {
            is_unsure |= x.is_unsure && x.group.is_some_and(|(mode, _)| mode == access.mode);
        });
        is_unsure
    }

    /// Returns whether a task with this access is skipped.
    fn enter(&mut self, access: &Access) -> bool {
        let (mode, mut is_skipped, mut is_behind_weak) = (access.mode, false, false);
        self.each(&access.part, |x, _| match mode {
            Mode::WeakIn => {}
            // Children never join reductions that began before their parent, and accumulations are combined before the
            // children run.
            Mode::WeakInout => x.group = x.group.filter(|(mode, _)| !matches!(mode, Mode::Accumulate | Mode::Sum)),
            Mode::After | Mode::Outcome | Mode::Out => x.group = None,
            Mode::In | Mode::Inout => {
                is_skipped |= x.is_poisoned;
                x.group = None;
            }
            _ => match x.group {
                Some((same, before)) if same == mode => is_skipped |= before,
                _ => {
                    x.group = Some((mode, x.is_poisoned));
                    (x.is_unsure, is_behind_weak) = (false, is_behind_weak || x.is_weak);
                    is_skipped |= x.is_poisoned;
                }
            },
        });
        if is_skipped && is_behind_weak {
            self.each(&access.part, |x, _| x.is_unsure = true);
        }
        is_skipped
    }

    fn scope(&mut self, n: usize, lent: &[(Object, Kind)], acts: &[Act], place: &mut Place) -> Judgement {
        if self.log().seen(n) == Some(&Seen::Refused) {
            return self.is_refused(n, Some(&Seen::Refused), place);
        }
        lent.iter().for_each(|(object, kind)| self.make(*object, *kind));
        let mut inner = Place::new(At::Scope, place.is_inside);
        self.acts(acts, &mut inner)?;
        let Some(Seen::Scope(names, memory)) = self.log().seen(n) else {
            return Err(format!("scope {n} has not ended: {:?}", self.log().seen(n)));
        };
        self.tells(n, names, &inner)?;
        self.tell(names, place);
        for ((object, _), memory) in lent.iter().zip(memory) {
            let Some((_, elements)) = self.objects.remove(object) else { continue };
            for (e, (found, x)) in memory.iter().zip(elements).enumerate().filter(|(_, (_, x))| !x.is_poisoned) {
                expect(format_args!("element {e} of {object}, lent to scope {n}"), *found, x.value)?;
            }
        }
        Ok(())
    }
}

/// Updates an element after an access.
fn leave(mode: Mode, x: &mut Element, h: u64, k: usize, is_lost: bool) {
    match mode {
        Mode::In | Mode::Outcome | Mode::After => {}
        Mode::WeakIn => x.group = None,
        Mode::WeakInout => {
            (x.group, x.is_weak) = (None, true);
            x.is_poisoned |= is_lost;
        }
        _ => {
            if !is_lost {
                x.value = updated(mode, x.value, h, k);
            }
            x.is_poisoned = is_lost || mode.joins() && x.is_poisoned;
            x.is_weak &= mode.joins();
        }
    }
}
