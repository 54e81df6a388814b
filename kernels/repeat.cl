/* The end of an iteration of a loop that a device repeats by itself (CUDA only). `state` counts the iterations. The last
 * kernel of each iteration sets the condition of the graph's node: whether another iteration follows. */

#ifdef __HIP__
/* HIP's graphs have no such nodes, and nothing launches these kernels there. */
DEVICE void cudaGraphSetConditional(UINT64, unsigned) {}
#else
extern "C" __device__ void cudaGraphSetConditional(UINT64 handle, unsigned value);
#endif

#define OF_FLOATS 0
#define OF_INTEGERS 1
/* Compares two words that contain floats, integers, or unsigned integers. */
#define IS_ABOVE(kind, a, b)                                                                                           \
    ((kind) == OF_FLOATS     ? (a).number > (b).number                                                                 \
     : (kind) == OF_INTEGERS ? (a).integer > (b).integer                                                               \
                             : (a).bits > (b).bits)

DEVICE void end_iteration(GLOBAL UINT64 *state, UINT64 at_most, int is_above, UINT64 handle)
{
    *state += 1;
    cudaGraphSetConditional(handle, is_above && *state < at_most);
}

KERNEL(1, 1, 1) begin_loop(OUT(UINT64, state, 1))
{
    REGION(state);
    if (GLOBAL_ID(0) == 0) *state = 0;
}

KERNEL(1, 1, 1) repeat(INOUT(UINT64, state, 1), UINT64 at_most, UINT64 handle)
{
    REGION(state);
    if (GLOBAL_ID(0) == 0) end_iteration(state, at_most, 1, handle);
}

KERNEL(1, 1, 1) until_32(IN(unsigned, x, 1), INOUT(UINT64, state, 1), UINT64 at_most, unsigned bound, int kind,
                         UINT64 handle)
{
    REGION(x); REGION(state);
    union { unsigned bits; int integer; float number; } a, b;
    a.bits = *x;
    b.bits = bound;
    if (GLOBAL_ID(0) == 0) end_iteration(state, at_most, IS_ABOVE(kind, a, b), handle);
}

KERNEL(1, 1, 1) until_64(IN(UINT64, x, 1), INOUT(UINT64, state, 1), UINT64 at_most, UINT64 bound, int kind,
                         UINT64 handle)
{
    REGION(x); REGION(state);
    union { UINT64 bits; INT64 integer; double number; } a, b;
    a.bits = *x;
    b.bits = bound;
    if (GLOBAL_ID(0) == 0) end_iteration(state, at_most, IS_ABOVE(kind, a, b), handle);
}
