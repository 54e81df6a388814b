//! Runs a program on a runtime.

use crate::oracle::{Elements, update};
use crate::program::{How, LINE, Part, Program, SIDE, Step, Tile};
use ndarray::{ArrayView2, ArrayViewMut2};
use thalweg::memory::Sum;
use thalweg::prelude::*;
use thalweg::{Context, TaskBuilder};

#[derive(Clone)]
struct Store {
    line: Data<u64>,
    square: Data<u64, Ix2>,
}

pub(crate) struct Run<'rt> {
    rt: &'rt Runtime,
    store: Store,
}

/// Where tasks are submitted: outside, or in a body.
#[derive(Clone, Copy)]
enum Place<'a> {
    Outside(&'a Runtime),
    Inside(&'a Context),
}

impl<'a> Place<'a> {
    fn task<A: thalweg::task::Accesses>(self, name: &'static str, accesses: A) -> TaskBuilder<'a, A> {
        match self {
            Self::Outside(rt) => rt.task(name, accesses),
            Self::Inside(at) => at.task(name, accesses),
        }
    }
}

fn outcome(fails: bool) -> Result<(), &'static str> {
    if fails { Err("as the program says") } else { Ok(()) }
}

fn submit(store: &Store, place: Place<'_>, step: &Step) -> Result<(), SubmitError> {
    let Store { line, square } = store;
    match step.clone() {
        Step::Line { n, writes, how, reads: [rows, columns], fails } => {
            let (writes, reads) = (line.slice(writes), square.block((rows, columns)).input());
            let body = move |_: &Context, (to, from): (&mut [u64], ArrayView2<'_, u64>)| {
                let read = from.iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
                to.iter_mut().for_each(|x| *x = update(how, *x, n, read));
                outcome(fails)
            };
            match how {
                How::Out => place.task("line", (writes.output(), reads)).cpu(body).submit()?,
                How::Inout => place.task("line", (writes.inout(), reads)).cpu(body).submit()?,
                How::Commutative => place.task("line", (writes.commutative(), reads)).cpu(body).submit()?,
                How::Sum => place.task("line", (writes.reduction(Sum), reads)).cpu(body).submit()?,
            };
        }
        Step::Square { n, writes: [rows, columns], how, reads, fails } => {
            let (writes, reads) = (square.block((rows, columns)), line.slice(reads).input());
            let body = move |_: &Context, (mut to, from): (ArrayViewMut2<'_, u64>, &[u64])| {
                let read = from.iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
                to.mapv_inplace(|x| update(how, x, n, read));
                outcome(fails)
            };
            match how {
                How::Out => place.task("square", (writes.output(), reads)).cpu(body).submit()?,
                How::Inout => place.task("square", (writes.inout(), reads)).cpu(body).submit()?,
                How::Commutative => place.task("square", (writes.commutative(), reads)).cpu(body).submit()?,
                How::Sum => place.task("square", (writes.reduction(Sum), reads)).cpu(body).submit()?,
            };
        }
        Step::Parent { line: part, writes_line, square: [rows, columns], writes_square, children, waits_after } => {
            let (part, tile) = (line.slice(part), square.block((rows, columns)));
            let inner = store.clone();
            let body = move |at: &Context, ((), ()): ((), ())| {
                for (n, child) in children.iter().enumerate() {
                    if waits_after == Some(n) {
                        let _ = at.wait(); // failures are the oracle's matter
                    }
                    submit(&inner, Place::Inside(at), child)?;
                }
                if waits_after == Some(children.len()) {
                    let _ = at.wait();
                }
                Ok::<_, SubmitError>(())
            };
            match (writes_line, writes_square) {
                (true, true) => place.task("parent", (part.weak_inout(), tile.weak_inout())).host(body).submit()?,
                (true, false) => place.task("parent", (part.weak_inout(), tile.weak_input())).host(body).submit()?,
                (false, true) => place.task("parent", (part.weak_input(), tile.weak_inout())).host(body).submit()?,
                (false, false) => place.task("parent", (part.weak_input(), tile.weak_input())).host(body).submit()?,
            };
        }
    }
    Ok(())
}

impl<'rt> Run<'rt> {
    pub(crate) fn new(rt: &'rt Runtime) -> Self {
        let line = rt.data((0..LINE as u64).collect()).named("line");
        let square = ndarray::Array2::from_shape_fn((SIDE, SIDE), |(i, j)| (i * SIDE + j) as u64);
        Self { rt, store: Store { line, square: rt.array(square).named("square") } }
    }

    /// What the program leaves, element by element, and whether failures were reported.
    pub(crate) fn run(self, program: &Program) -> (Elements, Elements, bool) {
        let Self { rt, store } = self;
        for step in &program.steps {
            submit(&store, Place::Outside(rt), step).unwrap();
        }
        // Reads are ordered like tasks: those of some elements come before anybody has waited.
        let part = |part: Part| rt.read(store.line.slice(part)).ok().map(|x| x[0]);
        let tile = |[i, j]: Tile| rt.read(store.square.block((i, j))).ok().map(|x| x[[0, 0]]);
        let line = (0..LINE).map(|i| part(i..i + 1)).collect();
        let square = (0..SIDE * SIDE).map(|k| tile([k / SIDE..k / SIDE + 1, k % SIDE..k % SIDE + 1])).collect();
        (line, square, rt.wait().is_err())
    }
}
