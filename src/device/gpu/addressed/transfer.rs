//! Splitting slabs into individual CUDA or HIP copies: contiguous runs of bytes, and boxes whose slices are a whole
//! number of rows apart.

use crate::device::gpu::{Pitches, Slab};

/// The largest pitch that CUDA supports in box copies on every device (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`); HIP allows
/// more.
const MOST_PITCH_BYTES: usize = i32::MAX as usize;
/// Host memory is locked in pages of this size, or of a multiple of this size.
const PAGE_BYTES: usize = 4096;

/// The direction of a copy, which determines which ends are in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device) enum Direction {
    In,
    Out,
    Across,
}

/// One end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device) struct Pitched {
    pub(in crate::device) address: usize,
    /// The distance between rows, in bytes.
    pub(in crate::device) pitch_bytes: usize,
    /// The distance between slices, in rows.
    pub(in crate::device) height: usize,
}

/// The box that a single call copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device) struct Transfer {
    pub(in crate::device) direction: Direction,
    pub(in crate::device) width_bytes: usize,
    pub(in crate::device) rows: usize,
    pub(in crate::device) slices: usize,
    pub(in crate::device) from: Pitched,
    pub(in crate::device) to: Pitched,
}

impl Transfer {
    /// Creates a contiguous transfer of bytes.
    fn flat(direction: Direction, width_bytes: usize, from: usize, to: usize) -> Self {
        let end = |address| Pitched { address, pitch_bytes: width_bytes, height: 1 };
        Self { direction, width_bytes, rows: 1, slices: 1, from: end(from), to: end(to) }
    }

    pub(in crate::device) fn is_flat(&self) -> bool {
        self.rows == 1 && self.slices == 1
    }

    fn host(&self) -> &Pitched {
        if self.direction == Direction::Out { &self.to } else { &self.from }
    }

    /// Splits a contiguous transfer at the page boundary after the middle of its host memory, unless there is none.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        let first = self.host().address;
        let at = (first + self.width_bytes / 2).next_multiple_of(PAGE_BYTES) - first;
        let (from, to) = (self.from.address, self.to.address);
        (0 < at && at < self.width_bytes).then(|| {
            [
                Self::flat(self.direction, at, from, to),
                Self::flat(self.direction, self.width_bytes - at, from + at, to + at),
            ]
        })
    }

    /// Splits the transfer into contiguous runs of bytes, such that no run that covers part of a row's first or last
    /// page extends beyond that page.
    ///
    /// Neither interface can copy host memory that is only partly page-locked. Memory is partly locked if an array
    /// shares its first or last page with another array that is locked.
    pub(super) fn by_pages(&self) -> impl Iterator<Item = Self> {
        let this = *self;
        let host = *this.host();
        let rows = (0..this.slices).flat_map(move |slice| (0..this.rows).map(move |row| (slice, row)));
        rows.flat_map(move |(slice, row)| {
            let offset = |end: &Pitched| (slice * end.height + row) * end.pitch_bytes;
            let start = host.address + offset(&host);
            let end = start + this.width_bytes;
            let body = start.next_multiple_of(PAGE_BYTES).min(end);
            let tail = (end / PAGE_BYTES * PAGE_BYTES).max(body);
            let (from, to) = (this.from.address + offset(&this.from), this.to.address + offset(&this.to));
            [(start, body), (body, tail), (tail, end)].into_iter().filter(|(first, end)| first < end).map(
                move |(first, end)| Self::flat(this.direction, end - first, from + first - start, to + first - start),
            )
        })
    }
}

/// Returns the transfers that together copy a slab: a single transfer if the interfaces support it, otherwise one
/// transfer per slice or per row.
pub(super) fn transfers(direction: Direction, from: usize, to: usize, slab: &Slab) -> Vec<Transfer> {
    let Slab { width_bytes, rows, slices, from: f, to: t } = *slab;
    let end = |base: usize, pitches: &Pitches, slice: usize, height: usize| Pitched {
        address: base + pitches.offset_bytes + slice * pitches.slice_bytes,
        pitch_bytes: pitches.row_bytes,
        height,
    };
    let of_slice = |slice: usize, heights: (usize, usize), slices: usize| Transfer {
        direction,
        width_bytes,
        rows,
        slices,
        from: end(from, &f, slice, heights.0),
        to: end(to, &t, slice, heights.1),
    };
    if slab.is_flat() {
        return vec![Transfer::flat(direction, width_bytes, from + f.offset_bytes, to + t.offset_bytes)];
    }
    let fits = |end: &Pitches| (width_bytes..=MOST_PITCH_BYTES).contains(&end.row_bytes);
    if !(fits(&f) && fits(&t)) {
        let of_row = |slice: usize, row: usize| {
            let at =
                |base: usize, end: &Pitches| base + end.offset_bytes + slice * end.slice_bytes + row * end.row_bytes;
            Transfer::flat(direction, width_bytes, at(from, &f), at(to, &t))
        };
        return (0..slices).flat_map(|slice| (0..rows).map(move |row| of_row(slice, row))).collect();
    }
    let height = |end: &Pitches| {
        let height = end.slice_bytes / end.row_bytes;
        (end.slice_bytes.is_multiple_of(end.row_bytes) && height >= rows).then_some(height)
    };
    match (height(&f), height(&t)) {
        (Some(from), Some(to)) => vec![of_slice(0, (from, to), slices)],
        _ => (0..slices).map(|slice| of_slice(slice, (rows, rows), 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the pairs of source and target bytes that a slab copies.
    fn of_slab(from: usize, to: usize, slab: &Slab) -> Vec<(usize, usize)> {
        let rows = (0..slab.slices).flat_map(|s| (0..slab.rows).map(move |r| (s, r)));
        let at = |p: &Pitches, s: usize, r: usize| p.offset_bytes + s * p.slice_bytes + r * p.row_bytes;
        let pairs = rows.flat_map(|(s, r)| {
            let (f, t) = (from + at(&slab.from, s, r), to + at(&slab.to, s, r));
            (0..slab.width_bytes).map(move |b| (f + b, t + b))
        });
        pairs.collect()
    }

    /// Returns the pairs of bytes that an interface would copy.
    fn of_transfers(transfers: impl IntoIterator<Item = Transfer>) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for t in transfers {
            if !t.is_flat() {
                for end in [t.from, t.to] {
                    assert!(end.pitch_bytes >= t.width_bytes && end.pitch_bytes <= MOST_PITCH_BYTES);
                    assert!(end.height >= t.rows);
                }
            }
            let whole = Slab {
                width_bytes: t.width_bytes,
                rows: t.rows,
                slices: t.slices,
                from: pitches(&t.from),
                to: pitches(&t.to),
            };
            pairs.extend(of_slab(t.from.address, t.to.address, &whole));
        }
        pairs
    }

    fn pitches(end: &Pitched) -> Pitches {
        Pitches { offset_bytes: 0, row_bytes: end.pitch_bytes, slice_bytes: end.pitch_bytes * end.height }
    }

    prop_compose! {
        fn end(width: usize, rows: usize)(offset_bytes in 0..9000usize, more in 0..20usize, rest in 0..50usize, whole: bool)
            -> Pitches
        {
            let row_bytes = width + more;
            let rest = if whole { rest / 10 * row_bytes } else { rest };
            Pitches { offset_bytes, row_bytes, slice_bytes: rows * row_bytes + rest }
        }
    }

    fn slab() -> impl Strategy<Value = Slab> {
        (prop_oneof![1..40usize, 4000..9000usize], 1..4usize, 1..4usize).prop_flat_map(|(width_bytes, rows, slices)| {
            (end(width_bytes, rows), end(width_bytes, rows)).prop_map(move |(from, to)| Slab {
                width_bytes,
                rows,
                slices,
                from,
                to,
            })
        })
    }

    proptest! {
        #[test]
        fn transfers_copy_the_slab(slab in slab(), from in 0..9000usize, to in 0..9000usize) {
            for direction in [Direction::In, Direction::Out, Direction::Across] {
                let transfers = transfers(direction, from, to, &slab);
                prop_assert_eq!(of_transfers(transfers.iter().copied()), of_slab(from, to, &slab));
                let mut pages = of_transfers(transfers.iter().flat_map(Transfer::by_pages));
                let mut expected = of_slab(from, to, &slab);
                pages.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(pages, expected);
            }
        }

        #[test]
        fn pieces_end_at_outer_page_boundaries(first in 0..20_000usize, len in 1..20_000usize, direction in 0..2usize) {
            let direction = [Direction::In, Direction::Out][direction];
            let end = first + len;
            let boundaries = [first.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES];
            for piece in Transfer::flat(direction, len, first, first).by_pages() {
                let inside = piece.from.address + 1..piece.from.address + piece.width_bytes;
                prop_assert!(!boundaries.iter().any(|boundary| inside.contains(boundary)));
            }
        }
    }

    #[test]
    fn halves_meet_at_a_page_boundary() {
        for (direction, first, len) in
            [(Direction::In, 100, 9000), (Direction::Out, 4096, 8192), (Direction::In, 3900, 300)]
        {
            let whole = Transfer::flat(direction, len, first, first);
            let halves = whole.halves().unwrap();
            assert_eq!(halves[1].from.address % PAGE_BYTES, 0);
            assert_eq!(of_transfers(halves), of_transfers([whole]));
        }
        for (first, len) in [(4096, 4096), (100, 200), (4096, 1)] {
            assert_eq!(Transfer::flat(Direction::In, len, first, 0).halves(), None);
        }
    }

    #[test]
    fn too_long_pitch_is_split_into_rows() {
        let far = Pitches { offset_bytes: 8, row_bytes: MOST_PITCH_BYTES + 1, slice_bytes: 4 * (MOST_PITCH_BYTES + 1) };
        let near = Pitches { offset_bytes: 0, row_bytes: 16, slice_bytes: 32 };
        let slab = Slab { width_bytes: 16, rows: 2, slices: 2, from: far, to: near };
        let transfers = transfers(Direction::In, 0, 0, &slab);
        assert_eq!(transfers.len(), 4);
        assert_eq!(of_transfers(transfers), of_slab(0, 0, &slab));
    }

    #[test]
    fn slices_of_whole_rows_are_one_box() {
        let end = |rows: usize| Pitches { offset_bytes: 0, row_bytes: 64, slice_bytes: 64 * rows };
        let slab = Slab { width_bytes: 32, rows: 3, slices: 5, from: end(3), to: end(7) };
        let transfers = transfers(Direction::Across, 0, 1 << 20, &slab);
        assert_eq!(transfers.len(), 1);
        assert_eq!((transfers[0].from.height, transfers[0].to.height), (3, 7));
    }
}
