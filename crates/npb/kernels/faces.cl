/* Packing and unpacking of the face arrays that zones send each other. Counterpart: src/mz/faces.rs. Needs
 * npb_common.h.
 *
 * Faces across x are [5][nz - 2][ny - 2] numbers, one for each interior row. Faces across y are [5][nz - 2][nx]
 * numbers, which are whole rows whose ends are not used.
 *
 * Threads: the larger of nx and ny, 5 (nz - 2). */

/* Sets a zone's faces from its state, at one position of one plane. The face that a neighbour receives at its west side
 * is at the east side here. */
DEVICE void send_at(GLOBAL const double *u, GLOBAL double *west, GLOBAL double *east, GLOBAL double *south,
                    GLOBAL double *north, int nx, int ny, int nz, int at, int plane)
{
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

KERNEL(32, 4, 1) send(IN(double, u, [5][nz][ny][nx]), OUT(double, west, [5][nz - 2][ny - 2]),
                      OUT(double, east, [5][nz - 2][ny - 2]), OUT(double, south, [5][nz - 2][nx]),
                      OUT(double, north, [5][nz - 2][nx]), int nx, int ny, int nz)
{
    REGION(u); REGION(west); REGION(east); REGION(south); REGION(north);
    send_at(u, west, east, south, north, nx, ny, nz, GLOBAL_ID(0), GLOBAL_ID(1));
}

/* The same for a batch. A zone's faces follow each other: west, east, south, north. */
KERNEL(32, 4, 1) send_of_zones(IN(double, u, numbers), OUT(double, faces, sent), IN(INT64, zones, [zone_count][10]),
                               IN(int, groups, [group_count][2]), INT64 numbers, INT64 inside, int zone_count,
                               int first_group, int group_count, INT64 sent)
{
    REGION(u); REGION(faces); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    INT64 planes = 5 * (INT64)(zone.nz - 2), across_x = planes * (zone.ny - 2), across_y = planes * zone.nx;
    if (zone.sent < 0 || zone.sent + 2 * (across_x + across_y) > sent) return;
    Position at = position_in(zone, zone.nx > zone.ny ? zone.nx : zone.ny, 4);
    GLOBAL double *west = faces + zone.sent, *south = west + 2 * across_x;
    send_at(u + zone.field, west, west + across_x, south, south + across_y, zone.nx, zone.ny, zone.nz, at.x,
            4 * at.z + at.y);
}

/* Sets a zone's outer faces from the received faces, at one position of one plane. */
DEVICE void receive_at(GLOBAL const double *west, GLOBAL const double *east, GLOBAL const double *south,
                       GLOBAL const double *north, GLOBAL double *u, int nx, int ny, int nz, int at, int plane)
{
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

KERNEL(32, 4, 1) receive(IN(double, west, [5][nz - 2][ny - 2]), IN(double, east, [5][nz - 2][ny - 2]),
                         IN(double, south, [5][nz - 2][nx]), IN(double, north, [5][nz - 2][nx]),
                         INOUT(double, u, [5][nz][ny][nx]), int nx, int ny, int nz)
{
    REGION(west); REGION(east); REGION(south); REGION(north); REGION(u);
    receive_at(west, east, south, north, u, nx, ny, nz, GLOBAL_ID(0), GLOBAL_ID(1));
}

/* The same for a batch, from the faces of all zones of all batches. */
KERNEL(32, 4, 1) receive_of_zones(IN(double, faces, received), INOUT(double, u, numbers),
                                  IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]), INT64 numbers,
                                  INT64 inside, int zone_count, int first_group, int group_count, INT64 received)
{
    REGION(faces); REGION(u); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    INT64 planes = 5 * (INT64)(zone.nz - 2), across_x = planes * (zone.ny - 2), across_y = planes * zone.nx;
    int is_held = 1;
    UNROLL for (int side = 0; side < 4; side++) {
        INT64 first = zone.received[side];
        is_held &= first >= 0 && first + (side < 2 ? across_x : across_y) <= received;
    }
    if (!is_held) return;
    Position at = position_in(zone, zone.nx > zone.ny ? zone.nx : zone.ny, 4);
    receive_at(faces + zone.received[0], faces + zone.received[1], faces + zone.received[2], faces + zone.received[3],
               u + zone.field, zone.nx, zone.ny, zone.nz, at.x, 4 * at.z + at.y);
}
