//! Arrays of zeros that share one piece of memory and its huge pages.
//!
//! An array of less than a few megabytes cannot have a huge page to itself. A program that sweeps over hundreds of such
//! arrays therefore waits for address translation, and the hardware prefetcher restarts at each ordinary page. To avoid
//! this, arrays that are created together share huge pages.
//!
//! The memory of a dropped array is never given to another array. The piece is freed with the last of its arrays.
//!
//! Invariant: the parts of a piece share neither a byte nor an ordinary page, because devices may page-lock parts
//! individually.

use super::buffer::{LINE_BYTES, PAGE_BYTES, line_in_page};
use super::{Element, Reserved, huge};
use std::any::TypeId;
use std::sync::Arc;

/// One array's part of a piece of memory.
#[derive(Debug)]
pub(crate) struct Part {
    /// Keeps the memory alive.
    _piece: Arc<Piece>,
    first: *mut u8,
    len: usize,
    element: TypeId,
}

// SAFETY: the part owns plain elements that are `Send` and `Sync`, and nothing else uses its bytes.
unsafe impl Send for Part {}

/// The memory shared by the parts.
#[derive(Debug)]
struct Piece {
    _memory: Reserved,
}

// SAFETY: a shared reference gives only the addresses, and the memory at these addresses belongs to the parts.
unsafe impl Sync for Piece {}

/// Allocates adjacent arrays of zeros with elements of this type, one for each length. Neighbouring arrays begin at
/// different lines of their pages, because equal indices of several arrays would otherwise compete for the same cache
/// set; `first_number` determines the line of the first array.
///
/// # Panics
/// Panics if the arrays would take more bytes than the process has addresses left.
pub(crate) fn zeros<T: Element>(lens: &[usize], first_number: u64) -> Vec<Part> {
    let align = align_of::<T>().max(PAGE_BYTES);
    let mut end = 0usize;
    let begins: Vec<usize> = (first_number..)
        .zip(lens)
        .map(|(number, len)| {
            // The offset is the same as for separate arrays, except that elements aligned to more than a line start at
            // a page.
            let skipped = if align_of::<T>() > LINE_BYTES { 0 } else { line_in_page(number) };
            let begin = end.saturating_add(skipped);
            end = begin.saturating_add(len.saturating_mul(size_of::<T>())).saturating_add(align - 1) / align * align;
            begin
        })
        .collect();
    let is_large = end >= huge::PAGE_BYTES;
    let memory = Reserved::aligned(end, if is_large { align.max(huge::PAGE_BYTES) } else { align }, end);
    let base = memory.first();
    if is_large {
        huge::advise(base, end);
    }
    let piece = Arc::new(Piece { _memory: memory });
    let part = |(begin, len): (usize, &usize)| Part {
        _piece: piece.clone(),
        first: base.wrapping_add(begin),
        len: *len,
        element: TypeId::of::<T>(),
    };
    begins.into_iter().zip(lens).map(part).collect()
}

impl Part {
    /// Returns the address of the first element.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// Copies the elements.
    ///
    /// # Panics
    /// Panics if `T` is not the element type.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        // SAFETY: by the invariant, these bytes belong to this part and are aligned for its elements, and zeros are
        // valid elements of this type. The piece lives as long as the part, and nothing else uses the part any more.
        unsafe { std::slice::from_raw_parts(self.first.cast::<T>(), self.len) }.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_no_page_and_are_aligned() {
        let lens = [1, 0, 511, 512, 513, 100_000, 0, 7];
        let parts = zeros::<f64>(&lens, 5);
        let mut pages = std::collections::BTreeSet::new();
        let mut lines = std::collections::BTreeSet::new();
        for (part, len) in parts.iter().zip(lens) {
            let first = part.first().addr();
            assert!(first.is_multiple_of(LINE_BYTES));
            lines.insert(first % PAGE_BYTES);
            let own: Vec<_> = (first..first + len * 8).step_by(8).map(|byte| byte / PAGE_BYTES).collect();
            for page in own.into_iter().collect::<std::collections::BTreeSet<_>>() {
                assert!(pages.insert(page), "page {page} belongs to two arrays");
            }
        }
        assert_eq!(lines.len(), lens.len(), "each begins at a different line");
    }

    #[test]
    fn part_outlives_the_others() {
        let mut parts = zeros::<u16>(&[3, 70_000, 2], 0);
        let last = parts.pop().unwrap();
        // SAFETY: the address is inside a part of two elements that nothing else uses.
        unsafe { last.first().cast::<u16>().add(1).write(7) };
        drop(parts);
        assert_eq!(last.into_vec::<u16>(), [0, 7]);
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C, align(8192))]
    struct OverAligned([u8; 8192]);
    // SAFETY: the type consists of bytes without padding, for which all bit patterns are valid.
    unsafe impl bytemuck::Zeroable for OverAligned {}
    // SAFETY: the type consists of bytes without padding, for which all bit patterns are valid.
    unsafe impl bytemuck::Pod for OverAligned {}

    #[test]
    fn elements_of_any_size_and_alignment_convert_back() {
        for part in zeros::<OverAligned>(&[2, 1], 1) {
            assert!(part.first().addr().is_multiple_of(8192));
            assert!(part.into_vec::<OverAligned>().iter().all(|one| one.0 == [0; 8192]));
        }
        assert_eq!(
            zeros::<()>(&[5, 0], 3).into_iter().map(|part| part.into_vec::<()>().len()).collect::<Vec<_>>(),
            [5, 0]
        );
        assert!(zeros::<f64>(&[], 3).is_empty());
    }
}
