/* Sums and maxima over the threads of a group, by a tree in local memory.
 *
 * A header for kernels that reduce; it has none itself. The result of a group is then for one of its threads to put
 * into global memory with ATOMIC_ADD or ATOMIC_MAX, in whatever order groups end: so sums are rounded differently from
 * run to run. All threads of the group have to call these functions.
 *
 * `thread` is the thread's number within its group, `numbers` local memory for one number per thread. Each `count`
 * neighbours, a power of two, are reduced to one number, which the first of them gets; the others get part of it. */

DEVICE double sum_of_threads(SHARED double *numbers, int thread, int count, double value)
{
    numbers[thread] = value;
    BARRIER();
    for (int apart = count / 2; apart > 0; apart /= 2) {
        if (thread % count < apart) numbers[thread] += numbers[thread + apart];
        BARRIER();
    }
    return numbers[thread];
}

DEVICE double largest_of_threads(SHARED double *numbers, int thread, int count, double value)
{
    numbers[thread] = value;
    BARRIER();
    for (int apart = count / 2; apart > 0; apart /= 2) {
        if (thread % count < apart) numbers[thread] = LARGER(numbers[thread], numbers[thread + apart]);
        BARRIER();
    }
    return numbers[thread];
}
