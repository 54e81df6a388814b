/* StarPU: a handle for each cell, dependences from the order of submission.
 *
 * The scheduler comes from STARPU_SCHED and the number of workers from STARPU_NCPU, both set by the
 * bench. The submitting thread is not one of StarPU's workers. */

#include "grid.h"

#include <starpu.h>

static const struct grid *grid;
static starpu_data_handle_t *handles;
static uint64_t pass_iterations, pass_first_step; /* constant while a pass runs */

static void run(void *buffers[], void *argument)
{
    /* The argument is the task's number itself, so that it needs no memory. */
    int number = (int)(intptr_t)argument;
    int t = number / grid->width, i = number % grid->width;
    const struct inputs *inputs = &grid->inputs[number];
    struct cell *in[MOST_INPUTS];
    for (int k = 0; k < inputs->count; k++)
        in[k] = (struct cell *)STARPU_VARIABLE_GET_PTR(buffers[1 + k]);
    body(inputs, in, (struct cell *)STARPU_VARIABLE_GET_PTR(buffers[0]), pass_first_step + (uint64_t)t,
         i, pass_iterations);
}

static struct starpu_codelet codelet = {
    .cpu_funcs = {run}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "cell"};

static void check(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
}

static void submit(int t, int i)
{
    const struct inputs *inputs = &grid->inputs[t * grid->width + i];
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet;
    task->cl_arg = (void *)(intptr_t)(t * grid->width + i);
    task->nbuffers = 1 + inputs->count;
    task->handles[0] = handles[cell_index(grid, t, i)];
    task->modes[0] = STARPU_W;
    for (int k = 0; k < inputs->count; k++) {
        task->handles[1 + k] = handles[cell_index(grid, t - 1, inputs->point[k])];
        task->modes[1 + k] = STARPU_R;
    }
    check(starpu_task_submit(task), "starpu_task_submit");
}

static void pass(const struct grid *g, uint64_t iterations, uint64_t first_step)
{
    pass_iterations = iterations;
    pass_first_step = first_step;
    for (int t = 0; t < g->steps; t++)
        for (int i = 0; i < g->width; i++)
            submit(t, i);
    check(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
}

int main(int argc, char **argv)
{
    struct grid g = grid_from(argc, argv);
    grid = &g;
    check(starpu_init(NULL), "starpu_init");
    int cells = g.fields * g.width;
    handles = allocated(malloc((size_t)cells * sizeof *handles));
    for (int c = 0; c < cells; c++)
        starpu_variable_data_register(&handles[c], STARPU_MAIN_RAM, (uintptr_t)&g.cells[c],
                                      sizeof(struct cell));
    sweep(&g, pass);
    for (int c = 0; c < cells; c++)
        starpu_data_unregister(handles[c]);
    free(handles);
    starpu_shutdown();
    grid_free(&g);
    return 0;
}
