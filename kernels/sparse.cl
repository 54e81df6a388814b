/* The product of a sparse matrix in compressed rows with a vector. Needs csr.h and reduce.h. */

/* y <- A x for `rows` rows. Takes LANES threads per row. */
KERNEL(256, 1, 1) csr_product(IN(unsigned, offsets, rows + 1), IN(unsigned, columns, entries),
                              IN(double, values, entries), IN(double, x, width), OUT(double, y, rows), int rows,
                              int entries, int width)
{
    REGION(offsets); REGION(columns); REGION(values); REGION(x); REGION(y);
    LOCAL(double, numbers, 256);
    int row = GLOBAL_ID(0) / LANES, lane = GLOBAL_ID(0) % LANES;
    double part = row < rows ? part_of_row(offsets, columns, values, x, row, lane, entries, width) : 0.0;
    double product = sum_of_threads(numbers, LOCAL_ID(0), LANES, part);
    if (row < rows && lane == 0) y[row] = product;
}
