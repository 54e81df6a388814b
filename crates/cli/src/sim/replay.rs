//! Simulated runs of a recorded program.
//!
//! The program's tasks are submitted with their names, accesses and costs, on phantom data. Their bodies are empty,
//! because a simulation does not run them.

use super::machine::Target;
use super::program::{Program, Step};
use super::regions::Object;
use std::ops::Range;
use thalweg::machine::UnitKind;
use thalweg::memory::Shape;
use thalweg::prelude::*;
use thalweg::task::{After, Commutative, Inout, Input, Output, Reducing};
use thalweg::{Builder, TaskHandle};
use thalweg_trace::AccessMode;

/// The result of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) units: String,
    pub(super) makespan_ns: u64,
    /// For each kind of unit, the fraction of time in which its units ran tasks.
    pub(super) busy: Vec<(UnitKind, f64)>,
    pub(super) bytes_copied: u64,
}

/// The data objects of a run.
enum Data {
    One(thalweg::task::Data<u8, Ix1>),
    Two(thalweg::task::Data<u8, Ix2>),
    Three(thalweg::task::Data<u8, Ix3>),
    Four(thalweg::task::Data<u8, Ix4>),
    Value(Value<()>),
    Token(Token),
}

/// A task's accesses to arrays with a given number of dimensions.
struct Lists<'d, S: Shape> {
    read: Vec<Input<'d, u8, S>>,
    write: Vec<Output<'d, u8, S>>,
    update: Vec<Inout<'d, u8, S>>,
    commute: Vec<Commutative<'d, u8, S>>,
    reduce: Vec<Reducing<'d, u8, S, Sum>>,
    follow: Vec<After<'d, u8, S>>,
}

impl<'d, S: Shape> Lists<'d, S> {
    fn new() -> Self {
        let (read, write, update) = (Vec::new(), Vec::new(), Vec::new());
        Self { read, write, update, commute: Vec::new(), reduce: Vec::new(), follow: Vec::new() }
    }

    fn push(&mut self, region: Region<'d, u8, S>, mode: AccessMode) {
        match mode {
            AccessMode::Read => self.read.push(region.input()),
            AccessMode::Write => self.write.push(region.output()),
            AccessMode::Update => self.update.push(region.inout()),
            AccessMode::Commutative => self.commute.push(region.commutative()),
            // Concurrent updates need elements of four or eight bytes, and a reduction is ordered in the same way.
            AccessMode::Reduction | AccessMode::Concurrent => self.reduce.push(region.reduction(Sum)),
            AccessMode::Order => self.follow.push(region.after()),
        }
    }
}

/// A task's accesses to values or tokens.
macro_rules! whole {
    ($lists:ident, $object:expr, $mode:expr) => {
        match $mode {
            AccessMode::Read => $lists.0.push($object.input()),
            AccessMode::Write => $lists.1.push($object.output()),
            AccessMode::Commutative => $lists.2.push($object.commutative()),
            AccessMode::Update | AccessMode::Reduction | AccessMode::Concurrent => $lists.3.push($object.inout()),
            AccessMode::Order => $lists.4.push($object.after()),
        }
    };
}

macro_rules! all_of {
    ($lists:ident) => {
        ($lists.read, $lists.write, $lists.update, $lists.commute, $lists.reduce, $lists.follow)
    };
}

/// Simulates the program.
///
/// # Errors
/// Returns an error if the runtime cannot be built, or a task does not fit the machine.
pub(super) fn replay(
    program: &Program,
    target: &Target,
    names: &[Option<usize>],
    builder: Builder,
) -> Result<Run, String> {
    let rt = builder.build().map_err(|error| error.to_string())?;
    let data: Vec<_> = program.layout.objects.iter().map(|object| register(&rt, object)).collect();
    let mut has_followers = vec![false; names.len()];
    program.after.iter().flatten().for_each(|task| has_followers[*task] = true);
    let tokens: Vec<_> = has_followers.into_iter().map(|has| has.then(|| rt.token())).collect();
    let mut is_awaited = vec![false; names.len()];
    program.steps.iter().for_each(|step| {
        if let Step::WaitFor(task) = step {
            is_awaited[*task] = true;
        }
    });
    let mut handles: Vec<Option<TaskHandle>> = vec![None; names.len()];
    for step in &program.steps {
        match *step {
            Step::WaitForAll => rt.wait().map_err(|error| error.to_string())?,
            Step::WaitFor(task) => {
                let Some(handle) = handles[task].take() else { continue };
                handle.wait().map_err(|error| error.to_string())?;
            }
            Step::Submit(task) => {
                let name = names[task].map_or_else(String::new, |name| target.names[name].clone());
                let (mut one, mut two, mut three, mut four) = (Lists::new(), Lists::new(), Lists::new(), Lists::new());
                let mut values = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
                let mut signals = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for access in &program.accesses[task] {
                    let Some(region) = access.region else { continue };
                    let (object, ranges) = &program.layout.regions[region];
                    let range = |d: usize| -> Range<usize> { ranges[d].clone() };
                    match &data[*object] {
                        Data::One(data) => one.push(data.block(range(0)), access.mode),
                        Data::Two(data) => two.push(data.block((range(0), range(1))), access.mode),
                        Data::Three(data) => three.push(data.block((range(0), range(1), range(2))), access.mode),
                        Data::Four(data) => {
                            four.push(data.block((range(0), range(1), range(2), range(3))), access.mode)
                        }
                        Data::Value(value) => whole!(values, value, access.mode),
                        Data::Token(token) => whole!(signals, token, access.mode),
                    }
                }
                signals.0.extend(program.after[task].iter().filter_map(|task| Some(tokens[*task].as_ref()?.input())));
                signals.1.extend(tokens[task].as_ref().map(Token::output));
                let accesses = (all_of!(one), all_of!(two), all_of!(three), all_of!(four), values, signals);
                let submission = rt.task(name, accesses).cost(target.costs[task]).cpu(|_, _| ());
                let submitted = if is_awaited[task] {
                    submission.submit_handle().map(|handle| handles[task] = Some(handle))
                } else {
                    submission.submit().map(drop)
                };
                submitted.map_err(|error| error.to_string())?;
            }
        }
    }
    rt.wait().map_err(|error| error.to_string())?;
    Ok(result(&rt))
}

fn register(rt: &Runtime, object: &Object) -> Data {
    match object {
        Object::Array(extents) => match extents[..] {
            [a] => Data::One(rt.zeros(a)),
            [a, b] => Data::Two(rt.zeros([a, b])),
            [a, b, c] => Data::Three(rt.zeros([a, b, c])),
            [a, b, c, d] => Data::Four(rt.zeros([a, b, c, d])),
            _ => unreachable!("a layout has arrays of one to four dimensions"),
        },
        Object::Value => Data::Value(rt.value(())),
        Object::Token => Data::Token(rt.token()),
    }
}

fn result(rt: &Runtime) -> Run {
    let makespan_ns = rt.now().as_nanos() as u64;
    let statistics = rt.statistics();
    let kind = |unit: UnitId| rt.machine().unit(unit).kind;
    let busy = UnitKind::ALL.into_iter().filter_map(|of| {
        let times: Vec<f64> =
            statistics.busy.iter().filter(|(unit, _)| kind(*unit) == of).map(|(_, time)| time.as_secs_f64()).collect();
        let whole = times.len() as f64 * makespan_ns as f64 / 1e9;
        (!times.is_empty()).then(|| (of, if whole > 0.0 { times.iter().sum::<f64>() / whole } else { 0.0 }))
    });
    Run {
        units: rt.machine().units().iter().fold(Units::default(), Units::with).text(),
        makespan_ns,
        busy: busy.collect(),
        bytes_copied: statistics.links.iter().filter(|link| link.from != link.to).map(|link| link.bytes).sum(),
    }
}

/// Builds a unit configuration that merges equal neighbours into one term.
#[derive(Default)]
pub(super) struct Units(Vec<(usize, UnitKind, usize)>);

impl Units {
    fn with(self, unit: &thalweg::machine::ComputeUnit) -> Self {
        self.and(unit.kind, if unit.is_cpu() { unit.inner_cores() } else { unit.devices.len() })
    }

    pub(super) fn and(mut self, kind: UnitKind, width: usize) -> Self {
        match self.0.last_mut() {
            Some((count, last, of)) if (*last, *of) == (kind, width) => *count += 1,
            _ => self.0.push((1, kind, width)),
        }
        self
    }

    pub(super) fn text(&self) -> String {
        let term = |(count, kind, width): &(usize, UnitKind, usize)| format!("{count}:{kind}:{width}");
        self.0.iter().map(term).collect::<Vec<_>>().join(",")
    }
}
