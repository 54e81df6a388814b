//! Transposition of square blocks of numbers.

use pulp::Simd;

use super::Lane;

/// Writes a transposed square of `K` components. Each point of the square has `fields` fields, and the components
/// are written to field `first` and the following fields. `rows_of` returns the lanes of a component at the
/// square's points.
#[inline(always)]
pub(crate) fn set_square<S: Simd, const N: usize, const K: usize>(
    simd: S,
    square: &mut [S::f64s],
    (first, fields): (usize, usize),
    rows_of: impl Fn(usize) -> [Lane<S>; N],
) {
    unroll!(K, |m| {
        let rows = rows_of(m);
        let columns: [S::f64s; N] = transpose(simd, tabulate!(|lane| rows[lane].value()));
        unroll!(N, |i| square[i * fields + first + m] = columns[i]);
    });
}

/// Returns the lanes of field `field` at the points of a square.
#[inline(always)]
pub(crate) fn get_square<S: Simd, const N: usize>(
    simd: S,
    square: &[S::f64s],
    (field, fields): (usize, usize),
) -> [Lane<S>; N] {
    let columns: [S::f64s; N] = tabulate!(|i| square[i * fields + field]);
    let rows = transpose(simd, columns);
    tabulate!(|lane| Lane::new(simd, rows[lane]))
}

/// Returns the columns of the square whose rows are the given vectors. The vectors have as many lanes as there are
/// rows: 4, or 8 with AVX-512.
///
/// Tracking the bits of the positions shows that the three steps for 8 lanes are correct. Let the element at row
/// (b2 b1 b0) and column (c2 c1 c0) be in vector (b2 b1 b0) at lane (c2 c1 c0). `deinterleave` maps four vectors v
/// = (v1 v0) with lanes (h m l) to vectors (m l) with lanes (v1 h v0), and two vectors v to vectors l with lanes (h
/// m v). So the first step, on vectors (b1 b0), gives vectors (b2 c1 c0) with lanes (b1 c2 b0). The second, on
/// vectors (b2 c0), gives vectors (c2 c1 b0) with lanes (b2 b1 c0). The third, on vectors b0, gives vectors (c2 c1
/// c0) with lanes (b2 b1 b0).
#[inline(always)]
fn transpose<S: Simd, const N: usize>(simd: S, rows: [S::f64s; N]) -> [S::f64s; N] {
    const { assert!(N == 4 || N == 8) };
    let [a, b, c, d] = simd.deinterleave_shfl_f64s([rows[0], rows[1], rows[2], rows[3]]);
    if N == 4 {
        return tabulate!(|i| [a, b, c, d][i]);
    }
    let [e, f, g, h] = simd.deinterleave_shfl_f64s([rows[4], rows[5], rows[6], rows[7]]);
    let [a, b, c, d, e, f, g, h] = {
        let [a, b, e, f] = simd.deinterleave_shfl_f64s([a, b, e, f]);
        let [c, d, g, h] = simd.deinterleave_shfl_f64s([c, d, g, h]);
        [a, b, c, d, e, f, g, h]
    };
    let pairs = [[a, b], [c, d], [e, f], [g, h]];
    let pairs: [[S::f64s; 2]; 4] = tabulate!(|i| simd.deinterleave_shfl_f64s(pairs[i]));
    tabulate!(|i| pairs[i / 2][i % 2])
}
