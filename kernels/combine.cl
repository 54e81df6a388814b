/* The device's part of a reduction: a contribution begins as the operation's identity, and is combined with its region.
 *
 * A contribution is contiguous: n = n0 n1 n2 n3 elements. Its region has the same extents; its indices are s0 to s3
 * elements apart, and its last element is the one before `span`. Any number of threads will do.
 *
 * Extremes are found by comparing bits as integers, because the result has to be that of the host: -0.0 is less than
 * 0.0, and a NaN replaces every number. */

#define EACH(i) for (INT64 i = GLOBAL_ID(0); i < n; i += 256 * (INT64)NUM_GROUPS(0))
#define PLACE(i) place(i, n1, n2, n3, s0, s1, s2, s3)

DEVICE INT64 place(INT64 i, INT64 n1, INT64 n2, INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3)
{
    INT64 rows = i / n3, planes = rows / n2;
    return planes / n1 * s0 + planes % n1 * s1 + rows % n2 * s2 + i % n3 * s3;
}

/* Whether these bits are above the others; NaNs, whose magnitude exceeds that of infinity, are above all numbers if
 * the largest is sought, and below them otherwise. */
DEVICE int replaces_32(int a, int b, int largest)
{
    int a_is_nan = (a & 0x7fffffff) > 0x7f800000, b_is_nan = (b & 0x7fffffff) > 0x7f800000;
    if (a_is_nan != b_is_nan) return a_is_nan;
    a ^= (int)((unsigned)(a >> 31) >> 1);
    b ^= (int)((unsigned)(b >> 31) >> 1);
    return largest ? a > b : a < b;
}

DEVICE int replaces_64(INT64 a, INT64 b, int largest)
{
    INT64 rest = 0x7fffffffffffffff, infinity = 0x7ff0000000000000;
    int a_is_nan = (a & rest) > infinity, b_is_nan = (b & rest) > infinity;
    if (a_is_nan != b_is_nan) return a_is_nan;
    a ^= (INT64)((UINT64)(a >> 63) >> 1);
    b ^= (INT64)((UINT64)(b >> 63) >> 1);
    return largest ? a > b : a < b;
}

KERNEL(256, 1, 1) begin_32(OUT(unsigned, part, n), unsigned identity, INT64 n)
{
    REGION(part);
    EACH(i) part[i] = identity;
}

KERNEL(256, 1, 1) begin_64(OUT(UINT64, part, n), UINT64 identity, INT64 n)
{
    REGION(part);
    EACH(i) part[i] = identity;
}

KERNEL(256, 1, 1) sum_double(IN(double, part, n), INOUT(double, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                             INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3)
{
    REGION(part); REGION(whole);
    EACH(i) whole[PLACE(i)] += part[i];
}

KERNEL(256, 1, 1) sum_float(IN(float, part, n), INOUT(float, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                            INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3)
{
    REGION(part); REGION(whole);
    EACH(i) whole[PLACE(i)] += part[i];
}

KERNEL(256, 1, 1) sum_32(IN(unsigned, part, n), INOUT(unsigned, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                         INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3)
{
    REGION(part); REGION(whole);
    EACH(i) whole[PLACE(i)] += part[i];
}

KERNEL(256, 1, 1) sum_64(IN(UINT64, part, n), INOUT(UINT64, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                         INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3)
{
    REGION(part); REGION(whole);
    EACH(i) whole[PLACE(i)] += part[i];
}

KERNEL(256, 1, 1) extreme_double(IN(INT64, part, n), INOUT(INT64, whole, span), INT64 n, INT64 span, INT64 n1,
                                 INT64 n2, INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (replaces_64(part[i], whole[PLACE(i)], largest)) whole[PLACE(i)] = part[i];
}

KERNEL(256, 1, 1) extreme_float(IN(int, part, n), INOUT(int, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                                INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (replaces_32(part[i], whole[PLACE(i)], largest)) whole[PLACE(i)] = part[i];
}

KERNEL(256, 1, 1) extreme_int(IN(int, part, n), INOUT(int, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                              INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (largest ? part[i] > whole[PLACE(i)] : part[i] < whole[PLACE(i)]) whole[PLACE(i)] = part[i];
}

KERNEL(256, 1, 1) extreme_unsigned(IN(unsigned, part, n), INOUT(unsigned, whole, span), INT64 n, INT64 span, INT64 n1,
                                   INT64 n2, INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (largest ? part[i] > whole[PLACE(i)] : part[i] < whole[PLACE(i)]) whole[PLACE(i)] = part[i];
}

KERNEL(256, 1, 1) extreme_int64(IN(INT64, part, n), INOUT(INT64, whole, span), INT64 n, INT64 span, INT64 n1, INT64 n2,
                                INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (largest ? part[i] > whole[PLACE(i)] : part[i] < whole[PLACE(i)]) whole[PLACE(i)] = part[i];
}

KERNEL(256, 1, 1) extreme_uint64(IN(UINT64, part, n), INOUT(UINT64, whole, span), INT64 n, INT64 span, INT64 n1,
                                 INT64 n2, INT64 n3, INT64 s0, INT64 s1, INT64 s2, INT64 s3, int largest)
{
    REGION(part); REGION(whole);
    EACH(i) if (largest ? part[i] > whole[PLACE(i)] : part[i] < whole[PLACE(i)]) whole[PLACE(i)] = part[i];
}
