/* OpenMP tasks with `depend`: built with GCC this measures libgomp, with Clang libomp.
 *
 * One thread of the team submits inside `single`. The others execute from the end of the region on, and
 * the submitting thread joins them in `taskwait`. Dependences are on elements of `data`, one byte each.
 *
 * Three properties of the runtimes matter for the figures. libgomp runs a ready task at once in the
 * submitting thread when more than 64 tasks per thread are ready. Its tasks walk the list of pending
 * readers of an element, so a million readers in `memory` would take hours. libomp runs each task at
 * once in a team of one and tracks no dependences. `contenders/mod.rs` leaves the last two cases out. */
#include "problem.h"

#include <omp.h>

static char *data;

static void submit_wavefront(long side)
{
    for (long i = 0; i < side; i++)
        for (long j = 0; j < side; j++) {
            char *own = &data[i * side + j], *up = own - side, *left = own - 1;
            (void)own, (void)up, (void)left;
            if (i > 0 && j > 0) {
#pragma omp task depend(in : *up, *left) depend(out : *own)
                empty_body();
            } else if (i > 0) {
#pragma omp task depend(in : *up) depend(out : *own)
                empty_body();
            } else if (j > 0) {
#pragma omp task depend(in : *left) depend(out : *own)
                empty_body();
            } else {
#pragma omp task depend(out : *own)
                empty_body();
            }
        }
}

static void submit_memory(long tasks)
{
#pragma omp task depend(out : data[0])
    gate_body();
    for (long k = 0; k < tasks; k++) {
#pragma omp task depend(in : data[0])
        empty_body();
    }
}

static void pass(const struct problem *p)
{
    switch (p->shape) {
    case INDEPENDENT:
        for (long k = 0; k < p->tasks; k++) {
#pragma omp task
            empty_body();
        }
        break;
    case INDEP1DEP:
        for (long k = 0; k < p->tasks; k++) {
#pragma omp task depend(inout : data[k])
            empty_body();
        }
        break;
    case CHAIN:
        for (long k = 0; k < p->tasks; k++) {
#pragma omp task depend(inout : data[0])
            empty_body();
        }
        break;
    case WAVEFRONT:
        submit_wavefront(p->side);
        break;
    case RANDOM:
        for (long k = 0; k < p->tasks; k++) {
            const struct draw d = p->draws[k];
#pragma omp task depend(in : data[d.first], data[d.second]) depend(out : data[d.written])
            empty_body();
        }
        break;
    case MEMORY:
        submit_memory(p->tasks);
        return;
    case SHAPES:
        break;
    }
#pragma omp taskwait
}

int main(int argc, char **argv)
{
    struct problem p = problem_from(argc, argv);
    data = calloc((size_t)p.data, 1);
    if (!data) {
        perror("data");
        return 1;
    }
#pragma omp parallel
#pragma omp single
    measure(&p, pass);
    free(p.draws);
    free(data);
    return 0;
}
