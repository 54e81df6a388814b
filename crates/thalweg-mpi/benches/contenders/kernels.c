/* The kernels, as a library that all contenders load: the bench compares runtimes, not compilers. */

#include "kernels.h"

#include <math.h>

void fill(double *a, long i, long j, long tile, long size)
{
    for (long p = 0; p < tile; p++)
        for (long q = 0; q < tile; q++) {
            long row = i * tile + p, column = j * tile + q;
            long low = row < column ? row : column, high = row < column ? column : row;
            a[p * tile + q] = (double)((low * 7 + high * 13) % 17) / 17.0 + (row == column ? (double)size : 0.0);
        }
}

/* A dot product in eight sums, which vectorizes. */
static double dot(const double *a, const double *b, long length)
{
    double sums[8] = {0};
    long at = 0;
    for (; at + 8 <= length; at += 8)
        for (int lane = 0; lane < 8; lane++)
            sums[lane] += a[at + lane] * b[at + lane];
    double sum = 0;
    for (int lane = 0; lane < 8; lane++)
        sum += sums[lane];
    for (; at < length; at++)
        sum += a[at] * b[at];
    return sum;
}

void potrf(double *a, long tile)
{
    for (long j = 0; j < tile; j++) {
        a[j * tile + j] = sqrt(a[j * tile + j] - dot(a + j * tile, a + j * tile, j));
        for (long i = j + 1; i < tile; i++)
            a[i * tile + j] = (a[i * tile + j] - dot(a + i * tile, a + j * tile, j)) / a[j * tile + j];
    }
}

void trsm(const double *l, double *a, long tile)
{
    for (long i = 0; i < tile; i++)
        for (long j = 0; j < tile; j++)
            a[i * tile + j] = (a[i * tile + j] - dot(a + i * tile, l + j * tile, j)) / l[j * tile + j];
}

void gemm(const double *a, const double *b, double *c, long tile)
{
    for (long i = 0; i < tile; i++)
        for (long j = 0; j < tile; j++)
            c[i * tile + j] -= dot(a + i * tile, b + j * tile, tile);
}

double trace_of(const double *a, long tile)
{
    double sum = 0;
    for (long i = 0; i < tile; i++)
        sum += a[i * tile + i];
    return sum;
}
