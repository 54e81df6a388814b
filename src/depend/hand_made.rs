//! Tasks made by hand, for tests of layers that need tasks and no bodies.
//!
//! Such a task declares accesses and does nothing else: whoever wants to see it run is in the wrong layer.

use super::{AccessRecord, Body, Datum, Env, Kinds, Meta, Mode, Submitting};
use crate::error::BoxError;
use crate::ids::{DataId, TaskId};
use crate::kernel::{DeviceSite, Launcher};
use crate::region::Block;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

struct Nothing {
    accesses: Vec<(Arc<Datum>, Block, Mode)>,
    kinds: Kinds,
}

impl Body for Nothing {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.accesses.iter().for_each(|(datum, block, mode)| visit(AccessRecord { datum, block, mode: *mode }));
    }

    fn run(&self, _: &Env<'_>) -> Result<(), BoxError> {
        unreachable!("a task made by hand is not run")
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("a task made by hand is not enqueued")
    }

    fn discard(&self) {}

    fn private(&self, _: usize) -> Option<(*mut u8, usize)> {
        None
    }

    fn combine(&self, _: usize, _: &Block) {}

    fn replica(&self, _: usize) -> Option<(&[u8], Block)> {
        None
    }

    fn absorb(&self, _: usize, _: &Block, _: (&[u8], Block)) {}

    fn retire(&self, _: usize) {}

    fn kinds(&self) -> Kinds {
        self.kinds
    }
}

/// A data object of so many elements of 8 bytes.
pub(crate) fn datum(id: u32, len: usize) -> Arc<Datum> {
    Arc::new(Datum::new(DataId(id), &[len], 8, false))
}

/// A task with these accesses that runs on these kinds of unit.
pub(crate) fn task(id: u64, kinds: Kinds, accesses: &[(&Arc<Datum>, Block, Mode)]) -> Submitting {
    let meta = Meta {
        id: TaskId(id),
        name: Cow::Borrowed("made by hand"),
        location: Location::caller(),
        priority: 0,
        internal: false,
        join: false,
        lane: 0,
        queues: accesses.iter().any(|(.., mode)| mode.queues()),
    };
    let accesses = accesses.iter().map(|(datum, block, mode)| (Arc::clone(datum), *block, *mode)).collect();
    Submitting::new(|| meta, None, Nothing { accesses, kinds }, 0, |body| body as *mut (dyn Body + 'static))
}
