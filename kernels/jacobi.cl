/* Jacobi's method for Laplace's equation on a block of a square (counterpart: examples/jacobi/).
 *
 * A block has `rows` x `columns` points, x fastest, with rows `fresh_stride` numbers apart; `old` begins one row
 * and one column before it, with rows `old_stride` apart. Threads: columns, rows. Needs reduce.h. */

/* The mean of the neighbours of point (i, j) of the block. */
DEVICE double mean(GLOBAL const double *old, INT64 old_stride, int i, int j)
{
    GLOBAL const double *here = old + (i + 1) * old_stride + j + 1;
    return 0.25 * ((here[-old_stride] + here[old_stride]) + (here[-1] + here[1]));
}

/* fresh <- the mean of the neighbours in old */
KERNEL(32, 8, 1) relax(IN(double, old, [rows + 2 : old_stride][columns + 2]),
                       OUT(double, fresh, [rows : fresh_stride][columns]), int rows, int columns, INT64 old_stride,
                       INT64 fresh_stride)
{
    REGION(old); REGION(fresh);
    int i = GLOBAL_ID(1), j = GLOBAL_ID(0);
    if (i < rows && j < columns) fresh[i * fresh_stride + j] = mean(old, old_stride, i, j);
}

/* As relax; change[0] <- the larger of itself and the largest change of any point */
KERNEL(32, 8, 1) relax_and_measure(IN(double, old, [rows + 2 : old_stride][columns + 2]),
                                   OUT(double, fresh, [rows : fresh_stride][columns]), INOUT(double, change, 1),
                                   int rows, int columns, INT64 old_stride, INT64 fresh_stride)
{
    REGION(old); REGION(fresh); REGION(change);
    LOCAL(double, numbers, 256);
    int i = GLOBAL_ID(1), j = GLOBAL_ID(0), thread = LOCAL_ID(1) * 32 + LOCAL_ID(0);
    double moved = 0.0;
    if (i < rows && j < columns) {
        double value = mean(old, old_stride, i, j);
        fresh[i * fresh_stride + j] = value;
        moved = fabs(value - old[(i + 1) * old_stride + j + 1]);
    }
    double most = largest_of_threads(numbers, thread, 256, moved);
    if (thread == 0) ATOMIC_MAX(change, most);
}
