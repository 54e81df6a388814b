/* Definitions that the kernels of the three multi-zone NAS benchmarks share: constants of the physics, the layout
 * of a zone's fields, and access to lines in x. This file has no kernels itself.
 *
 * A field consists of [5][nz][ny][nx] numbers, with x varying fastest: five components of `points` numbers each.
 * Components are density, the momenta in x, y, z, and energy. Directions are 0 (x), 1 (y), 2 (z); a point is its
 * index within a component. Interior points are 1 .. n - 2 in each direction. Mesh widths are passed as their
 * inverses, tx, ty, tz.
 *
 * Counterpart: src/mz/physics.rs. Source: NASA report RNR-94-007, section 3. */

/* Ratio of specific heats, the same less 1, viscosity, ratio of specific heats over the Prandtl number, the product
 * of the last two, and the weight of the viscosity of the velocity along a direction. */
#define C1 1.4
#define C2 0.4
#define C34 0.1
#define C1C5 1.96
#define C1345 (C1C5 * C34)
#define CON43 (4.0 / 3.0)
/* Weights of the artificial dissipation: of second differences by direction, of fourth differences. */
#define DISSIPATION(d) ((d) == 2 ? 1.0 : 0.75)
#define EPS4 0.25

/* Loads the components of a field at a point. */
DEVICE void load_components(GLOBAL const double *field, INT64 points, INT64 at, double *values)
{
    UNROLL for (int m = 0; m < 5; m++) values[m] = field[m * points + at];
}

DEVICE void store_components(GLOBAL double *field, INT64 points, INT64 at, const double *values)
{
    UNROLL for (int m = 0; m < 5; m++) field[m * points + at] = values[m];
}

/* Lines in x, one per thread.
 *
 * Neighbouring threads have neighbouring rows, whose points are nx numbers apart, so direct accesses would not be
 * contiguous. Instead, a group of ROWS threads moves a tile of TILE points of all its rows at a time, along the
 * rows, through local memory. A tile has five fields for each field that is moved. Each field has ROWS rows, which
 * are one number longer than TILE so that a column touches all banks. */
#define ROWS 32
#define TILE 8
#define TILE_SIZE(fields) ((fields) * ROWS * (TILE + 1))
#define IN_TILE(field, row, l) (((field) * ROWS + (row)) * (TILE + 1) + (l))

/* Returns the first interior point of row `line` of the (ny - 2) (nz - 2) interior rows. */
DEVICE int start_of_row(int line, int nx, int ny)
{
    return 1 + nx * (1 + line % (ny - 2)) + nx * ny * (1 + line / (ny - 2));
}

/* Reads points first .. first + TILE - 1 of the group's rows, as far as they exist, from `field` to the tile's
 * fields from `to` on. The rows begin with row `line` of `lines`, and have `length` interior points. */
DEVICE void load_tile(SHARED double *tile, int to, GLOBAL const double *field, int line, int lines, int first,
                      int length, int nx, int ny, INT64 points)
{
    int thread = LOCAL_ID(0), l = thread % TILE;
    for (int row = thread / TILE; row < ROWS; row += ROWS / TILE) {
        if (line + row < lines && first + l < length) {
            INT64 at = start_of_row(line + row, nx, ny) + first + l;
            for (int m = 0; m < 5; m++) tile[IN_TILE(to + m, row, l)] = field[m * points + at];
        }
    }
}

/* Writes the tile's first five fields back to `field`. */
DEVICE void store_tile(SHARED const double *tile, GLOBAL double *field, int line, int lines, int first, int length,
                       int nx, int ny, INT64 points)
{
    int thread = LOCAL_ID(0), l = thread % TILE;
    for (int row = thread / TILE; row < ROWS; row += ROWS / TILE) {
        if (line + row < lines && first + l < length) {
            INT64 at = start_of_row(line + row, nx, ny) + first + l;
            for (int m = 0; m < 5; m++) field[m * points + at] = tile[IN_TILE(m, row, l)];
        }
    }
}

/* Batches of zones, which one launch computes on. The zones' fields follow each other in one array of `numbers`
 * numbers, and their interior points, of which there are `inside`, in one piece of scratch memory.
 *
 * The table `zones` has ZONE_WORDS integers for each zone: the first number of its field, the number of interior points
 * of the zones before it, nx, ny, nz, the first numbers of the faces that it receives (west, east, south, north), and
 * that of the faces that it sends. The table `groups` lists the thread groups of all launches, each as a zone and the
 * group's number in the zone; a launch has the groups from `first_group` on. */
#define ZONE_WORDS 10

typedef struct {
    INT64 field;
    INT64 interior;
    INT64 received[4];
    INT64 sent;
    int nx, ny, nz;
    int group;
} Zone;

/* Returns the zone of the calling thread's group. A zone that the arrays have no room for comes without an interior, so
 * that nothing is touched. */
DEVICE Zone zone_of_group(GLOBAL const INT64 *zones, GLOBAL const int *groups, INT64 numbers, INT64 inside,
                          int zone_count, int first_group, int group_count)
{
    Zone zone;
    zone.field = zone.interior = zone.sent = 0;
    UNROLL for (int side = 0; side < 4; side++) zone.received[side] = 0;
    zone.nx = zone.ny = zone.nz = 2;
    zone.group = 0;
    int at = first_group + GROUP_ID(0), number = at >= 0 && at < group_count ? groups[2 * at] : -1;
    if (number < 0 || number >= zone_count) return zone;
    GLOBAL const INT64 *row = zones + (INT64)ZONE_WORDS * number;
    INT64 nx = row[2], ny = row[3], nz = row[4];
    int group = groups[2 * at + 1], most = 1 << 20;
    if (nx < 3 || ny < 3 || nz < 3 || nx > most || ny > most || nz > most) return zone;
    if (group < 0 || group > 16 * most) return zone;
    if (row[0] < 0 || row[0] + 5 * nx * ny * nz > numbers) return zone;
    if (row[1] < 0 || row[1] + (nx - 2) * (ny - 2) * (nz - 2) > inside) return zone;
    zone.field = row[0];
    zone.interior = row[1];
    UNROLL for (int side = 0; side < 4; side++) zone.received[side] = row[5 + side];
    zone.sent = row[9];
    zone.nx = (int)nx;
    zone.ny = (int)ny;
    zone.nz = (int)nz;
    zone.group = group;
    return zone;
}

/* Returns the number of groups for `n` threads, at least 1. */
DEVICE int groups_for(int n, int group)
{
    return n > group ? (n + group - 1) / group : 1;
}

/* The calling thread's position in a zone, in groups of 32 x 4 threads that cover nx x ny threads in each plane. */
typedef struct {
    int x, y, z;
} Position;

DEVICE Position position_in(Zone zone, int nx, int ny)
{
    Position at;
    int columns = groups_for(nx, 32), rows = groups_for(ny, 4);
    at.x = zone.group % columns * 32 + LOCAL_ID(0);
    at.y = zone.group / columns % rows * 4 + LOCAL_ID(1);
    at.z = zone.group / columns / rows;
    return at;
}
