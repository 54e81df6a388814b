/* The C dialect in which all kernels are written. OpenCL C 1.2, CUDA C++ (NVRTC) and HIP (hipRTC) all compile it.
 *
 * The runtime puts this text in front of a program's texts. It contains no algorithms.
 *
 *     // y <- a x + y
 *     KERNEL(256, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
 *     {
 *         REGION(x); REGION(y);
 *         int i = GLOBAL_ID(0);
 *         if (i < n) y[i] += a * x[i];
 *     }
 *
 * A kernel's head consists of the following parts. The host parses it to check arguments.
 * - KERNEL(x, y, z): the size of a group, as three literal numbers, or macros that the program defines as such.
 * - IN(T, name, bounds), OUT(T, name, bounds), INOUT(T, name, bounds): a buffer. T is one of double, float, int,
 *   unsigned, INT64, UINT64. The bounds say which elements the kernel touches at most, starting at the region's
 *   first:
 *   n                             the first n,
 *   [planes][rows][columns]       a box without gaps; the last index is the fastest,
 *   [rows : stride][columns]      a box whose rows begin `stride` elements apart.
 *   Bounds consist of literals, the head's integers, the program's macros, +, -, * and brackets. The host computes
 *   them at each launch, and refuses the launch if one is negative or if the region lacks one of the elements.
 * - double, float, int, unsigned, INT64, UINT64 followed by a name: a number.
 *
 * A kernel may have the name of a function of OpenCL C (dot, step, ...), in which case it is renamed for OpenCL,
 * but not that of a C function (sqrt, ...). A DEVICE function may have neither, and a variable must not have the
 * name of an OpenCL type (half, uint, ...).
 *
 * A kernel must:
 * - name each buffer in a REGION, in the outermost scope. That declares it, at the first element of its task's
 *   access: an OpenCL buffer cannot be passed by a pointer into its middle;
 * - keep to the bounds that its head declares, whatever its integers and however many threads there are. Launches
 *   are rounded up to whole groups; an index read from a buffer has to be compared with one of the head's numbers;
 * - let every thread of a group reach each BARRIER, and so never return before one;
 * - declare LOCAL memory in the kernel's outermost scope;
 * - write GLOBAL or SHARED before the type of each pointer that a DEVICE function takes, unless it points to
 *   private memory.
 *
 * An IN buffer overlaps none that the same kernel writes; the rules for a task's accesses ensure that.
 * Sums of products are rounded after each operation, so that all interfaces agree, unless THALWEG_FMA is defined,
 * as it is for accelerators, and THALWEG_EXACT, which the program may define, is not. (NVIDIA's compiler has no
 * such switch for a text: it may fuse sums of products regardless.) */

#if defined(__OPENCL_VERSION__)

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
#if defined(THALWEG_EXACT) || !defined(THALWEG_FMA)
#pragma OPENCL FP_CONTRACT OFF
#endif

#define INT64 long
#define UINT64 ulong
#define KERNEL(x, y, z) __kernel __attribute__((reqd_work_group_size(x, y, z))) void
#define IN(T, name, bounds) __global const T *restrict name##_buffer, ulong name##_first
#define OUT(T, name, bounds) __global T *name##_buffer, ulong name##_first
#define INOUT(T, name, bounds) __global T *name##_buffer, ulong name##_first
#define REGION(name) __typeof__(name##_buffer) name = name##_buffer + name##_first
#define DEVICE static inline __attribute__((always_inline))
#define GLOBAL __global
#define SHARED __local
#define LOCAL(T, name, n) __local T name[n]
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define GLOBAL_ID(d) ((int)get_global_id(d))
#define LOCAL_ID(d) ((int)get_local_id(d))
#define GROUP_ID(d) ((int)get_group_id(d))
#define NUM_GROUPS(d) ((int)get_num_groups(d))
#define BITS_OF(value) as_ulong(value)
#define DOUBLE_OF(bits) as_double(bits)
#define COMPARE_EXCHANGE(bits, expected, desired) atom_cmpxchg(bits, expected, desired)

#else

#if defined(THALWEG_EXACT) && defined(__HIP__)
#pragma clang fp contract(off)
#endif

#define INT64 long long
#define UINT64 unsigned long long
#define KERNEL(x, y, z) extern "C" __global__ void __launch_bounds__((x) * (y) * (z))
#define IN(T, name, bounds) const T *__restrict__ name##_region
#define OUT(T, name, bounds) T *name##_region
#define INOUT(T, name, bounds) T *name##_region
#define REGION(name) auto name = name##_region
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define SHARED
#define LOCAL(T, name, n) __shared__ T name[n]
#define BARRIER() __syncthreads()
#define THALWEG_AXIS_0 x
#define THALWEG_AXIS_1 y
#define THALWEG_AXIS_2 z
#define THALWEG_AXIS(d) THALWEG_AXIS_##d
#define LOCAL_ID(d) ((int)threadIdx.THALWEG_AXIS(d))
#define GROUP_ID(d) ((int)blockIdx.THALWEG_AXIS(d))
#define NUM_GROUPS(d) ((int)gridDim.THALWEG_AXIS(d))
#define GLOBAL_ID(d) (GROUP_ID(d) * (int)blockDim.THALWEG_AXIS(d) + LOCAL_ID(d))
#define BITS_OF(value) ((unsigned long long)__double_as_longlong(value))
#define DOUBLE_OF(bits) __longlong_as_double((long long)(bits))
#define COMPARE_EXCHANGE(bits, expected, desired) atomicCAS(bits, expected, desired)

#endif

/* Precedes a loop over a constant range whose index selects among numbers that must stay in registers. */
#define UNROLL _Pragma("unroll")

/* *sum += value, as one atomic step with respect to all threads of all groups. OpenCL devices without 64-bit
 * atomics refuse kernels that use this or ATOMIC_MAX, and no others. */
#if defined(__OPENCL_VERSION__) && !defined(cl_khr_int64_base_atomics)
#define ATOMIC_ADD(sum, value) this_device_lacks_cl_khr_int64_base_atomics(sum, value)
#elif defined(__OPENCL_VERSION__)
DEVICE void thalweg_atomic_add(GLOBAL double *sum, double value)
{
    GLOBAL UINT64 *bits = (GLOBAL UINT64 *)sum;
    UINT64 found = COMPARE_EXCHANGE(bits, 0, 0), expected;
    do {
        expected = found;
        found = COMPARE_EXCHANGE(bits, expected, BITS_OF(DOUBLE_OF(expected) + value));
    } while (found != expected);
}
#define ATOMIC_ADD(sum, value) thalweg_atomic_add(sum, value)
#else
#define ATOMIC_ADD(sum, value) ((void)atomicAdd(sum, value))
#endif

/* The larger of two doubles as in the reduction `Max` on cores, in any order: a NaN is above every number, and 0.0
 * is above -0.0. `fmax` drops a NaN, so a maximum over values that include a NaN would look valid. */
#define LARGER(a, b) \
    ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) == (b) ? DOUBLE_OF(BITS_OF(a) & BITS_OF(b)) : (a) > (b) ? (a) : (b))

#if defined(__OPENCL_VERSION__) && !defined(cl_khr_int64_base_atomics)
#define ATOMIC_MAX(most, value) this_device_lacks_cl_khr_int64_base_atomics(most, value)
#else
/* *most = LARGER of *most and value, as one atomic step. The first read is an exchange, too: a plain read would
 * race with other threads' exchanges. */
DEVICE void thalweg_atomic_max(GLOBAL double *most, double value)
{
    GLOBAL UINT64 *bits = (GLOBAL UINT64 *)most;
    UINT64 found = COMPARE_EXCHANGE(bits, 0, 0), expected;
    do {
        expected = found;
        found = COMPARE_EXCHANGE(bits, expected, BITS_OF(LARGER(DOUBLE_OF(expected), value)));
    } while (found != expected);
}

#define ATOMIC_MAX(most, value) thalweg_atomic_max(most, value)
#endif
