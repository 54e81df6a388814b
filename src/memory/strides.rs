//! Strides of arrays in row-major order: per dimension, the distance in elements between consecutive indices.

use crate::error::SubmitError;
use crate::region::MAX_DIMS;

/// Returns row-major strides, in elements.
#[inline]
pub(crate) fn strides_of(shape: &[usize; MAX_DIMS]) -> [usize; MAX_DIMS] {
    let mut strides = [1; MAX_DIMS];
    for d in (0..MAX_DIMS - 1).rev() {
        strides[d] = strides[d + 1] * shape[d + 1];
    }
    strides
}

/// Returns whether the elements of a box follow each other without gaps, in row-major order.
pub(super) fn is_contiguous(extents: &[usize; MAX_DIMS], strides: &[usize; MAX_DIMS]) -> bool {
    let mut run = 1;
    extents.contains(&0)
        || (0..MAX_DIMS).rev().filter(|d| extents[*d] > 1).all(|d| {
            let is_next = strides[d] == run;
            run *= extents[d];
            is_next
        })
}

/// Returns the strides of an array in row-major order, possibly with gaps between its rows. The stride of a dimension
/// of extent 1 has no meaning, so it is replaced by the stride of an array without gaps in that dimension.
pub(super) fn strides_of_view(shape: &[usize], strides: &[isize]) -> Result<[usize; MAX_DIMS], SubmitError> {
    let refuse = |problem| Err(SubmitError::Layout { shape: shape.to_vec(), strides: strides.to_vec(), problem });
    let mut padded = [1; MAX_DIMS];
    padded[..shape.len()].copy_from_slice(shape);
    let mut found = strides_of(&padded);
    if shape.contains(&0) {
        return Ok(found); // the array is empty
    }
    let mut span: usize = 1; // elements spanned by the inner dimensions
    for d in (0..shape.len()).rev() {
        found[d] = if shape[d] == 1 { span } else { usize::try_from(strides[d]).unwrap_or(0) };
        if found[d] < span {
            return refuse("its rows do not follow each other as in row-major order");
        }
        span = found[d].saturating_mul(shape[d] - 1).saturating_add(span);
    }
    if found[shape.len() - 1] > 1 { refuse("the elements of a row have gaps between them") } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_may_leave_gaps_between_rows_only() {
        let found = |shape: &[usize], strides: &[isize]| strides_of_view(shape, strides).ok();
        assert_eq!(found(&[3], &[1]), Some([1; 4]));
        assert_eq!(found(&[2, 3], &[10, 1]), Some([10, 1, 1, 1]));
        assert_eq!(found(&[2, 3, 4, 5], &[1000, 100, 6, 1]), Some([1000, 100, 6, 1]));
        assert_eq!(found(&[3, 2, 3, 4], &[120, 30, 12, 1]), Some([120, 30, 12, 1]), "every second row");
        assert_eq!(found(&[2, 1, 4], &[8, -7, 1]), Some([8, 4, 1, 1]), "the stride of extent 1 is ignored");
        assert_eq!(found(&[1, 1], &[0, 0]), Some([1; 4]));
        assert_eq!(found(&[0, 3], &[0, 0]), Some([3, 1, 1, 1]));
        let refused: [(&[usize], &[isize]); 7] = [
            (&[3], &[2]),
            (&[3], &[-1]),
            (&[2, 3], &[1, 2]),   // transposed
            (&[2, 3], &[0, 1]),   // broadcast
            (&[2, 3], &[2, 1]),   // overlapping
            (&[2, 3], &[-10, 1]), // upside down
            (&[2, 3], &[10, 2]),  // every second column
        ];
        for (shape, strides) in refused {
            let error = strides_of_view(shape, strides).unwrap_err();
            assert!(error.to_string().contains("try"), "{shape:?} {strides:?}: {error}");
        }
    }
}
