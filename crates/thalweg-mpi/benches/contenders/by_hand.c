/* MPI by hand, for two ranks: `by_hand cholesky SIZE TILE` or `by_hand ping ROUNDS`. Rank 0 prints seconds and a check.
 *
 * Rank r has the tile columns j with j % 2 == r. A panel is factorized by its owner, which sends each of its tiles. The
 * next panel comes before the other updates of a step, so that it travels while both ranks compute; between updates,
 * `MPI_Testall` lets messages advance. */

#include "kernels.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;
static long tiles, tile;
static double **a; /* tile (i, j) at i * tiles + j, if it is below the diagonal and of this rank */
static double *received; /* the other rank's panel: tile i at i * tile * tile */
static MPI_Request *requests;
static int pending;

static void settle(void)
{
    MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
    pending = 0;
}

static void advance(void)
{
    int done;
    MPI_Testall(pending, requests, &done, MPI_STATUSES_IGNORE);
    if (done)
        pending = 0;
}

static void factorize(long k)
{
    settle();
    potrf(a[k * tiles + k], tile);
    for (long i = k + 1; i < tiles; i++) {
        trsm(a[k * tiles + k], a[i * tiles + k], tile);
        MPI_Isend(a[i * tiles + k], tile * tile, MPI_DOUBLE, 1 - rank, i, MPI_COMM_WORLD, &requests[pending++]);
    }
}

static void update(long k, long j)
{
    int own = k % 2 == rank;
    for (long i = j; i < tiles; i++) {
        const double *left = own ? a[i * tiles + k] : received + i * tile * tile;
        const double *right = own ? a[j * tiles + k] : received + j * tile * tile;
        gemm(left, right, a[i * tiles + j], tile);
        advance();
    }
}

static double cholesky(long size)
{
    tiles = (size + tile - 1) / tile;
    a = calloc(tiles * tiles, sizeof *a);
    received = malloc(tiles * tile * tile * sizeof *received);
    requests = malloc(2 * tiles * sizeof *requests); /* the sends of a panel, and the receives of the next */
    for (long i = 0; i < tiles; i++)
        for (long j = rank; j <= i; j += 2) {
            a[i * tiles + j] = malloc(tile * tile * sizeof(double));
            fill(a[i * tiles + j], i, j, tile, size);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (rank == 0)
        factorize(0);
    for (long k = 0; k < tiles; k++) {
        if (k % 2 != rank) {
            for (long i = k + 1; i < tiles; i++)
                MPI_Irecv(received + i * tile * tile, tile * tile, MPI_DOUBLE, 1 - rank, i, MPI_COMM_WORLD, &requests[pending++]);
            settle();
        }
        if (k + 1 < tiles && (k + 1) % 2 == rank) {
            update(k, k + 1);
            factorize(k + 1);
        }
        for (long j = k + 1; j < tiles; j++)
            if (j % 2 == rank && j != k + 1)
                update(k, j);
    }
    settle();
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

static double ping(long rounds)
{
    double value = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long round = 0; round < 2 * rounds; round++) {
        if (round % 2 == rank) {
            value += 1;
            MPI_Send(&value, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&value, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    return (MPI_Wtime() - begin) / (2 * rounds);
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds, check = 0, sum = 0;
    if (count > 3 && strcmp(arguments[1], "cholesky") == 0) {
        tile = atol(arguments[3]);
        seconds = cholesky(atol(arguments[2]));
        for (long k = rank; k < tiles; k += 2)
            sum += trace_of(a[k * tiles + k], tile);
    } else {
        seconds = ping(atol(arguments[2]));
    }
    MPI_Reduce(&sum, &check, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.9f %.6f\n", seconds, check);
    MPI_Finalize();
    return 0;
}
