//! Submission of a program's loops, each of which creates tasks on the tiles of an array in one call.

use crate::access::{Handles, Inputs, Place};
use crate::program::{Loop, Mode};
use crate::run::{At, Run};
use crate::steps::ADD;
use crate::submit::{Work, change, fold};
use std::sync::Arc;
use thalweg::prelude::*;

/// Returns the inputs of an iteration, which are the same for all iterations.
fn inputs<'a>(handles: &'a Handles<'_>, all: &Loop) -> Inputs<'a> {
    let mut inputs = Inputs::default();
    for part in &all.reads {
        match handles.get(&part.data).and_then(|handle| handle.part(part)) {
            Some(Place::Line(x)) => inputs.0.push(x.input()),
            Some(Place::Square(x)) => inputs.1.push(x.input()),
            Some(Place::Cube(x)) => inputs.2.push(x.input()),
            None => {}
        }
    }
    inputs
}

/// Submits a loop and returns the number of iterations.
#[allow(unused_mut)] // array views must be mutable to be iterated, slices need not
pub(crate) fn submit(run: &Run, at: &At<'_, '_, '_>, handles: &Handles<'_>, all: &Loop) -> Result<usize, SubmitError> {
    let Some(handle) = handles.get(&all.whole.data) else { return Ok(0) };
    let tasks = all.tasks();
    let space = all.in_space.then(|| IterationSpace::new("loop", vec![1.0; tasks.len()]));
    space.iter().for_each(|space| _ = space.begin());
    let works: Arc<Vec<Work>> = Arc::new(tasks.iter().map(|task| Work::new(run, handles, task)).collect());
    macro_rules! submit {
        ($access:expr, |$tile:ident, $h:ident| $change:expr) => {{
            let (name, accesses) = (all.n.to_string(), (0.., inputs(handles, all), $access));
            let begun = match at {
                At::Outside(outside) => outside.rt.for_each(name, accesses),
                At::Body(at) => at.for_each(name, accesses),
                At::Scope(_) => unreachable!("scopes have no loops"),
            };
            let begun = begun.cpu(move |at, (i, reads, mut $tile)| {
                let work: &Work = &works[i];
                let mut $h = work.begin();
                reads.0.iter().for_each(|x: &&[u64]| fold(&mut $h, x.iter()));
                reads.1.iter().for_each(|x| fold(&mut $h, x.iter()));
                reads.2.iter().for_each(|x| fold(&mut $h, x.iter()));
                work.act(at);
                $change;
                work.end()
            });
            match &space {
                Some(space) => begun.at(space).submit(),
                None => begun.submit(),
            }
        }};
    }
    macro_rules! in_mode {
        ($tiles:expr) => {{
            let (tiles, mode) = ($tiles, all.mode);
            match mode {
                Mode::Out => submit!(tiles.output(), |x, h| change(mode, h, x.iter_mut())),
                Mode::Inout => submit!(tiles.inout(), |x, h| change(mode, h, x.iter_mut())),
                Mode::Commutative => submit!(tiles.commutative(), |x, h| change(mode, h, x.iter_mut())),
                Mode::Sum => submit!(tiles.reduction(ADD.clone()), |x, h| change(mode, h, x.iter_mut())),
                Mode::Accumulate => submit!(tiles.accumulate(ADD.clone()), |x, h| change(mode, h, x.iter_mut())),
                _ => submit!(tiles.weak_inout(), |x, h| {
                    let () = x;
                    let _ = h;
                }),
            }
        }};
    }
    let [x, y, z] = all.tile;
    match handle.part(&all.whole) {
        Some(Place::Line(part)) => in_mode!(part.tiles([z])),
        Some(Place::Square(part)) => in_mode!(part.tiles([y, z])),
        Some(Place::Cube(part)) => in_mode!(part.tiles([x, y, z])),
        None => Ok(0),
    }
}
