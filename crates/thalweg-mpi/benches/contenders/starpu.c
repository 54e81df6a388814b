/* StarPU-MPI, for two ranks: `starpu cholesky SIZE TILE` or `starpu ping ROUNDS`. Rank 0 prints seconds and a check.
 *
 * Both ranks insert all tasks; StarPU-MPI infers the messages. Tiles have the same owners as for the other contenders.
 * The environment sets one worker per rank. */

#include "kernels.h"

#include <starpu_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;
static long tile;

static double *buffer(void *buffers[], int at)
{
    return (double *)STARPU_VECTOR_GET_PTR(buffers[at]);
}

static void run_potrf(void *buffers[], void *argument)
{
    (void)argument;
    potrf(buffer(buffers, 0), tile);
}

static void run_trsm(void *buffers[], void *argument)
{
    (void)argument;
    trsm(buffer(buffers, 0), buffer(buffers, 1), tile);
}

static void run_gemm(void *buffers[], void *argument)
{
    (void)argument;
    gemm(buffer(buffers, 0), buffer(buffers, 1), buffer(buffers, 2), tile);
}

static void run_syrk(void *buffers[], void *argument)
{
    (void)argument;
    gemm(buffer(buffers, 0), buffer(buffers, 0), buffer(buffers, 1), tile);
}

static void run_hop(void *buffers[], void *argument)
{
    (void)argument;
    buffer(buffers, 1)[0] = buffer(buffers, 0)[0] + 1;
}

static struct starpu_codelet potrf_codelet = {
    .cpu_funcs = {run_potrf}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "potrf"};
static struct starpu_codelet trsm_codelet = {
    .cpu_funcs = {run_trsm}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "trsm"};
static struct starpu_codelet gemm_codelet = {
    .cpu_funcs = {run_gemm}, .nbuffers = 3, .modes = {STARPU_R, STARPU_R, STARPU_RW}, .name = "gemm"};
static struct starpu_codelet syrk_codelet = {
    .cpu_funcs = {run_syrk}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "syrk"};
static struct starpu_codelet hop_codelet = {
    .cpu_funcs = {run_hop}, .nbuffers = 2, .modes = {STARPU_R, STARPU_W}, .name = "hop"};

/* Registers an array of `length` numbers that `owner` has. */
static starpu_data_handle_t array(double *memory, long length, int owner, starpu_mpi_tag_t tag)
{
    starpu_data_handle_t handle;
    int node = rank == owner ? STARPU_MAIN_RAM : -1;
    starpu_vector_data_register(&handle, node, (uintptr_t)(rank == owner ? memory : NULL), length, sizeof(double));
    starpu_mpi_data_register(handle, tag, owner);
    return handle;
}

static double cholesky(long size, double *sum)
{
    long tiles = (size + tile - 1) / tile;
    double **a = calloc(tiles * tiles, sizeof *a);
    starpu_data_handle_t *h = calloc(tiles * tiles, sizeof *h);
    for (long i = 0; i < tiles; i++)
        for (long j = 0; j <= i; j++) {
            long at = i * tiles + j;
            if (j % 2 == rank) {
                a[at] = malloc(tile * tile * sizeof(double));
                fill(a[at], i, j, tile, size);
            }
            h[at] = array(a[at], tile * tile, j % 2, at);
        }
    starpu_mpi_barrier(MPI_COMM_WORLD);
    double begin = starpu_timing_now();
    for (long k = 0; k < tiles; k++) {
        starpu_mpi_task_insert(MPI_COMM_WORLD, &potrf_codelet, STARPU_RW, h[k * tiles + k], 0);
        for (long i = k + 1; i < tiles; i++)
            starpu_mpi_task_insert(
                MPI_COMM_WORLD, &trsm_codelet, STARPU_R, h[k * tiles + k], STARPU_RW, h[i * tiles + k], 0);
        starpu_mpi_cache_flush(MPI_COMM_WORLD, h[k * tiles + k]);
        for (long i = k + 1; i < tiles; i++) {
            for (long j = k + 1; j < i; j++)
                starpu_mpi_task_insert(MPI_COMM_WORLD, &gemm_codelet, STARPU_R, h[i * tiles + k], STARPU_R,
                                       h[j * tiles + k], STARPU_RW, h[i * tiles + j], 0);
            starpu_mpi_task_insert(
                MPI_COMM_WORLD, &syrk_codelet, STARPU_R, h[i * tiles + k], STARPU_RW, h[i * tiles + i], 0);
        }
        for (long i = k + 1; i < tiles; i++)
            starpu_mpi_cache_flush(MPI_COMM_WORLD, h[i * tiles + k]);
    }
    starpu_mpi_wait_for_all(MPI_COMM_WORLD);
    starpu_mpi_barrier(MPI_COMM_WORLD);
    double seconds = (starpu_timing_now() - begin) / 1e6;
    for (long i = 0; i < tiles; i++)
        for (long j = 0; j <= i; j++)
            starpu_data_unregister(h[i * tiles + j]);
    for (long k = rank; k < tiles; k += 2)
        *sum += trace_of(a[k * tiles + k], tile);
    return seconds;
}

static double ping(long rounds)
{
    double values[2] = {0, 0};
    starpu_data_handle_t x = array(&values[0], 1, 0, 0), y = array(&values[1], 1, 1, 1);
    starpu_mpi_barrier(MPI_COMM_WORLD);
    double begin = starpu_timing_now();
    for (long round = 0; round < rounds; round++) {
        starpu_mpi_task_insert(MPI_COMM_WORLD, &hop_codelet, STARPU_R, x, STARPU_W, y, 0);
        starpu_mpi_task_insert(MPI_COMM_WORLD, &hop_codelet, STARPU_R, y, STARPU_W, x, 0);
    }
    starpu_mpi_wait_for_all(MPI_COMM_WORLD);
    starpu_mpi_barrier(MPI_COMM_WORLD);
    double seconds = (starpu_timing_now() - begin) / 1e6 / (2 * rounds);
    starpu_data_unregister(x);
    starpu_data_unregister(y);
    return seconds;
}

int main(int count, char **arguments)
{
    if (starpu_mpi_init_conf(&count, &arguments, 1, MPI_COMM_WORLD, NULL))
        return 1;
    starpu_mpi_comm_rank(MPI_COMM_WORLD, &rank);
    double seconds, check = 0, sum = 0;
    if (count > 3 && strcmp(arguments[1], "cholesky") == 0) {
        tile = atol(arguments[3]);
        seconds = cholesky(atol(arguments[2]), &sum);
    } else {
        seconds = ping(atol(arguments[2]));
    }
    MPI_Reduce(&sum, &check, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.9f %.6f\n", seconds, check);
    starpu_mpi_shutdown();
    return 0;
}
