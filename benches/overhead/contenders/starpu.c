/* StarPU: tasks with implicit dependences through data handles (sequential consistency).
 *
 * The scheduler comes from STARPU_SCHED and the number of workers from STARPU_NCPU, both set by the
 * bench. The submitting thread is not one of StarPU's workers: with two workers there are three
 * threads, and in `starpu_task_wait_for_all` the submitting one sleeps. */

#include "problem.h"

#include <starpu.h>

static void empty(void *buffers[], void *argument)
{
    (void)buffers, (void)argument;
    empty_body();
}

static void gate(void *buffers[], void *argument)
{
    (void)buffers, (void)argument;
    gate_body();
}

static struct starpu_codelet empty_codelet = {
    .cpu_funcs = {empty}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "empty"};
static struct starpu_codelet gate_codelet = {
    .cpu_funcs = {gate}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "gate"};

static starpu_data_handle_t *handles;

static void check(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
}

struct access {
    long datum;
    enum starpu_data_access_mode mode;
};

static void submit(struct starpu_codelet *codelet, int count, const struct access *accesses)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    task->nbuffers = count;
    for (int k = 0; k < count; k++) {
        task->handles[k] = handles[accesses[k].datum];
        task->modes[k] = accesses[k].mode;
    }
    check(starpu_task_submit(task), "starpu_task_submit");
}

static void submit_wavefront(long side)
{
    for (long i = 0; i < side; i++)
        for (long j = 0; j < side; j++) {
            long own = i * side + j;
            struct access accesses[3] = {{own, STARPU_W}};
            int count = 1;
            if (i > 0)
                accesses[count++] = (struct access){own - side, STARPU_R};
            if (j > 0)
                accesses[count++] = (struct access){own - 1, STARPU_R};
            submit(&empty_codelet, count, accesses);
        }
}

static void submit_memory(long tasks)
{
    submit(&gate_codelet, 1, &(struct access){0, STARPU_W});
    for (long k = 0; k < tasks; k++)
        submit(&empty_codelet, 1, &(struct access){0, STARPU_R});
}

static void pass(const struct problem *p)
{
    switch (p->shape) {
    case INDEPENDENT:
        for (long k = 0; k < p->tasks; k++)
            submit(&empty_codelet, 0, NULL);
        break;
    case INDEP1DEP:
        for (long k = 0; k < p->tasks; k++)
            submit(&empty_codelet, 1, &(struct access){k, STARPU_RW});
        break;
    case CHAIN:
        for (long k = 0; k < p->tasks; k++)
            submit(&empty_codelet, 1, &(struct access){0, STARPU_RW});
        break;
    case WAVEFRONT:
        submit_wavefront(p->side);
        break;
    case RANDOM:
        for (long k = 0; k < p->tasks; k++) {
            const struct draw d = p->draws[k];
            const struct access accesses[3] = {
                {d.first, STARPU_R}, {d.second, STARPU_R}, {d.written, STARPU_W}};
            submit(&empty_codelet, 3, accesses);
        }
        break;
    case MEMORY:
        submit_memory(p->tasks);
        return;
    case SHAPES:
        break;
    }
    check(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
}

int main(int argc, char **argv)
{
    struct problem p = problem_from(argc, argv);
    char *data = calloc((size_t)p.data, 1);
    handles = calloc((size_t)p.data, sizeof *handles);
    if (!data || !handles) {
        perror("data");
        return 1;
    }
    check(starpu_init(NULL), "starpu_init");
    for (long k = 0; k < p.data; k++)
        starpu_variable_data_register(&handles[k], STARPU_MAIN_RAM, (uintptr_t)&data[k], 1);
    measure(&p, pass);
    for (long k = 0; k < p.data; k++)
        starpu_data_unregister(handles[k]);
    starpu_shutdown();
    free(p.draws);
    free(handles);
    free(data);
    return 0;
}
