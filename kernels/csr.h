/* One row of a sparse matrix times a vector. The matrix is stored in compressed rows: the values and columns of row i
 * are those from offsets[i] - offsets[0] on, up to offsets[i + 1] - offsets[0]; so a block of rows may be given by its
 * part of a larger matrix's arrays. Offsets and columns that lead out of these arrays or of the vector are not followed:
 * there are `entries` values and columns, and `width` numbers in the vector.
 *
 * Rows are taken by LANES neighbouring threads each, so that these read neighbouring values; the host says how many, a
 * power of two up to the size of a group. */

#ifndef LANES
#error "LANES has to be defined"
#endif

/* One lane's part of the product of row `row`; all lanes' parts together are the product. */
DEVICE double part_of_row(GLOBAL const unsigned *offsets, GLOBAL const unsigned *columns, GLOBAL const double *values,
                          GLOBAL const double *x, int row, int lane, unsigned entries, unsigned width)
{
    unsigned first = offsets[0], end = offsets[row + 1] - first;
    double part = 0.0;
    if (end > entries) end = entries;
    for (unsigned entry = offsets[row] - first + lane; entry < end; entry += LANES) {
        unsigned column = columns[entry];
        if (column < width) part += values[entry] * x[column];
    }
    return part;
}
