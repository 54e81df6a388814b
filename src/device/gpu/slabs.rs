//! Decomposition of a box with up to four dimensions into slabs (slices of rows of bytes), each of which an interface
//! can copy with one call.

use crate::device::{DeviceCopy, End};
use crate::region::MAX_DIMS;

/// A slab consists of slices, each slice of rows, and each row of contiguous bytes. The offsets and pitches of both
/// ends are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slab {
    pub(crate) width_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) slices: usize,
    pub(crate) from: Pitches,
    pub(crate) to: Pitches,
}

/// The layout of a slab at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pitches {
    pub(crate) offset_bytes: usize,
    pub(crate) row_bytes: usize,
    pub(crate) slice_bytes: usize,
}

impl Slab {
    /// Returns whether the slab is one contiguous run of bytes.
    pub(crate) fn is_flat(&self) -> bool {
        self.rows == 1 && self.slices == 1
    }
}

/// Returns the slabs of a copy.
pub(super) fn slabs_of(copy: &DeviceCopy) -> impl Iterator<Item = Slab> {
    let slabs = slabs(&copy.extents, copy.element_bytes, strides(&copy.from), strides(&copy.to));
    let (from, to) = (offset(&copy.from), offset(&copy.to));
    slabs.into_iter().map(move |mut slab| {
        slab.from.offset_bytes += from;
        slab.to.offset_bytes += to;
        slab
    })
}

fn strides(end: &End) -> &[usize; MAX_DIMS] {
    match end {
        End::Host { strides, .. } => strides,
        End::Device(site) => &site.strides,
    }
}

fn offset(end: &End) -> usize {
    match end {
        End::Host { .. } => 0,
        End::Device(site) => site.offset_bytes,
    }
}

/// Returns the slabs of a box with the given strides (in elements) at both ends. An empty box has no slabs.
fn slabs(
    extents: &[usize; MAX_DIMS],
    element_bytes: usize,
    from: &[usize; MAX_DIMS],
    to: &[usize; MAX_DIMS],
) -> Vec<Slab> {
    if extents.contains(&0) {
        return Vec::new();
    }
    // Dimensions with more than one index, innermost first. Adjacent dimensions that are contiguous at both ends are
    // merged.
    let mut levels: Vec<(usize, usize, usize)> = vec![(1, 1, 1)]; // count, and strides at both ends
    for d in (0..MAX_DIMS).rev().filter(|d| extents[*d] > 1) {
        let (count, from_stride, to_stride) = levels.last_mut().expect("the innermost level exists");
        if *from_stride * *count == from[d] && *to_stride * *count == to[d] {
            *count *= extents[d];
        } else {
            levels.push((extents[d], from[d], to[d]));
        }
    }
    let bytes = |stride: usize| stride * element_bytes;
    let width_bytes = bytes(levels[0].0);
    let level = |n: usize, inner: (usize, usize)| match levels.get(n) {
        Some(&(count, from, to)) => (count, bytes(from), bytes(to)),
        None => (1, inner.0, inner.1),
    };
    let (rows, from_row, to_row) = level(1, (width_bytes, width_bytes));
    let behind = (rows * from_row, rows * to_row);
    // Interfaces require the slice pitch to be a multiple of the row pitch, which may not be the case for a subarray
    // with steps.
    let of_rows = |slice: usize, row: usize| slice.is_multiple_of(row) && slice >= rows * row;
    let (slices, from_slice, to_slice) = match level(2, behind) {
        (slices, from, to) if of_rows(from, from_row) && of_rows(to, to_row) => (slices, from, to),
        _ => (1, behind.0, behind.1),
    };
    let mut offsets = vec![(0, 0)];
    for &(count, from, to) in levels.iter().skip(if slices > 1 { 3 } else { 2 }) {
        offsets = (0..count)
            .flat_map(|i| offsets.iter().map(move |(a, b)| (a + i * bytes(from), b + i * bytes(to))))
            .collect();
    }
    let slab = |(from_offset, to_offset)| Slab {
        width_bytes,
        rows,
        slices,
        from: Pitches { offset_bytes: from_offset, row_bytes: from_row, slice_bytes: from_slice },
        to: Pitches { offset_bytes: to_offset, row_bytes: to_row, slice_bytes: to_slice },
    };
    offsets.into_iter().map(slab).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::strides_of;
    use proptest::prelude::*;

    /// Copies slab by slab, as an interface would.
    fn copy(slabs: &[Slab], from: &[u8], to: &mut [u8]) {
        for slab in slabs {
            for (slice, row) in (0..slab.slices).flat_map(|s| (0..slab.rows).map(move |r| (s, r))) {
                let at = |p: &Pitches| p.offset_bytes + slice * p.slice_bytes + row * p.row_bytes;
                to[at(&slab.to)..][..slab.width_bytes].copy_from_slice(&from[at(&slab.from)..][..slab.width_bytes]);
            }
        }
    }

    #[test]
    fn whole_array_is_one_flat_slab() {
        let shape = [2, 3, 4, 5];
        let strides = strides_of(&shape);
        let slabs = slabs(&shape, 8, &strides, &strides);
        assert_eq!((slabs.len(), slabs[0].is_flat(), slabs[0].width_bytes), (1, true, 960));
    }

    proptest! {
        #[test]
        fn slabs_cover_the_box(
            extents in prop::array::uniform4(0..4usize),
            wider in prop::array::uniform4(0..3usize),
            other in prop::array::uniform4(0..3usize),
            steps in prop::array::uniform3(1..4usize),
        ) {
            // One end is part of a larger array, of which it may have only every second or third index.
            let step = |d: usize| steps.get(d).copied().unwrap_or(1);
            let mut from = strides_of(&std::array::from_fn(|d| extents[d] * step(d) + wider[d]));
            (0..4).for_each(|d| from[d] *= step(d));
            let to = strides_of(&std::array::from_fn(|d| extents[d] + other[d]));
            let size = |strides: &[usize; 4]| (0..4).map(|d| extents[d] * strides[d]).sum::<usize>() + 1;
            let source: Vec<u8> = (0..size(&from) * 2).map(|n| n as u8).collect();
            let mut target = vec![0xff; size(&to) * 2];
            let mut expected = target.clone();
            copy(&slabs(&extents, 2, &from, &to), &source, &mut target);
            for slab in super::slabs(&extents, 2, &from, &to) {
                for Pitches { row_bytes, slice_bytes, .. } in [slab.from, slab.to] {
                    prop_assert!(slice_bytes.is_multiple_of(row_bytes) && slice_bytes >= slab.rows * row_bytes);
                }
            }
            let rows = |d: usize| 0..extents[d];
            for (i, j) in rows(0).flat_map(|i| rows(1).map(move |j| (i, j))) {
                for (k, l) in rows(2).flat_map(|k| rows(3).map(move |l| (k, l))) {
                    let at = |s: &[usize; 4]| 2 * (i * s[0] + j * s[1] + k * s[2] + l * s[3]);
                    expected[at(&to)..][..2].copy_from_slice(&source[at(&from)..][..2]);
                }
            }
            prop_assert_eq!(target, expected);
        }
    }
}
