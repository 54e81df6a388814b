// Definitions that the CUDA form of the dialect needs on the host, where a kernel's function is called once for each
// thread of a group.
#include <math.h>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n)
#define __shared__ static thread_local

struct standin_triple { unsigned x, y, z; };
struct standin_place {
    standin_triple thread, group, threads, groups;
    void (*barrier)(), (*set_condition)(unsigned long long handle, unsigned value);
};
static thread_local standin_place standin_here;
extern "C" void *standin_where() { return &standin_here; }
#define threadIdx standin_here.thread
#define blockIdx standin_here.group
#define blockDim standin_here.threads
#define gridDim standin_here.groups
static inline void __syncthreads() { standin_here.barrier(); }
extern "C" void cudaGraphSetConditional(unsigned long long handle, unsigned value) { standin_here.set_condition(handle, value); }

static inline long long __double_as_longlong(double value) { long long bits; __builtin_memcpy(&bits, &value, 8); return bits; }
static inline double __longlong_as_double(long long bits) { double value; __builtin_memcpy(&value, &bits, 8); return value; }
static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected, unsigned long long desired)
{
    __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
static inline double atomicAdd(double *sum, double value)
{
    auto *bits = (unsigned long long *)sum;
    for (unsigned long long found = atomicCAS(bits, 0, 0), expected;;) {
        expected = found;
        found = atomicCAS(bits, expected, (unsigned long long)__double_as_longlong(__longlong_as_double(expected) + value));
        if (found == expected) return __longlong_as_double(found);
    }
}

// A kernel's arguments: a launch packs the arguments into whole words and receives their total size in bytes; each
// thread gets copies.
template <class T> static void standin_keep(void **&from, unsigned char *&to)
{
    __builtin_memcpy(to, *from++, sizeof(T));
    to += (sizeof(T) + 7) / 8 * 8;
}
template <class... P> static unsigned standin_pack(void (*)(P...), void **from, unsigned char *to)
{
    unsigned char *const begin = to;
    (standin_keep<P>(from, to), ...);
    return to - begin;
}
template <class T> static T standin_kept(const unsigned char *&from)
{
    T value;
    __builtin_memcpy(&value, from, sizeof(T));
    from += (sizeof(T) + 7) / 8 * 8;
    return value;
}
template <class... P> struct standin_call { template <class F> standin_call(F *f, P... values) { f(values...); } };
template <class... P> static void standin_apply(void (*kernel)(P...), const unsigned char *from)
{
    standin_call<P...>{kernel, standin_kept<P>(from)...}; // braces fix the order: from left to right
}
#define STANDIN_KERNEL(name)                                                                                         \
    extern "C" unsigned standin_pack_##name(void **from, unsigned char *to) { return standin_pack(name, from, to); } \
    extern "C" void standin_call_##name(const unsigned char *from) { standin_apply(name, from); }
