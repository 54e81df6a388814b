/* Shared parts of the contenders in C: the patterns, the kernel, the cells and their check, the sweep.
 *
 * `PROGRAM list PATTERN WIDTH STEPS` prints the inputs of every task;
 * `PROGRAM PATTERN WIDTH STEPS FIELDS WORKERS PEAK` sweeps over kernel sizes and prints the times. The number
 * of workers reaches the runtimes through their own environment variables, set by the bench.
 * `patterns.rs`, `kernel.rs` and `efficiency.rs` define the same and give the sources; the bench
 * compares the patterns of both at its start. */

#ifndef GRID_H
#define GRID_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum pattern { STENCIL_1D, NEAREST, FFT, SPREAD, RANDOM_NEAREST, PATTERNS };

static const char *const pattern_names[PATTERNS] = {"stencil_1d", "nearest", "fft", "spread",
                                                    "random_nearest"};

enum { MOST_INPUTS = 5, PERIOD = 3, REACH = MOST_INPUTS / 2, CHAINS = 4 };

struct inputs {
    int count;
    int point[MOST_INPUTS];
};

/* The output of a task; `step` counts over all passes. Each cell has its own cache line. */
struct cell {
    _Alignas(64) uint64_t step;
    uint64_t point;
    double value;
};

struct grid {
    enum pattern pattern;
    int width, steps, fields;
    struct inputs *inputs; /* of task (t, i) at t * width + i */
    struct cell *cells;    /* see cell_of */
    double peak;           /* operations per second */
};

/* The cell that task (t, i) writes and tasks of step t + 1 read: a row of cells for each of `fields`
 * steps, used in turn. */
static inline int cell_index(const struct grid *g, int t, int i)
{
    return t % g->fields * g->width + i;
}

static inline struct cell *cell_of(const struct grid *g, int t, int i)
{
    return &g->cells[cell_index(g, t, i)];
}

static void add(struct inputs *in, int width, int point)
{
    if (point < 0 || point >= width)
        return;
    for (int k = 0; k < in->count; k++)
        if (in->point[k] == point)
            return;
    in->point[in->count++] = point;
}

static int connected(int phase, int from, int to)
{
    uint64_t hash = (uint64_t)phase << 40 | (uint64_t)from << 20 | (uint64_t)to;
    hash += UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return (hash ^ hash >> 31) >> 62 == 0;
}

static struct inputs inputs_of(enum pattern pattern, int width, int step, int i)
{
    struct inputs in = {0};
    if (step == 0)
        return in;
    int phase = step % PERIOD;
    switch (pattern) {
    case STENCIL_1D:
        for (int j = i - 1; j <= i + 1; j++)
            add(&in, width, j);
        break;
    case NEAREST:
        for (int j = i - REACH; j <= i + REACH; j++)
            add(&in, width, j);
        break;
    case FFT: {
        int stages = 0;
        while (1 << stages < width)
            stages++;
        int distance = 1 << ((step - 1) % (stages ? stages : 1));
        add(&in, width, i - distance);
        add(&in, width, i);
        add(&in, width, i + distance);
        break;
    }
    case SPREAD:
        for (int k = 0; k < MOST_INPUTS; k++)
            add(&in, width, (i + k * width / MOST_INPUTS + (k > 0 ? phase : 0)) % width);
        break;
    case RANDOM_NEAREST:
        for (int j = i - REACH; j <= i + REACH; j++)
            if (j == i || (j >= 0 && connected(phase, j, i)))
                add(&in, width, j);
        break;
    case PATTERNS:
        break;
    }
    return in;
}

static void *allocated(void *memory)
{
    if (!memory) {
        perror("grid");
        exit(1);
    }
    return memory;
}

static void list_inputs(const struct grid *g)
{
    for (int t = 0; t < g->steps; t++)
        for (int i = 0; i < g->width; i++) {
            const struct inputs *in = &g->inputs[t * g->width + i];
            printf("%d %d:", t, i);
            for (int k = 0; k < in->count; k++)
                printf(" %d", in->point[k]);
            printf("\n");
        }
}

/* Reads the grid; or lists its inputs and exits; or prints the usage and exits. */
static struct grid grid_from(int argc, char **argv)
{
    int list = argc == 5 && !strcmp(argv[1], "list");
    struct grid g = {.pattern = PATTERNS};
    if (list || argc == 7) {
        char **words = list ? argv + 2 : argv + 1;
        for (int p = 0; p < PATTERNS; p++)
            if (!strcmp(words[0], pattern_names[p]))
                g.pattern = (enum pattern)p;
        g.width = atoi(words[1]);
        g.steps = atoi(words[2]);
        g.fields = list ? 2 : atoi(words[3]);
        g.peak = list ? 1 : atof(words[5]);
    }
    if (g.pattern == PATTERNS || g.width < 1 || g.steps < 1 || g.fields < 2 || g.peak <= 0) {
        fprintf(stderr, "usage: %s [list] PATTERN WIDTH STEPS [FIELDS WORKERS PEAK]\n", argv[0]);
        exit(2);
    }
    size_t width = (size_t)g.width;
    g.inputs = allocated(malloc((size_t)g.steps * width * sizeof *g.inputs));
    for (int t = 0; t < g.steps; t++)
        for (int i = 0; i < g.width; i++)
            g.inputs[t * g.width + i] = inputs_of(g.pattern, g.width, t, i);
    size_t bytes = (size_t)g.fields * width * sizeof(struct cell);
    g.cells = memset(allocated(aligned_alloc(64, bytes)), 0, bytes);
    if (list) {
        list_inputs(&g);
        exit(0);
    }
    return g;
}

static void grid_free(struct grid *g)
{
    free(g->inputs);
    free(g->cells);
}

static __attribute__((noinline)) double kernel(uint64_t iterations)
{
    double chain[CHAINS], sum = 0;
    for (int c = 0; c < CHAINS; c++)
        chain[c] = c;
    for (uint64_t n = 0; n < iterations; n++)
        for (int c = 0; c < CHAINS; c++)
            chain[c] = chain[c] * 0.999 + 0.001;
    for (int c = 0; c < CHAINS; c++)
        sum += chain[c];
    return sum;
}

static void check_cell(const struct cell *cell, uint64_t step, int point)
{
    if (cell->step == step && cell->point == (uint64_t)point)
        return;
    fprintf(stderr, "found the cell of (%llu, %llu) for (%llu, %d)\n",
            (unsigned long long)cell->step, (unsigned long long)cell->point,
            (unsigned long long)step, point);
    abort();
}

/* The body of every task: `in` are the cells of its inputs, in the pattern's order. */
static void body(const struct inputs *inputs, struct cell *const *in, struct cell *own, uint64_t step,
                 int point, uint64_t iterations)
{
    for (int k = 0; k < inputs->count; k++)
        check_cell(in[k], step - 1, inputs->point[k]);
    own->step = step;
    own->point = (uint64_t)point;
    own->value = kernel(iterations);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The first step whose cells no later step writes. */
static int last_steps(const struct grid *g)
{
    return g->steps > g->fields ? g->steps - g->fields : 0;
}

/* The sweep, the same for all contenders: kernels grow by a factor of two until 60% of the peak is
 * reached; the faster of two passes over the grid counts. `pass` submits all tasks and waits. */
static void sweep(const struct grid *g,
                  void (*pass)(const struct grid *, uint64_t iterations, uint64_t first_step))
{
    const double tasks = (double)g->width * g->steps;
    uint64_t first_step = (uint64_t)g->steps;
    printf("{\"tasks\": %.0f, \"samples\": [", tasks);
    for (uint64_t iterations = 4; iterations <= UINT64_C(1) << 17; iterations *= 2) {
        double fastest = 0;
        for (int p = 0; p < 2; p++) {
            double start = seconds();
            pass(g, iterations, first_step);
            double elapsed = seconds() - start;
            if (p == 0 || elapsed < fastest)
                fastest = elapsed;
            for (int t = last_steps(g); t < g->steps; t++)
                for (int i = 0; i < g->width; i++)
                    check_cell(cell_of(g, t, i), first_step + (uint64_t)t, i);
            first_step += (uint64_t)g->steps;
        }
        printf("%s{\"iterations\": %llu, \"seconds\": %.9f}", iterations > 4 ? ", " : "",
               (unsigned long long)iterations, fastest);
        if (2.0 * CHAINS * (double)iterations * tasks / fastest >= 0.6 * g->peak)
            break;
    }
    printf("]}\n");
}

#endif
