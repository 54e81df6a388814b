//! Hand-made tasks, for tests of layers that need tasks without bodies.
//!
//! Such a task only declares accesses. Tests that need a task to run belong to another layer.

use super::{Bodiless, Body, Kinds, Lane, Meta, Own, Submitting};
use crate::depend::{AccessRecord, Datum, Mode};
use crate::ids::{DataId, TaskId};
use crate::region::Block;
use crate::sync::CallSite;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Makes a data object of `len` elements of 8 bytes.
pub(crate) fn datum(id: u64, len: usize) -> Arc<Datum> {
    Arc::new(Datum::new(DataId(id), &[len], 8, false))
}

/// Makes a task with these accesses that runs on these kinds of unit.
pub(crate) fn task(id: u64, kinds: Kinds, accesses: &[(&Arc<Datum>, Block, Mode)]) -> Submitting {
    let meta = Meta {
        id: TaskId(id),
        name: Cow::Borrowed("made by hand"),
        location: CallSite::caller(),
        priority: 0,
        internal: false,
        join: false,
        lane: Lane::new(0),
        domain: OnceLock::new(),
        queues: accesses.iter().any(|(.., mode)| mode.queues()),
    };
    let accesses: Vec<_> = accesses.iter().map(|(datum, block, mode)| (Arc::clone(datum), *block, *mode)).collect();
    let body = Bodiless::new(kinds, move |visit: &mut dyn FnMut(AccessRecord<'_>)| {
        accesses.iter().for_each(|(datum, block, mode)| visit(AccessRecord { datum, block, mode: *mode }));
    });
    Submitting::new(|| meta, Own::default(), body, 0, |body| body as *mut (dyn Body + 'static))
}
