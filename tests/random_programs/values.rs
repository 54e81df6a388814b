//! Random programs of values and results against the same oracle: what one task after the other would have left.
//!
//! Tasks read some values, update one in any mode, update a part of an array, and use what earlier tasks returned; some
//! return something, some fail. Between the submissions results are taken, or dropped unasked; values are taken, or dropped
//! and replaced. What is in a value, and every result, counts itself: in the end all are gone, each once.

use crate::steps::{End, hash, mix, updated};
use proptest::prelude::*;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use thalweg::Context;
use thalweg::prelude::*;

const ELEMENTS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    Inout,
    Commutative,
    Concurrent,
}

/// Indices stand for what there is at that moment, modulo how many there are.
#[derive(Debug, Clone)]
enum Action {
    /// Reads values, changes one, uses results, changes a part of the array, and perhaps returns something.
    Task {
        reads: Vec<usize>,
        target: usize,
        kind: Kind,
        results: Vec<usize>,
        part: Range<usize>,
        end: End,
        returns: bool,
    },
    /// Uses results and changes a part of the array, on any unit.
    Portable {
        results: Vec<usize>,
        part: Range<usize>,
    },
    Get(usize),
    Forget(usize),
    Take(usize),
    Replace(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Program {
    values: usize,
    actions: Vec<Action>,
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    let index = || 0..64usize;
    let part = || (0..=ELEMENTS, 0..=ELEMENTS).prop_map(|(a, b)| a.min(b)..a.max(b));
    let kind = prop::sample::select(vec![Kind::Out, Kind::Inout, Kind::Commutative, Kind::Concurrent]);
    let reads = prop::collection::vec(index(), 0..3);
    let results = || prop::collection::vec(index(), 0..3);
    let end = prop_oneof![8 => Just(End::Returns), 1 => Just(End::Fails), 1 => Just(End::Panics)];
    let task = (reads, index(), kind, results(), part(), end, any::<bool>()).prop_map(
        |(reads, target, kind, results, part, end, returns)| Action::Task {
            reads,
            target,
            kind,
            results,
            part,
            end,
            returns,
        },
    );
    let action = prop_oneof![
        12 => task,
        3 => (results(), part()).prop_map(|(results, part)| Action::Portable { results, part }),
        2 => index().prop_map(Action::Get),
        1 => index().prop_map(Action::Forget),
        1 => index().prop_map(Action::Take),
        1 => index().prop_map(Action::Replace),
    ];
    let units = ["2:CPU:1", "1:CPU:2", "1:CPU:1", "1:CPU:1,2:EMU:1", "2:CPU:1,1:EMU:2", "2:EMU:1"];
    let fast = (prop::sample::select(units[..3].to_vec()), Just("stealing"), any::<bool>());
    let any_machine =
        (prop::sample::select(units.to_vec()), prop::sample::select(thalweg::sched::NAMES), any::<bool>());
    let machine = prop_oneof![fast, any_machine];
    (1..5usize, prop::collection::vec(action, 1..60), machine)
        .prop_map(|(values, actions, (units, scheduler, hosted))| Program { values, actions, units, scheduler, hosted })
}

/// Counts itself as long as it lives.
#[derive(Debug)]
struct Living(Arc<AtomicI64>);

impl Living {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is in a value.
#[derive(Debug)]
struct Content {
    hash: u64,
    sum: AtomicU64,
    list: Vec<u64>,
    _living: Living,
}

#[derive(Debug)]
struct Returned(u64, #[allow(dead_code, reason = "is counted")] Living);

impl Content {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        Self { hash: 0, sum: AtomicU64::new(0), list: vec![], _living: Living::new(alive) }
    }

    fn state(&self) -> u64 {
        let sum = self.sum.load(Ordering::Relaxed);
        hash(mix(self.hash, sum), &self.list)
    }

    fn change(&mut self, kind: Kind, h: u64) {
        match kind {
            Kind::Out => (self.hash, self.sum, self.list) = (h, AtomicU64::new(0), vec![h]),
            Kind::Inout => {
                self.hash = mix(self.hash, h);
                self.list.push(h);
            }
            Kind::Commutative => _ = self.sum.fetch_add(h, Ordering::Relaxed),
            Kind::Concurrent => self.share(h),
        }
    }

    fn share(&self, h: u64) {
        self.sum.fetch_add(h, Ordering::Relaxed);
    }
}

/// A value as the oracle has it.
struct Expected {
    content: Content,
    poisoned: bool,
    /// In which mode it was changed last, and whether it was poisoned before that group.
    group: Option<(Kind, bool)>,
}

impl Expected {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        Self { content: Content::new(alive), poisoned: false, group: None }
    }

    /// A task reads it: whether that is skipped.
    fn read(&mut self) -> bool {
        self.group = None;
        self.poisoned
    }

    /// A task is about to change it: whether that is skipped. Members of one group do not depend on each other.
    fn change(&mut self, kind: Kind) -> bool {
        match (kind, self.group) {
            (Kind::Commutative | Kind::Concurrent, Some((same, before))) if same == kind => before,
            (Kind::Commutative | Kind::Concurrent, _) => {
                self.group = Some((kind, self.poisoned));
                self.poisoned
            }
            (Kind::Inout, _) => self.read(),
            (Kind::Out, _) => {
                self.group = None;
                self.poisoned = false;
                false
            }
        }
    }
}

fn ends(end: End) -> Result<(), &'static str> {
    match end {
        End::Returns => Ok(()),
        End::Fails => Err("as the program says"),
        End::Panics => resume_unwind(Box::new("as the program says")),
    }
}

/// Runs the program and compares everything that can be seen of it with the oracle.
pub(crate) fn check(program: &Program) {
    let alive = Arc::new(AtomicI64::new(0));
    let builder = Runtime::builder().compute_units(program.units).scheduler(program.scheduler);
    let rt = builder.submitter_hosts_unit(program.hosted).detect_conflicts(true).build().unwrap();
    let mut values: Vec<_> = (0..program.values).map(|_| rt.value(Content::new(&alive))).collect();
    let mut oracle: Vec<_> = values.iter().map(|_| Expected::new(&alive)).collect();
    // What tasks return, and what they should; nothing if they have failed.
    let mut pending: Vec<(Pending<Returned>, Option<u64>)> = vec![];
    let x = rt.data(vec![0u64; ELEMENTS]);
    let (mut elements, mut lost, mut failures) = (vec![0u64; ELEMENTS], [false; ELEMENTS], 0);
    let mut reported = std::collections::HashSet::new();
    for (n, action) in program.actions.iter().enumerate() {
        let seed = mix(1, n as u64);
        match action {
            Action::Task { reads, target, kind, results, part, end, returns } => {
                let (kind, end, target) = (*kind, *end, target % values.len());
                let reads: Vec<_> =
                    reads.iter().map(|read| read % values.len()).filter(|read| *read != target).collect();
                let results: Vec<_> = results.iter().filter_map(|n| n.checked_rem(pending.len())).collect();

                let list: Vec<_> = reads.iter().map(|read| values[*read].input()).collect();
                let used: Vec<_> = results.iter().map(|result| pending[*result].0.input()).collect();
                let living = Living::new(&alive);
                macro_rules! submit {
                    ($access:expr, |$value:ident: $view:ty, $h:ident| $change:expr) => {{
                        let task = rt.task("task", (list, $access, used, x.slice(part.clone()).inout()));
                        macro_rules! work {
                            ($views:expr) => {{
                                let (list, $value, used, x): (Vec<&Content>, $view, Vec<&Returned>, &mut [u64]) =
                                    $views;
                                let $h = list.iter().fold(seed, |h, value| mix(h, value.state()));
                                let $h = used.iter().fold($h, |h, result| mix(h, result.0));
                                $change;
                                ends(end)?;
                                x.iter_mut().for_each(|x| *x = updated(*x, $h));
                                $h
                            }};
                        }
                        if *returns {
                            let task = task.try_returns(move |_, views| Ok::<_, &str>(Returned(work!(views), living)));
                            Some(task.submit().unwrap())
                        } else {
                            let task = task.cpu(move |_, views| {
                                let _living = living;
                                work!(views);
                                Ok::<(), &str>(())
                            });
                            task.submit().unwrap();
                            None
                        }
                    }};
                }
                let value = &values[target];
                let returned = match kind {
                    Kind::Out => submit!(value.output(), |value: &mut Content, h| value.change(kind, h)),
                    Kind::Inout => submit!(value.inout(), |value: &mut Content, h| value.change(kind, h)),
                    Kind::Commutative => submit!(value.commutative(), |value: &mut Content, h| value.change(kind, h)),
                    Kind::Concurrent => submit!(value.concurrent(), |value: &Content, h| value.share(h)),
                };

                let mut skipped = part.clone().any(|e| lost[e]);
                reads.iter().for_each(|read| skipped |= oracle[*read].read());
                results.iter().for_each(|result| skipped |= pending[*result].1.is_none());
                skipped |= oracle[target].change(kind);
                failures += usize::from(!skipped && end != End::Returns);
                let ended = !skipped && end == End::Returns;
                oracle[target].poisoned |= !ended;
                part.clone().for_each(|e| lost[e] = !ended);
                let h = reads.iter().fold(seed, |h, read| mix(h, oracle[*read].content.state()));
                let h = results.iter().fold(h, |h, result| mix(h, pending[*result].1.unwrap_or(0)));
                oracle[target].content.change(kind, h);
                part.clone().for_each(|e| elements[e] = updated(elements[e], h));
                pending.extend(returned.map(|returned| (returned, ended.then_some(h))));
            }
            Action::Portable { results, part } => {
                let results: Vec<_> = results.iter().filter_map(|n| n.checked_rem(pending.len())).collect();
                let used: Vec<_> = results.iter().map(|result| pending[*result].0.input()).collect();
                let body = move |_: &Context, (used, x): (Vec<&Returned>, &mut [u64])| {
                    let h = used.iter().fold(seed, |h, result| mix(h, result.0));
                    x.iter_mut().for_each(|x| *x = updated(*x, h));
                };
                rt.task("portable", (used, x.slice(part.clone()).inout())).cpu(body).submit().unwrap();
                let skipped =
                    part.clone().any(|e| lost[e]) || results.iter().any(|result| pending[*result].1.is_none());
                let h = results.iter().fold(seed, |h, result| mix(h, pending[*result].1.unwrap_or(0)));
                part.clone().for_each(|e| (elements[e], lost[e]) = (updated(elements[e], h), skipped));
            }
            Action::Get(n) if !pending.is_empty() => {
                let (result, expected) = pending.swap_remove(n % pending.len());
                match (result.get(), expected) {
                    (Ok(result), Some(expected)) => assert_eq!(result.0, expected),
                    (Err(RunError::NoResult { failure, .. }), None) => _ = reported.insert(failure.task()),
                    (result, expected) => panic!("{result:?} in the place of {expected:?}"),
                }
            }
            Action::Forget(n) if !pending.is_empty() => drop(pending.swap_remove(n % pending.len())),
            Action::Get(_) | Action::Forget(_) => {}
            Action::Take(n) => {
                let n = n % values.len();
                let (new, expected) = (rt.value(Content::new(&alive)), Expected::new(&alive));
                match rt.take(values[n].clone()) {
                    Ok(content) => {
                        assert!(!oracle[n].poisoned);
                        assert_eq!(content.state(), oracle[n].content.state());
                    }
                    Err(failed) => assert!(oracle[n].poisoned && matches!(failed.error(), RunError::Poisoned(_))),
                }
                (values[n], oracle[n]) = (new, expected);
            }
            Action::Replace(n) => {
                let n = n % values.len();
                (values[n], oracle[n]) = (rt.value(Content::new(&alive)), Expected::new(&alive));
            }
        }
    }
    let unreported = failures - reported.len(); // `wait` tells of those that `get` has not returned
    match rt.wait() {
        Ok(()) => assert_eq!(unreported, 0),
        Err(RunError::Failed(failed)) => assert_eq!(failed.len(), unreported),
        Err(other) => panic!("{other}"),
    }
    for (value, expected) in values.into_iter().zip(oracle) {
        match rt.read_value(&value, Content::state) {
            Ok(state) => assert_eq!((state, expected.poisoned), (expected.content.state(), false)),
            Err(error) => assert!(expected.poisoned, "{error}"),
        }
    }
    for (e, element) in elements.into_iter().enumerate() {
        match rt.read(x.slice(e)) {
            Ok(found) => assert_eq!((found[0], lost[e]), (element, false)),
            Err(error) => assert!(lost[e], "{error}"),
        }
    }
    assert_eq!(rt.conflicts(), Vec::<String>::new());
    drop(pending);
    drop(rt);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "what lives still, or has died twice");
}
