/* OpenMP tasks with `depend`: built with GCC this measures libgomp, with Clang libomp.
 *
 * The dependences are on a cell's `step`. A task has at most five inputs, so each number of inputs is a
 * separate case, which costs less than `depend(iterator(...))`. */

#include "grid.h"

#include <omp.h>

static void run(const struct grid *g, int t, int i, uint64_t iterations, uint64_t first_step)
{
    const struct inputs *inputs = &g->inputs[t * g->width + i];
    struct cell *in[MOST_INPUTS];
    for (int k = 0; k < inputs->count; k++)
        in[k] = cell_of(g, t - 1, inputs->point[k]);
    body(inputs, in, cell_of(g, t, i), first_step + (uint64_t)t, i, iterations);
}

#define PRAGMA(text) _Pragma(#text)
#define TASK(...)                                                                                      \
    PRAGMA(omp task firstprivate(g, t, i, iterations, first_step) __VA_ARGS__)                         \
    run(g, t, i, iterations, first_step)
#define IN(k) last[inputs->point[k]].step

static void submit(const struct grid *g, int t, int i, uint64_t iterations, uint64_t first_step)
{
    const struct inputs *inputs = &g->inputs[t * g->width + i];
    struct cell *last = t > 0 ? cell_of(g, t - 1, 0) : NULL, *own = cell_of(g, t, i);
    (void)last, (void)own;
    switch (inputs->count) {
    case 0:
        TASK(depend(out : own->step));
        break;
    case 1:
        TASK(depend(in : IN(0)) depend(out : own->step));
        break;
    case 2:
        TASK(depend(in : IN(0), IN(1)) depend(out : own->step));
        break;
    case 3:
        TASK(depend(in : IN(0), IN(1), IN(2)) depend(out : own->step));
        break;
    case 4:
        TASK(depend(in : IN(0), IN(1), IN(2), IN(3)) depend(out : own->step));
        break;
    default:
        TASK(depend(in : IN(0), IN(1), IN(2), IN(3), IN(4)) depend(out : own->step));
    }
}

static void pass(const struct grid *g, uint64_t iterations, uint64_t first_step)
{
    for (int t = 0; t < g->steps; t++)
        for (int i = 0; i < g->width; i++)
            submit(g, t, i, iterations, first_step);
#pragma omp taskwait
}

int main(int argc, char **argv)
{
    struct grid g = grid_from(argc, argv);
#pragma omp parallel
#pragma omp single
    sweep(&g, pass);
    grid_free(&g);
    return 0;
}
