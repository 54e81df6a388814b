/* Operations on contiguous vectors of n numbers, named after their counterparts in BLAS level 1, if there are any.
 *
 * Each kernel takes n threads. Kernels that reduce, or that must support long vectors, advance by the number of
 * threads, so they also work with fewer. Needs reduce.h. */

/* y <- a x + y */
KERNEL(256, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
{
    REGION(x); REGION(y);
    int i = GLOBAL_ID(0);
    if (i < n) y[i] += a * x[i];
}

/* y <- x + b y */
KERNEL(256, 1, 1) xpby(IN(double, x, n), double b, INOUT(double, y, n), int n)
{
    REGION(x); REGION(y);
    int i = GLOBAL_ID(0);
    if (i < n) y[i] = x[i] + b * y[i];
}

/* sum[0] <- sum[0] + x . y */
KERNEL(256, 1, 1) dot_product(IN(double, x, n), IN(double, y, n), INOUT(double, sum, 1), int n)
{
    REGION(x); REGION(y); REGION(sum);
    LOCAL(double, numbers, 256);
    double part = 0.0;
    for (INT64 i = GLOBAL_ID(0); i < n; i += 256 * NUM_GROUPS(0)) part += x[i] * y[i];
    part = sum_of_threads(numbers, LOCAL_ID(0), 256, part);
    if (LOCAL_ID(0) == 0) ATOMIC_ADD(sum, part);
}

/* y <- x */
KERNEL(256, 1, 1) copy(IN(double, x, n), OUT(double, y, n), int n)
{
    REGION(x); REGION(y);
    int i = GLOBAL_ID(0);
    if (i < n) y[i] = x[i];
}

/* x <- a */
KERNEL(256, 1, 1) fill(OUT(double, x, n), double a, int n)
{
    REGION(x);
    int i = GLOBAL_ID(0);
    if (i < n) x[i] = a;
}
