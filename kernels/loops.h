/* What kernels that `#[thalweg::target]` makes are written with, beside the dialect.
 *
 * The host defines how many threads a team has (TEAM_X, TEAM_Y, TEAM_Z), and
 * - ONCE_TEAMS, ONCE_X, ONCE_Y, ONCE_Z: 1 where there are as many teams, or threads, as iterations: then a loop is an `if`;
 * - CHECKED: 1 where it could not tell that all indices lead to elements. Then an element that is not there reads as 0,
 *   and nothing is stored to it. */

/* The number of a thread in its team, and how many there are. */
#define THREAD ((LOCAL_ID(2) * TEAM_Y + LOCAL_ID(1)) * TEAM_X + LOCAL_ID(0))
#define THREADS (TEAM_X * TEAM_Y * TEAM_Z)
#define FIRST_THREAD (THREAD == 0)

/* Iterations over teams, over the threads of all teams, and over a team's threads along each dimension: cyclic. A pair of
 * braces stands around each, since a head may be a declaration and an `if`. */
#define CYCLIC(at, first, end, own, all) for (INT64 at = (first) + (own); at < (end); at += (all))
#define AT_MOST_ONCE(at, first, end, own) INT64 at = (first) + (own); if (at < (end))
#if ONCE_TEAMS
#define DISTRIBUTE(at, first, end) AT_MOST_ONCE(at, first, end, GROUP_ID(0))
#define DISTRIBUTE_PARALLEL(at, first, end) AT_MOST_ONCE(at, first, end, GLOBAL_ID(0))
#else
#define DISTRIBUTE(at, first, end) CYCLIC(at, first, end, GROUP_ID(0), NUM_GROUPS(0))
#define DISTRIBUTE_PARALLEL(at, first, end) \
    CYCLIC(at, first, end, (INT64)GROUP_ID(0) * TEAM_X + LOCAL_ID(0), (INT64)NUM_GROUPS(0) * TEAM_X)
#endif
#if ONCE_X
#define PARALLEL_X(at, first, end) AT_MOST_ONCE(at, first, end, LOCAL_ID(0))
#else
#define PARALLEL_X(at, first, end) CYCLIC(at, first, end, LOCAL_ID(0), TEAM_X)
#endif
#if ONCE_Y
#define PARALLEL_Y(at, first, end) AT_MOST_ONCE(at, first, end, LOCAL_ID(1))
#else
#define PARALLEL_Y(at, first, end) CYCLIC(at, first, end, LOCAL_ID(1), TEAM_Y)
#endif
#if ONCE_Z
#define PARALLEL_Z(at, first, end) AT_MOST_ONCE(at, first, end, LOCAL_ID(2))
#else
#define PARALLEL_Z(at, first, end) CYCLIC(at, first, end, LOCAL_ID(2), TEAM_Z)
#endif

/* Elements of arrays: of one dimension and n elements, and of two and three, whose extents and strides are NAME_n0, NAME_s0
 * and so on. SAFE_ ones look at each index; the others leave that to the host. */
#define BELOW(i, n) ((UINT64)(i) < (UINT64)(n))
#define SAFE_LOAD(a, i, n) (BELOW(i, n) ? a[i] : 0)
#define SAFE_STORE(a, i, n, value) do { if (BELOW(i, n)) a[i] = (value); } while (0)
#define SAFE_LOAD2(a, i, j) (BELOW(i, a##_n0) && BELOW(j, a##_n1) ? a[(i) * a##_s0 + (j)] : 0)
#define SAFE_STORE2(a, i, j, value) \
    do { if (BELOW(i, a##_n0) && BELOW(j, a##_n1)) a[(i) * a##_s0 + (j)] = (value); } while (0)
#define SAFE_LOAD3(a, i, j, k) \
    (BELOW(i, a##_n0) && BELOW(j, a##_n1) && BELOW(k, a##_n2) ? a[(i) * a##_s0 + (j) * a##_s1 + (k)] : 0)
#define SAFE_STORE3(a, i, j, k, value) \
    do { \
        if (BELOW(i, a##_n0) && BELOW(j, a##_n1) && BELOW(k, a##_n2)) a[(i) * a##_s0 + (j) * a##_s1 + (k)] = (value); \
    } while (0)
/* A team's first thread stores for all. The condition is one, without `&&` or a second `if`: PoCL 3.1 drops the first of two
 * where barriers and a loop with barriers follow, and all threads store. All threads evaluate the indices, which read nothing
 * then. */
#if CHECKED
#define FIRST_STORE(a, i, n, value) do { if (FIRST_THREAD & BELOW(i, n)) a[i] = (value); } while (0)
#define FIRST_STORE2(a, i, j, value) \
    do { if (FIRST_THREAD & BELOW(i, a##_n0) & BELOW(j, a##_n1)) a[(i) * a##_s0 + (j)] = (value); } while (0)
#define FIRST_STORE3(a, i, j, k, value) \
    do { \
        if (FIRST_THREAD & BELOW(i, a##_n0) & BELOW(j, a##_n1) & BELOW(k, a##_n2)) \
            a[(i) * a##_s0 + (j) * a##_s1 + (k)] = (value); \
    } while (0)
#else
#define FIRST_STORE(a, i, n, value) do { if (FIRST_THREAD) a[i] = (value); } while (0)
#define FIRST_STORE2(a, i, j, value) do { if (FIRST_THREAD) a[(i) * a##_s0 + (j)] = (value); } while (0)
#define FIRST_STORE3(a, i, j, k, value) \
    do { if (FIRST_THREAD) a[(i) * a##_s0 + (j) * a##_s1 + (k)] = (value); } while (0)
#endif
#if CHECKED
#define LOAD(a, i, n) SAFE_LOAD(a, i, n)
#define STORE(a, i, n, value) SAFE_STORE(a, i, n, value)
#define LOAD2(a, i, j) SAFE_LOAD2(a, i, j)
#define STORE2(a, i, j, value) SAFE_STORE2(a, i, j, value)
#define LOAD3(a, i, j, k) SAFE_LOAD3(a, i, j, k)
#define STORE3(a, i, j, k, value) SAFE_STORE3(a, i, j, k, value)
#else
#define LOAD(a, i, n) a[i]
#define STORE(a, i, n, value) a[i] = (value)
#define LOAD2(a, i, j) a[(i) * a##_s0 + (j)]
#define STORE2(a, i, j, value) a[(i) * a##_s0 + (j)] = (value)
#define LOAD3(a, i, j, k) a[(i) * a##_s0 + (j) * a##_s1 + (k)]
#define STORE3(a, i, j, k, value) a[(i) * a##_s0 + (j) * a##_s1 + (k)] = (value)
#endif

/* Numbers. */
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define LARGEST(a, b) ((a) > (b) ? (a) : (b))
#define MAGNITUDE(a) ((a) < 0 ? -(a) : (a))
#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define LOWEST_i32 (-2147483647 - 1)
#define HIGHEST_i32 2147483647
#define LOWEST_u32 0u
#define HIGHEST_u32 4294967295u
#define LOWEST_i64 ((INT64)((UINT64)1 << 63))
#define HIGHEST_i64 ((INT64)(((UINT64)1 << 63) - 1))
#define LOWEST_u64 ((UINT64)0)
#define HIGHEST_u64 (~(UINT64)0)
#define LOWEST_f64 (-1.0 / 0.0)
#define HIGHEST_f64 (1.0 / 0.0)
#define LOWEST_f32 (-1.0f / 0.0f)
#define HIGHEST_f32 (1.0f / 0.0f)

/* value <- all threads' values combined, by a tree; the team has one dimension, of a power of two threads. */
#define REDUCE(lanes, value, COMBINE) \
    do { \
        lanes[LOCAL_ID(0)] = value; \
        BARRIER(); \
        for (int apart = TEAM_X / 2; apart > 0; apart /= 2) { \
            if (LOCAL_ID(0) < apart) lanes[LOCAL_ID(0)] = COMBINE(lanes[LOCAL_ID(0)], lanes[LOCAL_ID(0) + apart]); \
            BARRIER(); \
        } \
        value = lanes[0]; \
        BARRIER(); \
    } while (0)

/* value <- this thread's and all before it combined, before <- all before it; lanes holds the values. By Hillis and Steele's
 * steps; the team has one dimension. */
#define SCAN(lanes, value, before, COMBINE) \
    do { \
        lanes[LOCAL_ID(0)] = value; \
        BARRIER(); \
        for (int apart = 1; apart < TEAM_X; apart *= 2) { \
            if (LOCAL_ID(0) >= apart) value = COMBINE(lanes[LOCAL_ID(0) - apart], value); \
            BARRIER(); \
            lanes[LOCAL_ID(0)] = value; \
            BARRIER(); \
        } \
        if (LOCAL_ID(0) > 0) before = lanes[LOCAL_ID(0) - 1]; \
    } while (0)

/* Division as far as it has a result; 0 where Rust's panics. */
DEVICE int quotient_i32(int a, int b) { return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b; }
DEVICE int remainder_i32(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
DEVICE INT64 quotient_i64(INT64 a, INT64 b) { return b == 0 ? 0 : b == -1 ? (INT64)((UINT64)0 - (UINT64)a) : a / b; }
DEVICE INT64 remainder_i64(INT64 a, INT64 b) { return b == 0 || b == -1 ? 0 : a % b; }
DEVICE unsigned quotient_u32(unsigned a, unsigned b) { return b == 0 ? 0 : a / b; }
DEVICE unsigned remainder_u32(unsigned a, unsigned b) { return b == 0 ? 0 : a % b; }
DEVICE UINT64 quotient_u64(UINT64 a, UINT64 b) { return b == 0 ? 0 : a / b; }
DEVICE UINT64 remainder_u64(UINT64 a, UINT64 b) { return b == 0 ? 0 : a % b; }

/* From floating point to the nearest integer towards 0 that the type has, as Rust's `as`; 0 of what is no number. */
DEVICE int to_i32(double x) { return !(x == x) ? 0 : x <= -2147483648.0 ? LOWEST_i32 : x >= 2147483647.0 ? HIGHEST_i32 : (int)x; }
DEVICE unsigned to_u32(double x) { return !(x > 0.0) ? 0u : x >= 4294967295.0 ? HIGHEST_u32 : (unsigned)x; }
DEVICE INT64 to_i64(double x)
{
    return !(x == x) ? 0 : x <= -9223372036854775808.0 ? LOWEST_i64 : x >= 9223372036854775808.0 ? HIGHEST_i64 : (INT64)x;
}
DEVICE UINT64 to_u64(double x) { return !(x > 0.0) ? 0 : x >= 18446744073709551616.0 ? HIGHEST_u64 : (UINT64)x; }
