//! A copy of a region between guard zones, for one body under the access sanitizer.
//!
//! Zones lie in front of the copy, after it and between its rows. Their content, and the content of an output that was
//! not written yet, are [patterns](Pattern) by which they are recognized.
//!
//! This module never decides which regions are copied, and knows no tasks. Invariant: the layout has a gap between rows
//! exactly where the original has one, so a contiguous region stays contiguous. Each stride is a multiple of the next
//! inner one, because Fortran describes sections of sections only by such strides.

use super::pattern::Pattern;
use super::{BoxCopy, copy_box};
use crate::depend::Site;
use crate::region::MAX_DIMS;
use std::hash::Hasher;

/// The limits of a zone before or after the copy, in bytes; in between, a zone has the size of a row.
const ZONE_BYTES: (usize, usize) = (4096, 65536);
/// The largest gap between rows, in bytes, unless a single element is larger.
const GAP_BYTES: usize = 64;
/// The limits of the alignment of the first element; in between, it is the largest power of two that divides the size
/// of an element.
const ALIGN: (usize, usize) = (64, 65536);

/// The copy; see the module documentation.
pub(crate) struct GuardedCopy {
    memory: Vec<u8>,
    /// The distance in bytes from the beginning of the memory to the first aligned byte.
    skew: usize,
    /// The bytes from there to the end.
    total: usize,
    /// The distance in bytes from the first aligned byte to the first element.
    front: usize,
    /// The bytes from the first element to the end of the last.
    span: usize,
    extents: [usize; MAX_DIMS],
    strides: [usize; MAX_DIMS],
    element_bytes: usize,
    /// The number of elements that follow each other without a gap, here and in the original.
    run: usize,
    /// The number of leading dimensions that number the runs.
    outer: usize,
}

/// A finding: the index of the first element, relative to the region, and the number of elements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) first: [usize; MAX_DIMS],
    pub(super) count: usize,
}

/// Damage to the guard zones: the offset in bytes of the first damaged byte from the first element, and the number of
/// damaged bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) first: isize,
    pub(super) count: usize,
}

impl GuardedCopy {
    /// Makes a copy of a region with these extents and strides, in elements. All of it has the content of zones.
    /// Returns `None` if the region is empty or memory is short.
    pub(crate) fn new(extents: [usize; MAX_DIMS], original: [usize; MAX_DIMS], element_bytes: usize) -> Option<Self> {
        if element_bytes == 0 || extents.contains(&0) {
            return None;
        }
        let most_gap = (GAP_BYTES / element_bytes).max(1);
        let (mut strides, mut here, mut there) = ([1; MAX_DIMS], 1, 1);
        let mut inner = 1;
        let (mut run, mut outer, mut is_dense) = (1, MAX_DIMS, true);
        for d in (0..MAX_DIMS).rev() {
            let gap = if extents[d] > 1 { original[d].saturating_sub(there) } else { 0 };
            is_dense &= gap == 0;
            strides[d] = here + gap.min(most_gap);
            if extents[d] > 1 {
                strides[d] = strides[d].next_multiple_of(inner);
                inner = strides[d];
                (here, there) = (strides[d] * extents[d], original[d] * extents[d]);
            }
            if is_dense {
                (run, outer) = (run * extents[d], d);
            }
        }
        let span = ((0..MAX_DIMS).map(|d| (extents[d] - 1) * strides[d]).sum::<usize>() + 1) * element_bytes;
        let row = (0..MAX_DIMS).find(|d| extents[*d] > 1).map_or(1, |d| strides[d]) * element_bytes;
        let align = (1 << element_bytes.trailing_zeros().min(usize::BITS - 1)).clamp(ALIGN.0, ALIGN.1);
        let zone = row.clamp(ZONE_BYTES.0, ZONE_BYTES.1).next_multiple_of(align);
        let total = 2 * zone + span;
        let mut memory: Vec<u8> = Vec::new();
        memory.try_reserve_exact(total + align).ok()?;
        let skew = memory.as_ptr().addr().wrapping_neg() % align;
        memory.resize(skew, 0);
        Pattern::Outside.append(total, &mut memory);
        Some(Self { memory, skew, total, front: zone, span, extents, strides, element_bytes, run, outer })
    }

    /// Gives all elements the content of unwritten ones.
    pub(crate) fn mark_unwritten(&mut self) {
        for (_, offset) in self.runs() {
            let (from, bytes) = (self.front + offset * self.element_bytes, self.run * self.element_bytes);
            Pattern::Unwritten.fill(&mut self.bytes_mut()[from..][..bytes]);
        }
    }

    /// Returns the location of the copy, at which elements may be written while nothing else uses this value.
    pub(crate) fn site(&mut self) -> Site {
        let (front, strides) = (self.front, self.strides);
        Site { first: self.bytes_mut()[front..].as_mut_ptr(), strides }
    }

    /// Returns the location of the copy, for reading only.
    pub(crate) fn site_to_read(&self) -> Site {
        Site { first: self.bytes()[self.front..].as_ptr().cast_mut(), strides: self.strides }
    }

    /// Returns the strides of the copy, in elements.
    pub(crate) fn strides(&self) -> [usize; MAX_DIMS] {
        self.strides
    }

    /// Returns the distance in bytes from the beginning of [`Self::bytes`] to the first element.
    pub(crate) fn front(&self) -> usize {
        self.front
    }

    /// Returns everything: zones, gaps and elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.skew..][..self.total]
    }

    /// Like [`Self::bytes`], but mutable.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.skew..][..self.total]
    }

    /// Copies the original here.
    ///
    /// # Safety
    /// The original is at its site with the extents of this copy, and nothing writes it.
    pub(crate) unsafe fn fill(&mut self, original: Site) {
        let (extents, element_bytes) = (self.extents, self.element_bytes);
        let copy = BoxCopy { from: original, to: self.site(), extents, element_bytes };
        // SAFETY: the caller guarantees that the original is valid; the copy is separate memory, which `self` owns.
        unsafe { copy_box(&copy) };
    }

    /// Copies all elements back, except unwritten ones.
    ///
    /// # Safety
    /// The original is at its site with the extents of this copy, and nothing else uses it.
    pub(crate) unsafe fn write_back(&self, original: Site) {
        let bytes = self.element_bytes;
        if self.holding(Pattern::Unwritten).is_none() {
            let copy = BoxCopy { from: self.site_to_read(), to: original, extents: self.extents, element_bytes: bytes };
            // SAFETY: the caller guarantees that the original is valid and exclusive; the copy is separate memory.
            return unsafe { copy_box(&copy) };
        }
        for (index, offset) in self.runs() {
            let at: usize = (0..self.outer).map(|d| index[d] * original.strides[d]).sum();
            let elements = self.run_at(offset).chunks_exact(bytes).enumerate();
            for (n, element) in elements.filter(|(_, element)| !Pattern::Unwritten.covers(element, 0)) {
                // SAFETY: the element is inside the original, which the caller guarantees to be valid and exclusive.
                unsafe { original.first.add((at + n) * bytes).copy_from_nonoverlapping(element.as_ptr(), bytes) };
            }
        }
    }

    /// Returns the elements that differ from the original.
    ///
    /// # Safety
    /// As for [`Self::fill`].
    pub(super) unsafe fn changed(&self, original: Site) -> Option<Found> {
        let mut found = Finder::default();
        let bytes = self.element_bytes;
        for (index, offset) in self.runs() {
            // SAFETY: the caller guarantees that the original is valid and not written.
            let theirs = unsafe { self.original_run(original, &index) };
            let ours = self.run_at(offset);
            if ours != theirs {
                let differ = |n: &usize| ours[n * bytes..][..bytes] != theirs[n * bytes..][..bytes];
                (0..self.run).filter(differ).for_each(|n| found.add(self.index_in_run(index, n), 1));
            }
        }
        found.0
    }

    /// Returns the elements that hold a pattern.
    pub(super) fn holding(&self, pattern: Pattern) -> Option<Found> {
        let mut found = Finder::default();
        for (index, offset) in self.runs() {
            let each = |n, count| found.add(self.index_in_run(index, n), count);
            pattern.find(self.run_at(offset), self.element_bytes, each);
        }
        found.0
    }

    /// Returns a number that depends on each byte of the original.
    ///
    /// # Safety
    /// As for [`Self::fill`].
    pub(super) unsafe fn hash(&self, original: Site) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        for (index, _) in self.runs() {
            // SAFETY: the caller guarantees that the original is valid and not written.
            hasher.write(unsafe { self.original_run(original, &index) });
        }
        hasher.finish()
    }

    /// Returns the damage to the zones and gaps.
    pub(super) fn damage(&self) -> Option<Damage> {
        let bytes = self.bytes();
        let (mut damage, mut next) = (None, 0);
        let end = std::iter::once((bytes.len(), 0));
        let runs =
            self.runs().map(|(_, offset)| (self.front + offset * self.element_bytes, self.run * self.element_bytes));
        for (from, len) in runs.chain(end) {
            if !Pattern::Outside.covers(&bytes[next..from], next) {
                let damaged = (next..from).filter(|at| !Pattern::Outside.covers(&bytes[*at..=*at], *at));
                damaged.for_each(|at| {
                    let first = at as isize - self.front as isize;
                    damage.get_or_insert(Damage { first, count: 0 }).count += 1;
                });
            }
            next = from + len;
        }
        damage
    }

    /// Describes a place outside of the region by its distance from the region.
    pub(super) fn describe(&self, at: isize) -> String {
        let after = at - self.span as isize;
        match () {
            () if at < 0 => format!("{} bytes before its first element", -at),
            () if after >= 0 => format!("{after} bytes after its last element"),
            () => format!("between its rows, {at} bytes after its first element"),
        }
    }

    /// Returns the elements of the run at this offset.
    fn run_at(&self, offset: usize) -> &[u8] {
        &self.bytes()[self.front + offset * self.element_bytes..][..self.run * self.element_bytes]
    }

    /// Returns a run of the original.
    ///
    /// # Safety
    /// The original is valid and not written while the result is used.
    unsafe fn original_run(&self, original: Site, index: &[usize; MAX_DIMS]) -> &[u8] {
        let at: usize = (0..self.outer).map(|d| index[d] * original.strides[d]).sum();
        let bytes = self.element_bytes;
        // SAFETY: the run is inside the original, which the caller guarantees to be valid. By the module's invariant,
        // it has no gaps there either.
        unsafe { std::slice::from_raw_parts(original.first.add(at * bytes), self.run * bytes) }
    }

    /// Returns the index of the `n`-th element of the run that begins at `index`.
    fn index_in_run(&self, mut index: [usize; MAX_DIMS], mut n: usize) -> [usize; MAX_DIMS] {
        for d in (self.outer..MAX_DIMS).rev() {
            (index[d], n) = (n % self.extents[d], n / self.extents[d]);
        }
        index
    }

    /// Returns the index and the offset in elements of each run.
    fn runs(&self) -> impl Iterator<Item = ([usize; MAX_DIMS], usize)> + use<> {
        let Self { extents, strides, outer, .. } = *self;
        let next = move |index: &[usize; MAX_DIMS]| {
            let d = (0..outer).rev().find(|d| index[*d] + 1 < extents[*d])?;
            let mut next = *index;
            next[d] += 1;
            next[d + 1..outer].fill(0);
            Some(next)
        };
        let offset = move |index: &[usize; MAX_DIMS]| (0..outer).map(|d| index[d] * strides[d]).sum();
        std::iter::successors(Some([0; MAX_DIMS]), next).map(move |index| (index, offset(&index)))
    }
}

#[derive(Default)]
struct Finder(Option<Found>);

impl Finder {
    fn add(&mut self, index: [usize; MAX_DIMS], count: usize) {
        self.0.get_or_insert(Found { first: index, count: 0 }).count += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwritten(extents: [usize; MAX_DIMS], strides: [usize; MAX_DIMS], element_bytes: usize) -> GuardedCopy {
        let mut copy = GuardedCopy::new(extents, strides, element_bytes).unwrap();
        copy.mark_unwritten();
        copy
    }

    /// Returns the site of a box of a matrix of 10 columns that begins at `first`.
    fn site(matrix: &mut [f64], first: usize) -> Site {
        Site { first: matrix[first..].as_mut_ptr().cast(), strides: [10, 1, 1, 1] }
    }

    #[test]
    fn copy_of_box_is_filled_changed_and_written_back() {
        let mut matrix: Vec<f64> = (0..60).map(f64::from).collect();
        let original = site(&mut matrix, 22);
        let mut copy = unwritten([3, 4, 1, 1], original.strides, 8);
        let unwritten = Found { first: [0; 4], count: 12 };
        assert_eq!((copy.holding(Pattern::Unwritten), copy.damage()), (Some(unwritten), None));
        // SAFETY: the box of 3 × 4 elements at row 2 and column 2 is inside the matrix, which nothing else uses.
        unsafe {
            copy.fill(original);
            assert_eq!((copy.changed(original), copy.holding(Pattern::Unwritten)), (None, None));
            let at = copy.site();
            at.first.cast::<f64>().add(at.strides[0] + 2).write(-1.0);
            assert_eq!(copy.changed(original), Some(Found { first: [1, 2, 0, 0], count: 1 }));
            copy.write_back(original);
        }
        let expected: Vec<f64> = (0..60).map(|n| if n == 34 { -1.0 } else { f64::from(n) }).collect();
        assert_eq!(matrix, expected);
    }

    #[test]
    fn strides_nest() {
        // Every third element of a row, in every fourth row, in every second plane.
        let copy = GuardedCopy::new([2, 3, 2, 1], [240, 30, 3, 1], 16).unwrap();
        let [planes, rows, elements, _] = copy.strides();
        assert!(elements > 1 && rows % elements == 0 && planes % rows == 0, "{:?}", copy.strides());
        assert!(rows > 2 * elements && planes > 3 * rows, "gaps stay gaps: {:?}", copy.strides());
        // Two strides of the original are multiples of 12, but not of each other.
        let copy = GuardedCopy::new([2, 2, 3, 2], [60, 24, 3, 1], 8).unwrap();
        let [outer, planes, rows, _] = copy.strides();
        assert!(outer % planes == 0 && planes % rows == 0, "{:?}", copy.strides());
    }

    #[test]
    fn writes_next_to_copy_are_damage() {
        for (at, first) in [(-1, "8 bytes before"), (4, "between its rows"), (400, "bytes after its last")] {
            let mut copy = GuardedCopy::new([3, 4, 1, 1], [10, 1, 1, 1], 8).unwrap();
            let site = copy.site();
            // SAFETY: zones of at least 4096 bytes are on both sides of the elements, with gaps between the rows.
            unsafe { site.first.cast::<f64>().offset(at).write(0.0) };
            let damage = copy.damage().unwrap();
            assert_eq!((damage.first, damage.count), (at * 8, 8));
            assert!(copy.describe(damage.first).contains(first), "{}", copy.describe(damage.first));
        }
    }

    #[test]
    fn unwritten_elements_keep_their_old_content() {
        let mut bytes = [7u8; 32];
        let mut copy = unwritten([32, 1, 1, 1], [1; 4], 1);
        let original = Site { first: bytes.as_mut_ptr(), strides: [1; 4] };
        // SAFETY: all 32 elements exist on both sides, and nothing else uses them.
        unsafe {
            copy.site().first.write_bytes(9, 10);
            copy.write_back(original);
        }
        assert_eq!(copy.holding(Pattern::Unwritten), Some(Found { first: [10, 0, 0, 0], count: 22 }));
        assert!(GuardedCopy::new([0, 4, 1, 1], [4, 1, 1, 1], 8).is_none(), "an empty region needs no copy");
        let mut numbers = [5.0f32; 6];
        let original_numbers = Site { first: numbers.as_mut_ptr().cast(), strides: [1; 4] };
        let mut copy = unwritten([6, 1, 1, 1], [1; 4], 4);
        // SAFETY: as above, for 6 elements.
        unsafe {
            copy.site().first.cast::<f32>().add(1).write(1.0);
            copy.write_back(original_numbers);
        }
        assert_eq!(numbers, [5.0, 1.0, 5.0, 5.0, 5.0, 5.0]);
    }

    #[test]
    fn arithmetic_carries_patterns_into_results() {
        let mut copy = unwritten([2, 1, 1, 1], [1; 4], 8);
        let mut result = unwritten([2, 1, 1, 1], [1; 4], 8);
        let (from, to) = (copy.site().first.cast::<f64>(), result.site().first.cast::<f64>());
        // SAFETY: both copies have two elements, and zones before them.
        unsafe {
            to.write(-*from * 2.0 + 1.0);
            to.add(1).write(*from.sub(1) * 0.5);
        }
        assert_eq!(result.holding(Pattern::Unwritten), Some(Found { first: [0; 4], count: 1 }));
        assert_eq!(result.holding(Pattern::Outside), Some(Found { first: [1, 0, 0, 0], count: 1 }));
    }
}
