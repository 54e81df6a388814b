//! Page-locked staging memory for copies between a device and host memory that is not page-locked.
//!
//! A direct copy to or from pageable memory blocks its thread until all earlier work on the stream has ended. Therefore
//! such copies go through page-locked memory, which is reused: data is packed before a copy to the device, and unpacked
//! after a copy to the host. The memory is allocated in pieces, so that large copies need two of them and no more
//! ([`copies`](super::copies)).
//!
//! Arrays of 1 MiB or more are themselves page-locked for their second copy, and any array on request
//! (`Data::pin_memory`). OpenCL cannot page-lock existing memory.

use super::Backend;
use crate::depend::Site;
use crate::device::{DeviceCopy, End};
use crate::error::DeviceError;
use crate::kernel::DeviceSite;
use crate::memory::{BoxCopy, copy_box, strides_of};
use crate::region::MAX_DIMS;

/// The maximum size of a packed copy, in bytes. Larger copies are made in pieces.
const MOST_BYTES: u64 = 1 << 20;

/// Returns whether a copy has unlocked host memory at one end.
pub(super) fn is_pageable(copy: &DeviceCopy) -> bool {
    let is_unlocked = |end: &End| matches!(end, End::Host { locked: false, .. });
    copy.bytes() > 0 && (is_unlocked(&copy.from) || is_unlocked(&copy.to))
}

/// Returns whether a copy is too large to be packed in one piece.
pub(super) fn is_large(copy: &DeviceCopy) -> bool {
    copy.bytes() > MOST_BYTES
}

/// Splits a copy into pieces, each small enough to be packed. The copy is split along the outermost dimension in
/// which a single index fits into a piece.
pub(super) fn pieces(copy: &DeviceCopy) -> impl Iterator<Item = DeviceCopy> + use<> {
    let copy = *copy;
    let inside = |d: usize| copy.extents[d + 1..].iter().product::<usize>() * copy.element_bytes;
    let cut = (0..MAX_DIMS).find(|d| inside(*d) as u64 <= MOST_BYTES).unwrap_or(MAX_DIMS - 1);
    let run = (MOST_BYTES as usize / inside(cut).max(1)).max(1);
    let outer: usize = copy.extents[..cut].iter().product();
    let runs = copy.extents[cut].div_ceil(run);
    (0..outer * runs).map(move |number| {
        let (mut rest, mut first, mut extents) = (number / runs, [0; MAX_DIMS], copy.extents);
        for d in (0..cut).rev() {
            (first[d], extents[d]) = (rest % copy.extents[d], 1);
            rest /= copy.extents[d];
        }
        first[cut] = number % runs * run;
        extents[cut] = run.min(copy.extents[cut] - first[cut]);
        let at = |end: End| {
            let offset_bytes = |strides: &[usize; MAX_DIMS]| {
                (0..MAX_DIMS).map(|d| first[d] * strides[d]).sum::<usize>() * copy.element_bytes
            };
            match end {
                End::Host { first, strides, locked } => {
                    End::Host { first: first.wrapping_add(offset_bytes(&strides)), strides, locked }
                }
                End::Device(site) => {
                    let offset_bytes = site.offset_bytes + offset_bytes(&site.strides);
                    End::Device(DeviceSite { offset_bytes, extents, ..site })
                }
            }
        };
        DeviceCopy { from: at(copy.from), to: at(copy.to), extents, ..copy }
    })
}

/// Page-locked staging memory that a flight uses.
pub(super) struct Staged<B: Backend> {
    /// The copy from staging memory to the destination, to be made when the flight has ended.
    back: Option<BoxCopy>,
    _memory: B::HostMemory,
}

// SAFETY: the addresses belong to a copy or a private replica, which in turn belongs to the flight until the flight
// has ended, so another thread may use them.
unsafe impl<B: Backend> Send for Staged<B> {}

impl<B: Backend> Staged<B> {
    /// Prepares a copy of pageable memory through staging memory, and returns the staging memory and the copy to make
    /// instead. Returns `None` if there is no staging memory for it.
    ///
    /// # Safety
    /// The host's end must be valid until the copy has ended, and only this copy may touch it.
    pub(super) unsafe fn of(backend: &B, copy: &DeviceCopy) -> Result<Option<(Self, DeviceCopy)>, DeviceError> {
        let (host, is_in) = match (copy.from, copy.to) {
            (End::Host { first, strides, .. }, _) => (Site { first, strides }, true),
            (_, End::Host { first, strides, .. }) => (Site { first, strides }, false),
            (End::Device(_), End::Device(_)) => return Ok(None),
        };
        let Some((memory, first)) = backend.host_memory(copy.bytes() as usize)? else { return Ok(None) };
        let packed = Site { first, strides: strides_of(&copy.extents) };
        let end = End::Host { first, strides: packed.strides, locked: true };
        let DeviceCopy { extents, element_bytes, .. } = *copy;
        let between = |from, to| BoxCopy { from, to, extents, element_bytes };
        if is_in {
            // SAFETY: the caller keeps the host's end valid and exclusive, and the staging memory has the size of the
            // copy.
            unsafe { copy_box(&between(host, packed)) };
            return Ok(Some((Self { back: None, _memory: memory }, DeviceCopy { from: end, ..*copy })));
        }
        let back = Some(between(packed, host));
        Ok(Some((Self { back, _memory: memory }, DeviceCopy { to: end, ..*copy })))
    }

    /// Copies data from staging memory to its destination, if this is a copy to the host. Called after the flight has
    /// ended.
    pub(super) fn bring_back(self) {
        if let Some(back) = &self.back {
            // SAFETY: the flight has ended without an error, and its end is reported only after this copy, so both
            // ends are still valid and exclusive.
            unsafe { copy_box(back) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the host address and the device offset of each element, in the order of the box.
    fn places(copy: &DeviceCopy) -> Vec<(usize, usize)> {
        let (End::Host { first, strides, .. }, End::Device(site)) = (copy.from, copy.to) else {
            panic!("into a device")
        };
        let mut places = Vec::new();
        let [a, b, c, d] = copy.extents;
        for index in (0..a * b * c * d).map(|n| [n / d / c / b, n / d / c % b, n / d % c, n % d]) {
            let at = |strides: &[usize; MAX_DIMS]| index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>();
            let bytes = copy.element_bytes;
            places.push((first.addr() + at(&strides) * bytes, site.offset_bytes + at(&site.strides) * bytes));
        }
        places
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_copy(
            extents in prop_oneof![
                (1..3usize, 1..3usize, 1..3usize, 1..4000usize),
                (1..3usize, 1..4usize, 1..300usize, 1..9usize),
                (1..200usize, 1..4usize, 1..3usize, 1..9usize),
            ],
            element_bytes in prop::sample::select(vec![1usize, 8, 1000, 1 << 19, 3 << 19]),
            gap in 0..3usize,
        ) {
            let extents: [usize; MAX_DIMS] = extents.into();
            let apart = strides_of(&extents.map(|extent| extent + gap));
            let from = End::Host { first: std::ptr::without_provenance_mut(1 << 40), strides: apart, locked: false };
            let to = End::Device(DeviceSite { base: 5, offset_bytes: 64, strides: strides_of(&extents), extents });
            let copy = DeviceCopy { from, to, extents, element_bytes };
            let all: Vec<_> = pieces(&copy).collect();
            prop_assert!(all.iter().all(|piece| piece.bytes() <= MOST_BYTES || piece.extents == [1; MAX_DIMS]));
            // There are as few pieces as possible, apart from the shorter ones at the ends of runs.
            prop_assert!(all.len() as u64 <= 1 + 2 * copy.bytes() / MOST_BYTES + extents[..3].iter().product::<usize>() as u64);
            prop_assert_eq!(all.iter().flat_map(places).collect::<Vec<_>>(), places(&copy));
        }
    }
}
