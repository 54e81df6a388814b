/* Packing and unpacking of the face arrays that zones send each other. Counterpart: src/mz/faces.rs.
 *
 * Faces across x are [5][nz - 2][ny - 2] numbers, one for each interior row. Faces across y are [5][nz - 2][nx]
 * numbers, which are whole rows whose ends are not used.
 *
 * Threads: the larger of nx and ny, 5 (nz - 2). */

/* Sets a zone's faces from its state. The face that a neighbour receives at its west side is at the east side here.
 * */
KERNEL(32, 4, 1) send(IN(double, u, [5][nz][ny][nx]), OUT(double, west, [5][nz - 2][ny - 2]),
                      OUT(double, east, [5][nz - 2][ny - 2]), OUT(double, south, [5][nz - 2][nx]),
                      OUT(double, north, [5][nz - 2][nx]), int nx, int ny, int nz)
{
    REGION(u); REGION(west); REGION(east); REGION(south); REGION(north);
    int at = GLOBAL_ID(0), plane = GLOBAL_ID(1);
    if (plane >= 5 * (nz - 2)) return;
    INT64 first = (INT64)nx * ny * (plane % (nz - 2) + 1 + nz * (plane / (nz - 2)));
    if (at < ny - 2) {
        INT64 row = first + (INT64)nx * (at + 1);
        west[(INT64)plane * (ny - 2) + at] = u[row + nx - 2];
        east[(INT64)plane * (ny - 2) + at] = u[row + 1];
    }
    if (at < nx) {
        south[(INT64)plane * nx + at] = u[first + (INT64)nx * (ny - 2) + at];
        north[(INT64)plane * nx + at] = u[first + nx + at];
    }
}

/* Sets a zone's outer faces from the received faces. */
KERNEL(32, 4, 1) receive(IN(double, west, [5][nz - 2][ny - 2]), IN(double, east, [5][nz - 2][ny - 2]),
                         IN(double, south, [5][nz - 2][nx]), IN(double, north, [5][nz - 2][nx]),
                         INOUT(double, u, [5][nz][ny][nx]), int nx, int ny, int nz)
{
    REGION(west); REGION(east); REGION(south); REGION(north); REGION(u);
    int at = GLOBAL_ID(0), plane = GLOBAL_ID(1);
    if (plane >= 5 * (nz - 2)) return;
    INT64 first = (INT64)nx * ny * (plane % (nz - 2) + 1 + nz * (plane / (nz - 2)));
    if (at < ny - 2) {
        INT64 row = first + (INT64)nx * (at + 1);
        u[row] = west[(INT64)plane * (ny - 2) + at];
        u[row + nx - 1] = east[(INT64)plane * (ny - 2) + at];
    }
    if (0 < at && at < nx - 1) {
        u[first + at] = south[(INT64)plane * nx + at];
        u[first + (INT64)nx * (ny - 1) + at] = north[(INT64)plane * nx + at];
    }
}
