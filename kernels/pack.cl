/* Copies of boxes of up to four dimensions, between any two layouts. Gathering a box into contiguous memory,
 * scattering it from there, and moving it from one array to another are the same kernel with different strides.
 *
 * A box has n0 x n1 x n2 x n3 elements, the last index fastest; unused dimensions have extent 1. Element (a, b, c,
 * d) is at a s0 + b s1 + c s2 + d s3 of its array's region, with separate strides for `from` and `to`, counted in
 * elements. A contiguous box has the strides n1 n2 n3, n2 n3, n3, 1.
 *
 * Threads: n2 n3, n1, n0. The last two may be smaller, since threads advance by the number of groups: devices limit
 * them. The type of the elements does not matter, only their size: nothing is computed with them. */

#define COPY_BOX()                                                                                                     \
    int inner = GLOBAL_ID(0);                                                                                          \
    if (inner < n2 * n3) {                                                                                             \
        int c = inner / n3, d = inner % n3;                                                                            \
        for (INT64 a = GROUP_ID(2); a < n0; a += NUM_GROUPS(2)) {                                                      \
            for (INT64 b = GROUP_ID(1); b < n1; b += NUM_GROUPS(1)) {                                                  \
                to[a * to_s0 + b * to_s1 + c * to_s2 + d * to_s3] =                                                    \
                    from[a * from_s0 + b * from_s1 + c * from_s2 + d * from_s3];                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

/* For elements of 4 bytes. */
KERNEL(128, 1, 1) copy_box4(IN(float, from, [n0 : from_s0][n1 : from_s1][n2 : from_s2][n3 : from_s3]),
                            OUT(float, to, [n0 : to_s0][n1 : to_s1][n2 : to_s2][n3 : to_s3]), int n0, int n1, int n2,
                            int n3, INT64 from_s0, INT64 from_s1, INT64 from_s2, INT64 from_s3, INT64 to_s0,
                            INT64 to_s1, INT64 to_s2, INT64 to_s3)
{
    REGION(from); REGION(to);
    COPY_BOX()
}

/* For elements of 8 bytes. */
KERNEL(128, 1, 1) copy_box8(IN(double, from, [n0 : from_s0][n1 : from_s1][n2 : from_s2][n3 : from_s3]),
                            OUT(double, to, [n0 : to_s0][n1 : to_s1][n2 : to_s2][n3 : to_s3]), int n0, int n1, int n2,
                            int n3, INT64 from_s0, INT64 from_s1, INT64 from_s2, INT64 from_s3, INT64 to_s0,
                            INT64 to_s1, INT64 to_s2, INT64 to_s3)
{
    REGION(from); REGION(to);
    COPY_BOX()
}
