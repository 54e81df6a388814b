//! Random programs of values and results, compared with sequential execution by an oracle.
//!
//! Tasks read some values, update one in any mode, update a part of an array, and use results of earlier tasks, some as
//! outcomes. Some return a result, some fail. Between submissions, results are taken or dropped unread, and values are
//! taken or dropped and replaced. All results and the contents of all values are counted: at the end, each must have
//! been dropped exactly once.
//!
//! Each failure that a task gets instead of a result must be one of the causes that the oracle has computed.

use crate::steps::{End, hash, mix, updated};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Context;
use thalweg::error::TaskFailure;
use thalweg::prelude::*;

const ELEMENTS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    Inout,
    Commutative,
    Concurrent,
}

/// An action of the submitting thread. Indices select one of the objects present at that moment, modulo their number.
#[derive(Debug, Clone)]
enum Action {
    /// Reads values, changes one, uses results, changes a part of the array, and perhaps returns a result.
    Task {
        reads: Vec<usize>,
        target: usize,
        kind: Kind,
        results: Vec<usize>,
        outcomes: Vec<usize>,
        part: Range<usize>,
        end: End,
        returns: bool,
    },
    /// Uses results and changes a part of the array, on any unit.
    Portable {
        results: Vec<usize>,
        outcomes: Vec<usize>,
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
    let task = (reads, index(), kind, results(), results(), part(), end, any::<bool>()).prop_map(
        |(reads, target, kind, results, outcomes, part, end, returns)| Action::Task {
            reads,
            target,
            kind,
            results,
            outcomes,
            part,
            end,
            returns,
        },
    );
    let portable = (results(), results(), part());
    let action = prop_oneof![
        12 => task,
        3 => portable.prop_map(|(results, outcomes, part)| Action::Portable { results, outcomes, part }),
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

/// Counts the living instances.
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

/// The content of a value.
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

/// The actions whose failures may be the reason why an object is missing; empty if the object is present.
type Causes = BTreeSet<usize>;

/// The names of the failures that tasks were given, each with the set of permitted causes.
type Told = Arc<Mutex<Vec<(String, Causes)>>>;

/// Number that is hashed instead of a missing result.
const MISSING: u64 = 77;

fn name_of(action: usize) -> String {
    format!("action {action}")
}

fn is_among(name: &str, causes: &Causes) -> bool {
    causes.iter().any(|cause| name == name_of(*cause))
}

/// Adds outcomes to a hash.
fn look(h: u64, outcomes: &[Result<&Returned, &TaskFailure>], causes: Vec<Causes>, told: &Told) -> u64 {
    outcomes.iter().zip(causes).fold(h, |h, (outcome, causes)| match outcome {
        Ok(result) => mix(h, result.0),
        Err(failure) => {
            told.lock().unwrap().push((failure.name().to_owned(), causes));
            mix(h, MISSING)
        }
    })
}

/// A value as computed by the oracle.
struct Expected {
    content: Content,
    missing: Causes,
    /// The mode in which the value was last changed, and the causes from before that group.
    group: Option<(Kind, Causes)>,
}

impl Expected {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        Self { content: Content::new(alive), missing: Causes::new(), group: None }
    }

    /// Records that a task reads the value. Returns the causes for which the task is skipped.
    fn read(&mut self) -> Causes {
        self.group = None;
        self.missing.clone()
    }

    /// Records that a task is about to change the value. Returns the causes for which the task is skipped. Members of
    /// the same group do not depend on each other.
    fn change(&mut self, kind: Kind) -> Causes {
        match (kind, &self.group) {
            (Kind::Commutative | Kind::Concurrent, Some((same, before))) if *same == kind => before.clone(),
            (Kind::Commutative | Kind::Concurrent, _) => {
                self.group = Some((kind, self.missing.clone()));
                self.missing.clone()
            }
            (Kind::Inout, _) => self.read(),
            (Kind::Out, _) => {
                self.group = None;
                self.missing.clear();
                Causes::new()
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

/// Runs the program and compares everything observable with the oracle.
pub(crate) fn check(program: &Program) {
    let alive = Arc::new(AtomicI64::new(0));
    let builder = Runtime::builder().compute_units(program.units).scheduler(program.scheduler);
    let rt = builder.use_current_thread(program.hosted).detect_conflicts(true).build().unwrap();
    let mut values: Vec<_> = (0..program.values).map(|_| rt.value(Content::new(&alive))).collect();
    let mut oracle: Vec<_> = values.iter().map(|_| Expected::new(&alive)).collect();
    // The results of the tasks, with their expected values or the causes for which they are missing.
    let mut pending: Vec<(Pending<Returned>, Result<u64, Causes>)> = vec![];
    let told = Told::default();
    let x = rt.data(vec![0u64; ELEMENTS]);
    let (mut elements, mut lost, mut failures) = (vec![0u64; ELEMENTS], vec![Causes::new(); ELEMENTS], 0);
    let mut reported = std::collections::HashSet::new();
    for (n, action) in program.actions.iter().enumerate() {
        let seed = mix(1, n as u64);
        let there =
            |indices: &[usize]| -> Vec<usize> { indices.iter().filter_map(|n| n.checked_rem(pending.len())).collect() };
        let value_of = |result: usize| *pending[result].1.as_ref().unwrap_or(&MISSING);
        let why = |result: usize| pending[result].1.as_ref().err().cloned().unwrap_or_default();
        match action {
            Action::Task { reads, target, kind, results, outcomes, part, end, returns } => {
                let (kind, end, target) = (*kind, *end, target % values.len());
                let reads: Vec<_> =
                    reads.iter().map(|read| read % values.len()).filter(|read| *read != target).collect();
                let (results, outcomes) = (there(results), there(outcomes));

                let list: Vec<_> = reads.iter().map(|read| values[*read].input()).collect();
                let used: Vec<_> = results.iter().map(|result| pending[*result].0.input()).collect();
                let looked: Vec<_> = outcomes.iter().map(|result| pending[*result].0.outcome()).collect();
                let causes: Vec<_> = outcomes.iter().map(|result| why(*result)).collect();
                let (living, told) = (Living::new(&alive), told.clone());
                macro_rules! submit {
                    ($access:expr, |$value:ident: $view:ty, $h:ident| $change:expr) => {{
                        let accesses = (list, $access, used, looked, x.slice(part.clone()).inout());
                        let task = rt.task(name_of(n), accesses);
                        macro_rules! work {
                            ($views:expr) => {{
                                let (list, $value, used, looked, x): (_, $view, Vec<&Returned>, Vec<_>, &mut [u64]) =
                                    $views;
                                let list: Vec<&Content> = list;
                                let $h = list.iter().fold(seed, |h, value| mix(h, value.state()));
                                let $h = used.iter().fold($h, |h, result| mix(h, result.0));
                                let $h = look($h, &looked, causes, &told);
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

                let mut missing: Causes = part.clone().flat_map(|e| lost[e].clone()).collect();
                reads.iter().for_each(|read| missing.extend(oracle[*read].read()));
                results.iter().for_each(|result| missing.extend(why(*result)));
                missing.extend(oracle[target].change(kind));
                if missing.is_empty() && end != End::Returns {
                    failures += 1;
                    missing.insert(n);
                }
                oracle[target].missing.extend(&missing);
                part.clone().for_each(|e| lost[e] = missing.clone());
                let h = reads.iter().fold(seed, |h, read| mix(h, oracle[*read].content.state()));
                let h = results.iter().chain(&outcomes).fold(h, |h, result| mix(h, value_of(*result)));
                oracle[target].content.change(kind, h);
                part.clone().for_each(|e| elements[e] = updated(elements[e], h));
                pending
                    .extend(returned.map(|returned| (returned, if missing.is_empty() { Ok(h) } else { Err(missing) })));
            }
            Action::Portable { results, outcomes, part } => {
                let (results, outcomes) = (there(results), there(outcomes));
                let used: Vec<_> = results.iter().map(|result| pending[*result].0.input()).collect();
                let looked: Vec<_> = outcomes.iter().map(|result| pending[*result].0.outcome()).collect();
                let (causes, told) = (outcomes.iter().map(|result| why(*result)).collect(), told.clone());
                type Views<'a> = (Vec<&'a Returned>, Vec<Result<&'a Returned, &'a TaskFailure>>, &'a mut [u64]);
                let body = move |_: &Context, (used, looked, x): Views<'_>| {
                    let h = used.iter().fold(seed, |h, result| mix(h, result.0));
                    let h = look(h, &looked, causes, &told);
                    x.iter_mut().for_each(|x| *x = updated(*x, h));
                };
                rt.task("portable", (used, looked, x.slice(part.clone()).inout())).cpu(body).submit().unwrap();
                let mut missing: Causes = part.clone().flat_map(|e| lost[e].clone()).collect();
                results.iter().for_each(|result| missing.extend(why(*result)));
                let h = results.iter().chain(&outcomes).fold(seed, |h, result| mix(h, value_of(*result)));
                part.clone().for_each(|e| (elements[e], lost[e]) = (updated(elements[e], h), missing.clone()));
            }
            Action::Get(n) if !pending.is_empty() => {
                let (result, expected) = pending.swap_remove(n % pending.len());
                match (result.get(), expected) {
                    (Ok(result), Ok(expected)) => assert_eq!(result.0, expected),
                    (Err(RunError::NoResult { failure, .. }), Err(causes)) => {
                        assert!(is_among(failure.name(), &causes), "{failure} is none of {causes:?}");
                        reported.insert(failure.task());
                    }
                    (result, expected) => panic!("{result:?} instead of {expected:?}"),
                }
            }
            Action::Forget(n) if !pending.is_empty() => drop(pending.swap_remove(n % pending.len())),
            Action::Get(_) | Action::Forget(_) => {}
            Action::Take(n) => {
                let n = n % values.len();
                let (new, expected) = (rt.value(Content::new(&alive)), Expected::new(&alive));
                match rt.take(values[n].clone()) {
                    Ok(content) => {
                        assert!(oracle[n].missing.is_empty());
                        assert_eq!(content.state(), oracle[n].content.state());
                    }
                    Err(failed) => match failed.error() {
                        RunError::Poisoned(failure) => assert!(is_among(failure.name(), &oracle[n].missing)),
                        other => panic!("{other}"),
                    },
                }
                (values[n], oracle[n]) = (new, expected);
            }
            Action::Replace(n) => {
                let n = n % values.len();
                (values[n], oracle[n]) = (rt.value(Content::new(&alive)), Expected::new(&alive));
            }
        }
    }
    let unreported = failures - reported.len(); // `wait` returns the failures that `get` has not returned
    match rt.wait() {
        Ok(()) => assert_eq!(unreported, 0),
        Err(RunError::Failed(failed)) => assert_eq!(failed.len(), unreported),
        Err(other) => panic!("{other}"),
    }
    for (value, expected) in values.into_iter().zip(oracle) {
        match rt.read_value(&value, Content::state) {
            Ok(state) => assert_eq!((state, expected.missing.is_empty()), (expected.content.state(), true)),
            Err(error) => assert!(!expected.missing.is_empty(), "{error}"),
        }
    }
    for (e, element) in elements.into_iter().enumerate() {
        match rt.read(x.slice(e)) {
            Ok(found) => assert_eq!((found[0], lost[e].is_empty()), (element, true)),
            Err(error) => assert!(!lost[e].is_empty(), "{error}"),
        }
    }
    for (name, causes) in told.lock().unwrap().iter() {
        assert!(is_among(name, causes), "{name} is none of {causes:?}");
    }
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
    drop(pending);
    drop(rt);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "objects were leaked or dropped twice");
}
