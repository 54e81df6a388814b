/* SP-MZ's transform into waves and its sweeps: scalar pentadiagonal systems along the lines of a zone, one thread
 * per line.
 *
 * In the eigenvectors of a direction, the three waves that move with the flow are components 0, 1, 2, and the sound
 * waves are components 3 and 4. So a line has three matrices: one shared by components 0, 1, 2, and one for each of
 * the other components. Rows are eliminated in order, without pivoting. The transform that follows a sweep is
 * applied to each point of the solution before it is stored. The right-hand side r is replaced in the interior.
 *
 * Couplings to the boundary points, whose unknowns are zero, vanish: in elimination because two empty rows precede
 * the first row, and in substitution because it begins with zeros.
 *
 * The residual and the addition of a step are in operator.cl, the exchange is in pack.cl. Counterparts: src/mz/sp,
 * penta.rs, transforms.rs, sweep.rs. Source: NASA reports RNR-94-007, section 4.4, and NAS-03-010; Pulliam and
 * Chaussee, J. Comput. Phys. 39, 1981, derive the transforms. Needs npb_common.h. */

/* Numbers per point in scratch: two upper diagonals of each matrix, and a vector. */
#define STORED 11
#define ROOT_HALF 0.70710678118654752440

/* The matrix of component m. */
#define MATRIX(m) ((m) < 3 ? 0 : (m) - 2)

/* The flow at a point: density and its inverse, velocities, half the square of the speed, internal energy, the
 * speed of sound and its square. */
typedef struct {
    double density;
    double volume;
    double v[3];
    double kinetic;
    double internal;
    double sound;
    double sound_squared;
} Flow;

DEVICE Flow flow_of(const double *u)
{
    Flow flow;
    flow.density = u[0];
    flow.volume = 1.0 / u[0];
    UNROLL for (int d = 0; d < 3; d++) flow.v[d] = u[d + 1] * flow.volume;
    double kinetic = 0.5 * (flow.v[0] * u[1] + (flow.v[1] * u[2] + flow.v[2] * u[3]));
    flow.kinetic = kinetic * flow.volume;
    flow.internal = u[4] - kinetic;
    flow.sound_squared = C1 * C2 * flow.internal * flow.volume;
    flow.sound = sqrt(flow.sound_squared);
    return flow;
}

/* Transforms the conserved quantities to the waves in x ("txinvr"). */
DEVICE void enter(Flow flow, double *r)
{
    double r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3], r4 = r[4];
    /* c2 / a^2 = density / c1 internal energy */
    double compressibility = flow.density / (C1 * flow.internal);
    double t1 = compressibility * (flow.kinetic * r0 + r4 - flow.v[2] * r3 - flow.v[1] * r2 - flow.v[0] * r1);
    double weight = ROOT_HALF * flow.volume;
    double t2 = weight * (flow.v[0] * r0 - r1), t3 = weight * flow.sound * t1;
    r[0] = r0 - t1;
    r[1] = flow.volume * (r3 - flow.v[2] * r0);
    r[2] = flow.volume * (flow.v[1] * r0 - r2);
    r[3] = t3 - t2;
    r[4] = t3 + t2;
}

/* Transforms the waves in x to those in y ("ninvr"). */
DEVICE void from_x_to_y(double *r)
{
    double r0 = r[0], r1 = r[1], across = ROOT_HALF * r[2], mean = 0.5 * (r[3] + r[4]), difference = r[3] - r[4];
    r[0] = -r1;
    r[1] = r0;
    r[2] = ROOT_HALF * difference;
    r[3] = mean - across;
    r[4] = mean + across;
}

/* Transforms the waves in y to those in z ("pinvr"). */
DEVICE void from_y_to_z(double *r)
{
    double r1 = r[1], r2 = r[2], across = ROOT_HALF * r[0], mean = 0.5 * (r[3] + r[4]), difference = r[3] - r[4];
    r[0] = ROOT_HALF * difference;
    r[1] = -r2;
    r[2] = r1;
    r[3] = mean - across;
    r[4] = mean + across;
}

/* Transforms the waves in z back to the conserved quantities ("tzetar"). */
DEVICE void leave(Flow flow, double *r)
{
    double r0 = r[0], r1 = r[1], weight = ROOT_HALF * flow.density;
    double t1 = weight * (r[3] + r[4]) / flow.sound, t2 = r[2] + t1, t3 = weight * (r[3] - r[4]);
    double turn = flow.density * (flow.v[1] * r0 - flow.v[0] * r1);
    r[0] = t2;
    r[1] = flow.v[0] * t2 - flow.density * r1;
    r[2] = flow.v[1] * t2 + flow.density * r0;
    r[3] = flow.v[2] * t2 + t3;
    r[4] = flow.kinetic * t2 + (flow.v[2] * t3 + turn) + 1.0 / C2 * flow.sound_squared * t1;
}

/* Weights of a direction: dt / 2h; the two diagonals next to the main one without convection, as a constant and a
 * factor of 1 / density; the outermost diagonals. */
typedef struct {
    double convection;
    double beside;
    double viscosity;
    double outer;
} Weights;

DEVICE Weights weights_of(int d, double t, double dt)
{
    Weights weights;
    weights.convection = 0.5 * dt * t;
    weights.outer = dt * EPS4;
    weights.beside = -dt * t * t * DISSIPATION(d) - 4.0 * weights.outer;
    weights.viscosity = -dt * t * t * C1345;
    return weights;
}

/* A point's entries in the matrices, from the flow and its velocity along the line: the even part of the two
 * diagonals next to the main one, and the couplings of the previous and the next row to the point. */
typedef struct {
    double beside;
    double above[3];
    double below[3];
} Part;

DEVICE Part part_of(Weights weights, Flow flow, double velocity)
{
    Part part;
    double flows = weights.convection * velocity, sounds = weights.convection * flow.sound;
    part.beside = weights.beside + weights.viscosity * flow.volume;
    double above = part.beside + flows, below = part.beside - flows;
    part.above[0] = above;
    part.above[1] = above + sounds;
    part.above[2] = above - sounds;
    part.below[0] = below;
    part.below[1] = below - sounds;
    part.below[2] = below + sounds;
    return part;
}

/* An eliminated row: its matrices' coefficients of the next unknown and of the one after it, and its right-hand
 * sides. */
typedef struct {
    double next[3];
    double after[3];
    double y[5];
} Row;

/* State that elimination carries along: the two previous rows, the coupling to the last of them, and the pending
 * row, which still needs the next point. */
typedef struct {
    Row second;
    Row first;
    double below[3];
    Part here;
    double right[5];
} Front;

DEVICE Front no_front(void)
{
    Front none;
    UNROLL for (int c = 0; c < 3; c++) {
        none.second.next[c] = none.second.after[c] = none.first.next[c] = none.first.after[c] = none.below[c] = 0.0;
        none.here.above[c] = none.here.below[c] = 0.0;
    }
    none.here.beside = 0.0;
    UNROLL for (int m = 0; m < 5; m++) none.second.y[m] = none.first.y[m] = none.right[m] = 0.0;
    return none;
}

/* Eliminates row l of `length`, the pending one, with the coupling `above` to the next point. The numbers that
 * substitution needs of a row are `lines` apart in `stored`; successive rows are STORED times that apart. */
DEVICE void eliminate(Front *front, Weights weights, int l, int length, const double *above, GLOBAL double *stored,
                      int lines)
{
    /* 1 + 6 outer, of which 8 are already in twice `beside`; 5 outer at both ends. */
    double diagonal = 1.0 - (l == 0 || l == length - 1 ? 3.0 : 2.0) * weights.outer - 2.0 * front->here.beside;
    double lower[3], inverse[3];
    Row row;
    UNROLL for (int c = 0; c < 3; c++) {
        lower[c] = front->below[c] - weights.outer * front->second.next[c];
        double here = diagonal - weights.outer * front->second.after[c];
        inverse[c] = 1.0 / (here - lower[c] * front->first.next[c]);
        row.next[c] = (above[c] - lower[c] * front->first.after[c]) * inverse[c];
        row.after[c] = weights.outer * inverse[c];
    }
    UNROLL for (int m = 0; m < 5; m++) {
        double right = front->right[m] - weights.outer * front->second.y[m];
        row.y[m] = (right - lower[MATRIX(m)] * front->first.y[m]) * inverse[MATRIX(m)];
    }
    stored += (INT64)l * STORED * lines;
    UNROLL for (int c = 0; c < 3; c++) {
        stored[c * lines] = row.next[c];
        stored[(3 + c) * lines] = row.after[c];
        front->below[c] = front->here.below[c];
    }
    UNROLL for (int m = 0; m < 5; m++) stored[(6 + m) * lines] = row.y[m];
    front->second = front->first;
    front->first = row;
}

/* Accepts point l of a line, with the entries `part` and the right-hand side `right`; eliminates the previous row.
 * */
DEVICE void arrive(Front *front, Weights weights, Part part, int l, int length, const double *right,
                   GLOBAL double *stored, int lines)
{
    if (l > 0) eliminate(front, weights, l - 1, length, part.above, stored, lines);
    front->here = part;
    UNROLL for (int m = 0; m < 5; m++) front->right[m] = right[m];
}

/* Substitutes at row l: moves x from the solution at the next point to that at this one, and `after` to the next.
 * */
DEVICE void substitute(double *x, double *after, int l, GLOBAL const double *stored, int lines)
{
    stored += (INT64)l * STORED * lines;
    UNROLL for (int m = 0; m < 5; m++) {
        double next = stored[MATRIX(m) * lines], second = stored[(3 + MATRIX(m)) * lines];
        double here = stored[(6 + m) * lines] - second * after[m] - next * x[m];
        after[m] = x[m];
        x[m] = here;
    }
}

/* r <- r as waves in x, at an interior point. */
DEVICE void enter_at(GLOBAL const double *u, GLOBAL double *r, int nx, int ny, int nz, int i, int j, int k)
{
    if (i > nx - 2 || j > ny - 2 || k > nz - 2) return;
    INT64 points = (INT64)nx * ny * nz;
    int at = i + nx * (j + ny * k);
    double state[5], wave[5];
    load_components(u, points, at, state);
    load_components(r, points, at, wave);
    enter(flow_of(state), wave);
    store_components(r, points, at, wave);
}

/* r <- r as waves in x. Threads: nx - 2, ny - 2, nz - 2. */
KERNEL(32, 4, 1) txinvr(IN(double, u, [5][nz][ny][nx]), INOUT(double, r, [5][nz][ny][nx]), int nx, int ny, int nz)
{
    REGION(u); REGION(r);
    enter_at(u, r, nx, ny, nz, GLOBAL_ID(0) + 1, GLOBAL_ID(1) + 1, GLOBAL_ID(2) + 1);
}

/* The same for a batch. */
KERNEL(32, 4, 1) txinvr_of_zones(IN(double, u, numbers), INOUT(double, r, numbers),
                                 IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]), INT64 numbers,
                                 INT64 inside, int zone_count, int first_group, int group_count)
{
    REGION(u); REGION(r); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Position at = position_in(zone, zone.nx - 2, zone.ny - 2);
    enter_at(u + zone.field, r + zone.field, zone.nx, zone.ny, zone.nz, at.x + 1, at.y + 1, at.z + 1);
}

/* Solves one group of a zone's lines in x. */
DEVICE void solve_rows(SHARED double *tile, GLOBAL const double *u, GLOBAL double *r, GLOBAL double *scratch,
                       Weights weights, int group, int nx, int ny, int nz)
{
    INT64 points = (INT64)nx * ny * nz;
    int lines = (ny - 2) * (nz - 2), length = nx - 2;
    int row = LOCAL_ID(0), begin = ROWS * group, is_line = begin + row < lines;
    GLOBAL double *stored = scratch + begin + row;
    Front front = no_front();
    for (int first = 0; first < length; first += TILE) {
        load_tile(tile, 0, u, begin, lines, first, length, nx, ny, points);
        load_tile(tile, 5, r, begin, lines, first, length, nx, ny, points);
        BARRIER();
        for (int l = 0; is_line && l < TILE && first + l < length; l++) {
            double state[5], right[5];
            UNROLL for (int m = 0; m < 5; m++) {
                state[m] = tile[IN_TILE(m, row, l)];
                right[m] = tile[IN_TILE(5 + m, row, l)];
            }
            Flow flow = flow_of(state);
            arrive(&front, weights, part_of(weights, flow, flow.v[0]), first + l, length, right, stored, lines);
        }
        BARRIER();
    }
    if (is_line && length > 0) eliminate(&front, weights, length - 1, length, front.here.above, stored, lines);
    double x[5] = {0.0, 0.0, 0.0, 0.0, 0.0}, after[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (int first = (length - 1) / TILE * TILE; first >= 0; first -= TILE) {
        for (int l = (length - first < TILE ? length - first : TILE) - 1; is_line && l >= 0; l--) {
            double wave[5];
            substitute(x, after, first + l, stored, lines);
            UNROLL for (int m = 0; m < 5; m++) wave[m] = x[m];
            from_x_to_y(wave);
            UNROLL for (int m = 0; m < 5; m++) tile[IN_TILE(m, row, l)] = wave[m];
        }
        BARRIER();
        store_tile(tile, r, begin, lines, first, length, nx, ny, points);
        BARRIER();
    }
}

/* Solves one of a zone's lines in y (direction 1) or z (2). */
DEVICE void solve_line(GLOBAL const double *u, GLOBAL double *r, GLOBAL double *scratch, Weights weights, int direction,
                       int line, int nx, int ny, int nz)
{
    INT64 points = (INT64)nx * ny * nz;
    int row = nx, plane = nx * ny;
    int along = direction == 1 ? row : plane, across = direction == 1 ? plane : row;
    int length = (direction == 1 ? ny : nz) - 2, lines = (nx - 2) * ((direction == 1 ? nz : ny) - 2);
    if (line >= lines || length < 1) return;
    int start = 1 + row + plane + line % (nx - 2) + line / (nx - 2) * across;
    GLOBAL double *stored = scratch + line;
    Front front = no_front();
    double state[5], wave[5];
    for (int l = 0; l < length; l++) {
        load_components(u, points, start + l * along, state);
        load_components(r, points, start + l * along, wave);
        Flow flow = flow_of(state);
        Part part = part_of(weights, flow, direction == 1 ? flow.v[1] : flow.v[2]);
        arrive(&front, weights, part, l, length, wave, stored, lines);
    }
    eliminate(&front, weights, length - 1, length, front.here.above, stored, lines);
    double x[5] = {0.0, 0.0, 0.0, 0.0, 0.0}, after[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (int l = length - 1; l >= 0; l--) {
        substitute(x, after, l, stored, lines);
        UNROLL for (int m = 0; m < 5; m++) wave[m] = x[m];
        if (direction == 1) {
            from_y_to_z(wave);
        } else {
            load_components(u, points, start + l * along, state);
            leave(flow_of(state), wave);
        }
        store_components(r, points, start + l * along, wave);
    }
}

/* Solves all lines in x for r, which becomes the solution as waves in y. tx is the inverse mesh width.
 * Threads: (ny - 2) (nz - 2). `scratch` has 11 (nx - 2) (ny - 2) (nz - 2) numbers. */
KERNEL(32, 1, 1) sweep_x(IN(double, u, [5][nz][ny][nx]), INOUT(double, r, [5][nz][ny][nx]),
                         INOUT(double, scratch, [11][nz - 2][ny - 2][nx - 2]), double tx, double dt, int nx, int ny,
                         int nz)
{
    REGION(u); REGION(r); REGION(scratch);
    LOCAL(double, tile, TILE_SIZE(10));
    Weights weights = weights_of(0, tx, dt);
    solve_rows(tile, u, r, scratch, weights, GROUP_ID(0), nx, ny, nz);
}

/* The same for a batch. */
KERNEL(32, 1, 1) sweep_x_of_zones(IN(double, u, numbers), INOUT(double, r, numbers),
                                  INOUT(double, scratch, [11][inside]), IN(INT64, zones, [zone_count][10]),
                                  IN(int, groups, [group_count][2]), INT64 numbers, INT64 inside, int zone_count,
                                  int first_group, int group_count, double tx, double dt)
{
    REGION(u); REGION(r); REGION(scratch); REGION(zones); REGION(groups);
    LOCAL(double, tile, TILE_SIZE(10));
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Weights weights = weights_of(0, tx, dt);
    solve_rows(tile, u + zone.field, r + zone.field, scratch + STORED * zone.interior, weights, zone.group, zone.nx,
               zone.ny, zone.nz);
}

/* Solves all lines in y (direction 1), whose solution becomes waves in z, or in z (2), whose solution becomes
 * conserved quantities. t is the inverse mesh width in the direction. Threads: (nx - 2) times (nz - 2) or (ny - 2).
 * `scratch` as above. */
KERNEL(64, 1, 1) sweep_yz(IN(double, u, [5][nz][ny][nx]), INOUT(double, r, [5][nz][ny][nx]),
                          INOUT(double, scratch, [11][nz - 2][ny - 2][nx - 2]), int direction, double t, double dt,
                          int nx, int ny, int nz)
{
    REGION(u); REGION(r); REGION(scratch);
    Weights weights = weights_of(direction, t, dt);
    solve_line(u, r, scratch, weights, direction, GLOBAL_ID(0), nx, ny, nz);
}

/* The same for a batch. */
KERNEL(64, 1, 1) sweep_yz_of_zones(IN(double, u, numbers), INOUT(double, r, numbers),
                                   INOUT(double, scratch, [11][inside]), IN(INT64, zones, [zone_count][10]),
                                   IN(int, groups, [group_count][2]), INT64 numbers, INT64 inside, int zone_count,
                                   int first_group, int group_count, int direction, double t, double dt)
{
    REGION(u); REGION(r); REGION(scratch); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Weights weights = weights_of(direction, t, dt);
    solve_line(u + zone.field, r + zone.field, scratch + STORED * zone.interior, weights, direction,
               64 * zone.group + LOCAL_ID(0), zone.nx, zone.ny, zone.nz);
}
