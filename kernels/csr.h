/* One row of a sparse matrix times a vector. The matrix is stored in compressed rows: the values and columns of row
 * i are those from offsets[i] - offsets[0] up to offsets[i + 1] - offsets[0]. So a block of rows may be given by
 * its part of a larger matrix's arrays. Offsets and columns outside of these arrays or of the vector are ignored:
 * there are `entries` values and columns, and `width` numbers in the vector.
 *
 * LANES neighbouring threads process a row together, so that they read neighbouring values. The host defines LANES,
 * a power of two up to the size of a group. */

#ifndef LANES
#error "LANES has to be defined"
#endif

/* One lane's part of the product of row `row`. The sum of all lanes' parts is the product. */
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
