/* Sums and maxima over the threads of a group, by a tree in local memory.
 *
 * A header for kernels that reduce; it contains no kernels. One of the group's threads then adds the result to
 * global memory with ATOMIC_ADD or ATOMIC_MAX, in the order in which groups end, so the rounding of sums varies
 * from run to run. All threads of the group must call these functions.
 *
 * `thread` is the thread's number within its group, `numbers` is local memory for one number per thread. Each
 * `count` neighbours, a power of two, are reduced to one number, which the first of them gets; the others get
 * partial results. */

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
