//! The accesses of a task as lists, grouped by mode and number of dimensions, so that all tasks have the same type.

use crate::log::Living;
use crate::program::{Kind, Mode, Object, Task};
use crate::run::{At, Run};
use crate::steps::{ADD, Part};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use thalweg::memory::{Commutes, Follows, Overwrites, Reads, Shares, Updates, WeaklyReads, WeaklyUpdates};
use thalweg::prelude::*;
use thalweg::task::{
    Accumulating, After, BorrowedMut, Commutative, Concurrent, Inout, Input, Outcome, Output, Reducing, ResultInput,
    TokenAccess, ValueAccess, WeakInout, WeakInput,
};

/// The content of a value.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) value: AtomicU64,
    pub(crate) _living: Living,
}

/// The result of a task.
#[derive(Debug)]
pub(crate) struct Returned(pub(crate) u64, #[allow(dead_code)] pub(crate) Living);

/// A handle to a data object.
#[derive(Clone)]
pub(crate) enum Handle<'s> {
    Line(Data<u64>),
    Square(Data<u64, Ix2>),
    Cube(Data<u64, Ix3>),
    LentLine(Arc<BorrowedMut<'s, u64, Ix1>>),
    LentSquare(Arc<BorrowedMut<'s, u64, Ix2>>),
    LentCube(Arc<BorrowedMut<'s, u64, Ix3>>),
    Value(Value<Content>),
    Token(Token),
    Result(Arc<Pending<Returned>>),
}

impl Handle<'_> {
    /// Returns an equivalent handle that borrows nothing; `None` if there is none.
    pub(crate) fn owned<'o>(&self) -> Option<Handle<'o>> {
        Some(match self {
            Self::Line(x) => Handle::Line(x.clone()),
            Self::Square(x) => Handle::Square(x.clone()),
            Self::Cube(x) => Handle::Cube(x.clone()),
            Self::Value(x) => Handle::Value(x.clone()),
            Self::Token(x) => Handle::Token(x.clone()),
            Self::Result(x) => Handle::Result(x.clone()),
            _ => return None,
        })
    }
}

/// A region of an array.
pub(crate) enum Place<'a> {
    Line(Region<'a, u64, Ix1>),
    Square(Region<'a, u64, Ix2>),
    Cube(Region<'a, u64, Ix3>),
}

impl Handle<'_> {
    pub(crate) fn part(&self, part: &Part) -> Option<Place<'_>> {
        let [x, y, z] = part.ranges.clone();
        Some(match self {
            Self::Line(data) => Place::Line(data.slice(z)),
            Self::LentLine(data) => Place::Line(data.slice(z)),
            Self::Square(data) => Place::Square(data.block((y, z))),
            Self::LentSquare(data) => Place::Square(data.block((y, z))),
            Self::Cube(data) => Place::Cube(data.block((x, y, z))),
            Self::LentCube(data) => Place::Cube(data.block((x, y, z))),
            _ => return None,
        })
    }
}

pub(crate) type Handles<'s> = HashMap<Object, Handle<'s>>;

macro_rules! by_dimension {
    ($($name:ident = $access:ident $(<$operation:ty>)?;)*) => {$(
        pub(crate) type $name<'a> = (
            Vec<$access<'a, u64, Ix1 $(, $operation)?>>,
            Vec<$access<'a, u64, Ix2 $(, $operation)?>>,
            Vec<$access<'a, u64, Ix3 $(, $operation)?>>,
        );
    )*};
}

by_dimension! {
    Inputs = Input;
    Outcomes = OutcomeOf;
    Afters = After;
    Outputs = Output;
    Inouts = Inout;
    Commutatives = Commutative;
    Sums = Reducing<Reduction<u64>>;
    Accumulations = Accumulating<Reduction<u64>>;
    WeakInputs = WeakInput;
    WeakInouts = WeakInout;
}

type Arrays<'a> = (Inputs<'a>, Afters<'a>, Outputs<'a>, Inouts<'a>, Commutatives<'a>, Sums<'a>, Accumulations<'a>);

type OutcomeOf<'a, T, S> = Outcome<Input<'a, T, S>>;
type OfValue<'a, M> = Vec<ValueAccess<'a, Content, M>>;
type OfToken<'a, M> = Vec<TokenAccess<'a, M>>;

type Values<'a> = (
    OfValue<'a, Reads>,
    OfValue<'a, Follows>,
    OfValue<'a, Overwrites>,
    OfValue<'a, Updates>,
    OfValue<'a, Commutes>,
    OfValue<'a, Shares>,
);

type Tokens<'a> = (
    OfToken<'a, Reads>,
    OfToken<'a, Follows>,
    OfToken<'a, Overwrites>,
    OfToken<'a, Updates>,
    OfToken<'a, Commutes>,
    OfToken<'a, Shares>,
);

/// Accesses that a body can lend out.
pub(crate) type Lendable<'a> = (Arrays<'a>, (Values<'a>, Tokens<'a>, Vec<ResultInput<'a, Returned>>));

/// All other accesses.
pub(crate) type Others<'a> = (
    WeakInputs<'a>,
    WeakInouts<'a>,
    Vec<Concurrent<'a, u64, Ix1>>,
    (OfValue<'a, WeaklyReads>, OfValue<'a, WeaklyUpdates>),
    (OfToken<'a, WeaklyReads>, OfToken<'a, WeaklyUpdates>),
    (Outcomes<'a>, Vec<Outcome<ValueAccess<'a, Content, Reads>>>, Vec<Outcome<TokenAccess<'a, Reads>>>),
);

macro_rules! sort {
    ($region:ident, $mode:ident, $arrays:ident, $others:ident, $d:tt, $concurrent:expr) => {
        match $mode {
            Mode::In => $arrays.0.$d.push($region.input()),
            Mode::Outcome => $others.5.0.$d.push($region.outcome()),
            Mode::After => $arrays.1.$d.push($region.after()),
            Mode::Out => $arrays.2.$d.push($region.output()),
            Mode::Inout => $arrays.3.$d.push($region.inout()),
            Mode::Commutative => $arrays.4.$d.push($region.commutative()),
            Mode::Sum => $arrays.5.$d.push($region.reduction(ADD.clone())),
            Mode::Accumulate => $arrays.6.$d.push($region.accumulate(ADD.clone())),
            Mode::WeakIn => $others.0.$d.push($region.weak_input()),
            Mode::WeakInout => $others.1.$d.push($region.weak_inout()),
            Mode::Concurrent => $concurrent,
        }
    };
}

macro_rules! sort_whole {
    ($object:ident, $mode:ident, $lists:expr, $weak:expr, $outcomes:expr) => {
        match $mode {
            Mode::In => $lists.0.push($object.input()),
            Mode::Outcome => $outcomes.push($object.outcome()),
            Mode::After => $lists.1.push($object.after()),
            Mode::Out => $lists.2.push($object.output()),
            Mode::Inout => $lists.3.push($object.inout()),
            Mode::Commutative => $lists.4.push($object.commutative()),
            Mode::Concurrent => $lists.5.push($object.concurrent()),
            Mode::WeakIn => $weak.0.push($object.weak_input()),
            Mode::WeakInout => $weak.1.push($object.weak_inout()),
            Mode::Sum | Mode::Accumulate => unreachable!("only arrays are reduced"),
        }
    };
}

/// Returns the lists of a task's accesses, without those to objects that are not present.
pub(crate) fn lists<'a>(handles: &'a Handles<'_>, task: &Task) -> (Lendable<'a>, Others<'a>) {
    let ((mut arrays, mut whole), mut others) = <(Lendable<'a>, Others<'a>)>::default();
    for access in &task.accesses {
        let (Some(handle), mode) = (handles.get(&access.part.data), access.mode) else { continue };
        match (handle, handle.part(&access.part)) {
            (_, Some(Place::Line(x))) => sort!(x, mode, arrays, others, 0, others.2.push(x.concurrent())),
            (_, Some(Place::Square(x))) => sort!(x, mode, arrays, others, 1, unreachable!("only lines")),
            (_, Some(Place::Cube(x))) => sort!(x, mode, arrays, others, 2, unreachable!("only lines")),
            (Handle::Value(x), _) => sort_whole!(x, mode, whole.0, others.3, others.5.1),
            (Handle::Token(x), _) => sort_whole!(x, mode, whole.1, others.4, others.5.2),
            _ => unreachable!("results are not among a task's regions"),
        }
    }
    for result in &task.results {
        if let Some(Handle::Result(result)) = handles.get(result) {
            whole.2.push(result.input());
        }
    }
    ((arrays, whole), others)
}

/// Registers a new object, which belongs either to the program or to a body for its children.
pub(crate) fn make<'s>(run: &Run, at: &At<'_, '_, '_>, object: Object, kind: Kind) -> Handle<'s> {
    let start = |e| crate::oracle::start(object, e);
    let elements = || (0..kind.extents().iter().product()).map(start).collect();
    let content = || Content { value: AtomicU64::new(start(0)), _living: run.log.living() };
    let name = format!("object {object}");
    macro_rules! make {
        ($at:expr) => {
            match kind {
                Kind::Line(_) => Handle::Line($at.data(elements()).named(name)),
                Kind::Square(x, y) => Handle::Square($at.array(array(Ix2(x, y), elements())).named(name)),
                Kind::Cube(x, y, z) => Handle::Cube($at.array(array(Ix3(x, y, z), elements())).named(name)),
                Kind::Value => Handle::Value($at.value(content()).named(name)),
                Kind::Token => Handle::Token($at.token().named(name)),
            }
        };
    }
    match at {
        At::Body(at) => make!(at),
        _ => make!(run.rt),
    }
}

pub(crate) fn array<D: ndarray::Dimension>(shape: D, elements: Vec<u64>) -> ndarray::Array<u64, D> {
    ndarray::Array::from_shape_vec(shape, elements).unwrap()
}
