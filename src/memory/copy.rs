//! Copies of boxes between arrays of different strides.

use crate::depend::Site;
use crate::region::MAX_DIMS;

/// A box to copy; each site is the site of the box's first element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxCopy {
    pub(crate) from: Site,
    pub(crate) to: Site,
    pub(crate) extents: [usize; MAX_DIMS],
    pub(crate) element_bytes: usize,
}

/// Copies a box, in runs of elements that are contiguous on both sides.
///
/// # Safety
/// Both sites are valid for the box. During the call, nothing writes the elements of the source or touches the elements
/// of the destination, and the two do not overlap.
pub(crate) unsafe fn copy_box(copy: &BoxCopy) {
    let BoxCopy { from, to, extents, element_bytes } = *copy;
    if extents.contains(&0) {
        return;
    }
    let mut run = 1;
    let mut outer = MAX_DIMS;
    while outer > 0 {
        let d = outer - 1;
        if extents[d] > 1 && (from.strides[d] != run || to.strides[d] != run) {
            break;
        }
        run *= extents[d];
        outer = d;
    }
    let mut index = [0; MAX_DIMS];
    loop {
        let offset = |site: &Site| (0..outer).map(|d| index[d] * site.strides[d]).sum::<usize>() * element_bytes;
        // SAFETY: the offsets stay inside the boxes, which the caller keeps valid and exclusive until this returns.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.first.add(offset(&from)),
                to.first.add(offset(&to)),
                run * element_bytes,
            );
        }
        let mut d = outer;
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < extents[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_a_block_of_a_matrix() {
        let source: Vec<u32> = (0..60).collect(); // 6 × 10
        let mut target = vec![0u32; 12]; // 3 × 4
        let copy = BoxCopy {
            from: Site { first: source[22..].as_ptr().cast_mut().cast(), strides: [10, 1, 1, 1] },
            to: Site { first: target.as_mut_ptr().cast(), strides: [4, 1, 1, 1] },
            extents: [3, 4, 1, 1],
            element_bytes: 4,
        };
        // SAFETY: rows 2..5 and columns 2..6 are inside the source, and the target has room for 3 × 4 elements.
        unsafe { copy_box(&copy) };
        assert_eq!(target, [22, 23, 24, 25, 32, 33, 34, 35, 42, 43, 44, 45]);
    }
}
