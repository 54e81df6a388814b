//! Messages as tasks of the local runtime: a send reads a region and ends when the bytes have left, a receive writes a
//! region and ends when they have arrived.
//!
//! Dependences inside of a rank are therefore the runtime's own: a receive into a copy waits for the tasks that read
//! the copy's last version, and a write of the home copy waits for the sends of its last version. Both tasks release
//! their unit at once; the link ends them. A region that is not contiguous is packed by the send's body and unpacked by
//! the link.
//!
//! The tasks' names contain the other rank. The tools for traces rely on that, and on the name of this file: the n-th
//! `send to 1` of rank 0 sends what the n-th `receive from 0` of rank 1 receives.
//!
//! A send accesses its region as an `outcome`: if the region is poisoned, the message is the failure, and the receive
//! fails with it.

use crate::core::{Core, Submission, Way};
use crate::dims::Dims;
use crate::error::Failure;
use crate::shared::Command;
use crate::transport::{Incoming, Outgoing};
use thalweg::error::{BoxError, SubmitError};
use thalweg::memory::{Element, Lent, ReadOnly};
use thalweg::region::Block;
use thalweg::task::Data;

/// Messages go first: they take no time here, and another rank may wait for them.
const FIRST: i32 = i32::MAX;

/// A region on its way out.
struct Out<T: Element, S: Dims> {
    region: Lent<S::Lent<T>, ReadOnly>,
    packed: Option<Vec<T>>,
}

impl<T: Element, S: Dims> Outgoing for Out<T, S> {
    fn bytes(&self) -> &[u8] {
        let elements = self.packed.as_deref().or_else(|| S::contiguous(&self.region));
        bytemuck::cast_slice(elements.expect("a region that is not contiguous is packed"))
    }

    fn finish(self: Box<Self>) {
        self.region.finish();
    }
}

/// A region on its way in.
struct In<T: Element, S: Dims> {
    region: Lent<S::Lent<T>>,
    packed: Option<Vec<T>>,
}

impl<T: Element, S: Dims> Incoming for In<T, S> {
    fn bytes(&mut self) -> &mut [u8] {
        let elements = match &mut self.packed {
            Some(packed) => packed,
            None => S::contiguous_mut(&mut self.region).expect("a region that is not contiguous is packed"),
        };
        bytemuck::cast_slice_mut(elements)
    }

    fn finish(mut self: Box<Self>) {
        if let Some(packed) = &self.packed {
            let mut view = S::as_array_mut(&mut self.region);
            view.iter_mut().zip(packed).for_each(|(to, from)| *to = *from);
        }
        self.region.finish();
    }

    fn fail(self: Box<Self>, error: BoxError) {
        self.region.fail(error);
    }
}

/// The subject of a message, for its check: a data object, a tile and a box, or a contribution to it.
pub(crate) type Label = (u64, u32, Block);

/// Sends a region of a local array to a rank, over a channel if the message repeats with the same memory.
pub(crate) fn send<T: Element, S: Dims>(
    core: &Core,
    (data, block): (&Data<T, S>, Block),
    (to, channel): (u32, Option<u32>),
    label: Label,
    cause: &Submission,
) -> Result<(), SubmitError> {
    let (number, check) = core.message(to, Way::To, cause, label);
    let (shared, rank, to) = (core.shared.clone(), core.rank, to as usize);
    let task = core.runtime().task(format!("send to {to}"), (data.block(block).outcome(),));
    task.priority(FIRST)
        .host_detached_until_event(move |_, (region,)| match region {
            Ok(region) => {
                let packed = S::contiguous(&region).is_none().then(|| S::as_array(&region).iter().copied().collect());
                let item = Box::new(Out::<T, S> { region, packed });
                shared.push(Command::Send { to, number, check, item, channel });
            }
            Err(failure) => {
                let failure = Failure::of(&failure, rank, &shared);
                shared.push(Command::Poison { to, number, check, failure });
            }
        })
        .submit()?;
    Ok(())
}

/// Receives a region of a local array from a rank.
pub(crate) fn receive<T: Element, S: Dims>(
    core: &Core,
    (data, block): (&Data<T, S>, Block),
    from: u32,
    label: Label,
    cause: &Submission,
) -> Result<(), SubmitError> {
    let (number, check) = core.message(from, Way::From, cause, label);
    let (shared, from) = (core.shared.clone(), from as usize);
    let (name, place) = (cause.name.clone(), cause.place);
    let task = core.runtime().task(format!("receive from {from}"), (data.block(block).output(),));
    task.priority(FIRST)
        .host_detached_until_event(move |_, (mut region,)| {
            let packed = S::contiguous_mut(&mut region).is_none();
            let packed = packed.then(|| vec![T::zeroed(); block.volume()]);
            let item = Box::new(In::<T, S> { region, packed });
            shared.push(Command::Receive { from, number, check, item, whose: (name, place) });
        })
        .submit()?;
    Ok(())
}
