/* Shared parts of the contenders in C: the problem read from the command line, its random draws, the
 * clock, the resident memory, and the answer.
 *
 * `PROGRAM list TASKS` prints the draws; `PROGRAM PROBLEM TASKS WORKERS PASSES` measures. The number
 * of workers reaches the runtimes through their own environment variables, set by the bench.
 * `problems.rs` defines the same problems; the bench compares the draws of both at its start. */

#ifndef PROBLEM_H
#define PROBLEM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum shape { INDEPENDENT, INDEP1DEP, CHAIN, WAVEFRONT, RANDOM, MEMORY, SHAPES };

static const char *const shape_names[SHAPES] = {"independent", "indep1dep", "chain",
                                                "wavefront",   "random",    "memory"};

enum { RANDOM_DATA = 1024 };

/* Two data objects to read and one to write, all different. */
struct draw {
    int first, second, written;
};

struct problem {
    enum shape shape;
    long tasks;
    long side; /* of the wavefront's square: side * side == tasks */
    long data; /* number of distinct data objects that the tasks name */
    int passes;
    struct draw *draws;
};

static int draw_below(uint64_t *state, int bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((*state >> 33) % (uint64_t)bound);
}

static struct draw *random_draws(long tasks)
{
    struct draw *draws = malloc((size_t)tasks * sizeof *draws);
    if (!draws) {
        perror("draws");
        exit(1);
    }
    uint64_t state = 20260101;
    for (long k = 0; k < tasks; k++) {
        struct draw *d = &draws[k];
        d->first = draw_below(&state, RANDOM_DATA);
        do
            d->second = draw_below(&state, RANDOM_DATA);
        while (d->second == d->first);
        do
            d->written = draw_below(&state, RANDOM_DATA);
        while (d->written == d->first || d->written == d->second);
    }
    return draws;
}

static void list_draws(long tasks)
{
    struct draw *draws = random_draws(tasks);
    for (long k = 0; k < tasks; k++)
        printf("%d %d %d\n", draws[k].first, draws[k].second, draws[k].written);
    free(draws);
}

static long isqrt_of_square(long square)
{
    long side = 0;
    while (side * side < square)
        side++;
    return side;
}

/* Reads the problem; or lists the draws and exits; or prints the usage and exits. */
static struct problem problem_from(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "list")) {
        list_draws(atol(argv[2]));
        exit(0);
    }
    struct problem p = {.shape = SHAPES};
    if (argc == 5) {
        p.tasks = atol(argv[2]);
        p.passes = atoi(argv[4]);
        for (int s = 0; s < SHAPES; s++)
            if (!strcmp(argv[1], shape_names[s]))
                p.shape = (enum shape)s;
    }
    if (p.shape == SHAPES || p.tasks < 1 || p.passes < 1) {
        fprintf(stderr, "usage: %s PROBLEM TASKS WORKERS PASSES | list TASKS\n", argv[0]);
        exit(2);
    }
    switch (p.shape) {
    case INDEP1DEP:
        p.data = p.tasks;
        break;
    case WAVEFRONT:
        p.side = isqrt_of_square(p.tasks);
        p.data = p.tasks;
        break;
    case RANDOM:
        p.draws = random_draws(p.tasks);
        p.data = RANDOM_DATA;
        break;
    default:
        p.data = 1;
    }
    return p;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes of this process in physical memory; negative if /proc does not report them. */
static double resident_bytes(void)
{
    long pages = 0, resident = -1;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm) {
        if (fscanf(statm, "%ld %ld", &pages, &resident) != 2)
            resident = -1;
        fclose(statm);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* The body of all tasks except the gate. The empty assembly keeps compilers from removing the task. */
static inline void empty_body(void)
{
    __asm__ volatile("");
}

/* The body of the gate of `memory`: it holds back the tasks after it until the process ends. */
static void gate_body(void)
{
    for (;;)
        pause();
}

static void answer(long tasks, double elapsed, double growth)
{
    printf("{\"tasks\": %ld, \"ns_per_task\": %.3f, \"bytes_per_task\": ", tasks,
           elapsed * 1e9 / (double)tasks);
    if (growth > 0)
        printf("%.1f}\n", growth / (double)tasks);
    else
        printf("null}\n");
    fflush(stdout);
}

/* The measurement, the same for all contenders: `pass` submits all tasks and waits for them; after one pass
 * to warm up, the fastest counts. In `memory` it only submits, once, in a fresh process, which then ends
 * with its tasks pending. */
static void measure(const struct problem *p, void (*pass)(const struct problem *))
{
    if (p->shape == MEMORY) {
        double before = resident_bytes(), start = seconds();
        pass(p);
        double elapsed = seconds() - start;
        answer(p->tasks, elapsed, resident_bytes() - before);
        _exit(0);
    }
    pass(p);
    double least = 0;
    for (int k = 0; k < p->passes; k++) {
        double start = seconds();
        pass(p);
        double elapsed = seconds() - start;
        if (k == 0 || elapsed < least)
            least = elapsed;
    }
    answer(p->tasks, least, 0);
}

#endif
