/* LU-MZ's sweeps: symmetric successive over-relaxation, front after front of blocks.
 *
 * The forward sweep computes w <- D^-1 (dt r + contributions of the points before), the backward sweep w <- w +
 * D^-1 (contributions of the points after). The points of a plane i + j + k = const do not depend on each other.
 * One launch per such plane would mean hundreds of launches. So a zone is divided into blocks of BLOCK_X x BLOCK_Y
 * x BLOCK_Z points. A launch sweeps the blocks whose coordinates have the same sum, its `front`, with one thread
 * group per block. In a block, each thread walks along one row, in x, one point behind each of the previous threads
 * in y and in z. The thread carries its point's contribution to the next point of its row, and computes the
 * contributions of the other two previous points from their state and w. The launches for a front must follow those
 * for the previous front.
 *
 * The backward sweep equals the forward sweep in mirrored coordinates, with the sign of convection reversed. The
 * matrices are applied to vectors without being formed: with s_c = w_c+1 - v_c w_0, the product of a flux Jacobian
 * with w is the change of the flux, and the product of a viscous Jacobian with w is the change of the stress. The
 * diagonal block D is lower triangular, so substitution is enough to solve it. Couplings to the boundary vanish,
 * because w is zero there; the boundary of w is neither read nor written.
 *
 * The residual and the addition of a step are in operator.cl, the exchange is in pack.cl. Counterparts: src/mz/lu,
 * jacobian.rs, ssor.rs. Source: NASA report RNR-94-007, section 3.3. Needs npb_common.h. */

/* Over-relaxation. */
#define OMEGA 1.2

/* Points of a block. The host defines the number in x; in y and z there is one per thread of a group. */
#ifndef BLOCK_X
#error "BLOCK_X has to be defined"
#endif
#define BLOCK_Y 16
#define BLOCK_Z 8

/* Coefficients of a sweep's matrices, which are the same at all points. By direction: omega dt times +-1 / 2h, 1 /
 * h^2, and the dissipation / h^2. Then the constant part of the diagonal, and its factors of 1 / density for the
 * momenta and for energy. */
typedef struct {
    double advection[3];
    double diffusion[3];
    double dissipation[3];
    double diagonal;
    double inverse; /* 1 / diagonal */
    double momentum[3];
    double energy;
} Coefficients;

DEVICE Coefficients coefficients_of(double tx, double ty, double tz, double dt, int way)
{
    Coefficients c;
    double t[3] = {tx, ty, tz}, total = tx * tx + ty * ty + tz * tz;
    c.diagonal = 1.0;
    UNROLL for (int d = 0; d < 3; d++) {
        double square = dt * t[d] * t[d];
        c.advection[d] = way * OMEGA * 0.5 * dt * t[d];
        c.diffusion[d] = OMEGA * square;
        c.dissipation[d] = OMEGA * square * DISSIPATION(d);
        c.diagonal += 2.0 * square * DISSIPATION(d);
        c.momentum[d] = 2.0 * C34 * (dt * total + (CON43 - 1.0) * square);
    }
    c.inverse = 1.0 / c.diagonal;
    c.energy = 2.0 * C1345 * dt * total;
    return c;
}

/* The flow at a point: 1 / density, velocities, and half the square of the speed, energy and enthalpy per mass. */
typedef struct {
    double volume;
    double v[3];
    double kinetic;
    double energy;
    double enthalpy;
} Flow;

DEVICE Flow flow_at(GLOBAL const double *u, INT64 points, INT64 at)
{
    Flow flow;
    double state[5];
    load_components(u, points, at, state);
    flow.volume = 1.0 / state[0];
    UNROLL for (int d = 0; d < 3; d++) flow.v[d] = state[d + 1] * flow.volume;
    flow.kinetic = 0.5 * (flow.v[0] * flow.v[0] + (flow.v[1] * flow.v[1] + flow.v[2] * flow.v[2]));
    flow.energy = state[4] * flow.volume;
    flow.enthalpy = C1 * flow.energy - C2 * flow.kinetic;
    return flow;
}

/* Replaces b by the solution of D x = b. */
DEVICE void solve(Coefficients c, Flow flow, double *b)
{
    double density = b[0] * c.inverse, conductive = c.energy * flow.volume;
    double energy = b[4] + conductive * flow.energy * density;
    b[0] = density;
    UNROLL for (int d = 0; d < 3; d++) {
        double viscous = c.momentum[d] * flow.volume;
        b[d + 1] = (b[d + 1] + viscous * flow.v[d] * density) / (c.diagonal + viscous);
        energy -= (viscous - conductive) * flow.v[d] * (b[d + 1] - flow.v[d] * density);
    }
    b[4] = energy / (c.diagonal + conductive);
}

/* Adds the contribution of w at a point with this flow to the next point in direction d: omega dt (+-A / 2h + (N +
 * D) / h^2) w with the Jacobians A and N of the inviscid flux and the viscous terms, and the dissipation D. */
DEVICE void contribute(Coefficients c, Flow flow, const double *w, int d, double *sum)
{
    double change[3], work = 0.0;
    UNROLL for (int m = 0; m < 3; m++) {
        change[m] = w[m + 1] - flow.v[m] * w[0];
        work += flow.v[m] * change[m];
    }
    double pressure = C2 * (w[4] - flow.kinetic * w[0] - work);
    double viscosity = C34 * flow.volume, stress = viscosity * change[d];
    double heat = C1345 * flow.volume * (w[4] - flow.energy * w[0] - work) + viscosity * work;
    double speed = c.advection[d] * flow.v[d], own = speed + c.dissipation[d], carried = c.advection[d] * change[d];

    sum[0] += c.advection[d] * w[d + 1] + c.dissipation[d] * w[0];
    UNROLL for (int m = 0; m < 3; m++)
        sum[m + 1] += own * w[m + 1] + flow.v[m] * carried + c.diffusion[d] * (viscosity * change[m]);
    sum[d + 1] += c.advection[d] * pressure + (CON43 - 1.0) * c.diffusion[d] * stress;
    sum[4] += own * w[4] + c.diffusion[d] * (heat + (CON43 - 1.0) * flow.v[d] * stress) + flow.enthalpy * carried +
              speed * pressure;
}

/* Adds the contribution of the point `at` to the next one in direction d. */
DEVICE void contribute_from(Coefficients c, GLOBAL const double *u, GLOBAL const double *w, INT64 points, INT64 at,
                            int d, double *sum)
{
    double here[5];
    load_components(w, points, at, here);
    contribute(c, flow_at(u, points, at), here, d, sum);
}

/* Sweeps the block of the group with the coordinates group_y and group_z. `way` is 1 forward, -1 backward; r is read
 * only in the forward sweep. */
DEVICE void sweep(GLOBAL const double *u, GLOBAL const double *r, GLOBAL double *w, int way, int front, double tx,
                  double ty, double tz, double dt, int nx, int ny, int nz, int group_y, int group_z)
{
    const Coefficients c = coefficients_of(tx, ty, tz, dt, way);
    const INT64 points = (INT64)nx * ny * nz;
    /* Coordinates count from the first point of the sweep; strides lead to the next point of each direction. */
    const int stride_x = way, stride_y = way * nx, stride_z = way * nx * ny;
    const int lag = LOCAL_ID(0) + LOCAL_ID(1), j = BLOCK_Y * group_y + LOCAL_ID(0), k = BLOCK_Z * group_z + LOCAL_ID(1);
    const int begin = BLOCK_X * (front - group_y - group_z);
    const int end = begin + BLOCK_X < nx - 2 ? begin + BLOCK_X : nx - 2;
    const int is_row = j < ny - 2 && k < nz - 2 && begin >= 0 && begin < end;
    /* Steps until the last row's thread is at its end; the number is the same for the whole group. */
    const int rows_y = ny - 2 - BLOCK_Y * group_y, rows_z = nz - 2 - BLOCK_Z * group_z;
    const int last = (rows_y < BLOCK_Y ? rows_y : BLOCK_Y) + (rows_z < BLOCK_Z ? rows_z : BLOCK_Z) - 2;
    const int steps = begin >= 0 && begin < end && last >= 0 ? end - begin + last : 0;
    const INT64 origin = way > 0 ? 1 + nx + nx * ny : points - 2 - nx - nx * ny;
    const INT64 row = origin + j * stride_y + (INT64)k * stride_z;
    double carried[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    if (is_row && begin > 0) contribute_from(c, u, w, points, row + (begin - 1) * stride_x, 0, carried);
    for (int step = 0; step < steps; step++) {
        const int i = begin + step - lag;
        if (is_row && i >= begin && i < end) {
            const INT64 at = row + i * stride_x;
            double here[5];
            UNROLL for (int m = 0; m < 5; m++) here[m] = carried[m] + (way > 0 ? dt * r[m * points + at] : 0.0);
            if (j > 0) contribute_from(c, u, w, points, at - stride_y, 1, here);
            if (k > 0) contribute_from(c, u, w, points, at - stride_z, 2, here);
            const Flow flow = flow_at(u, points, at);
            solve(c, flow, here);
            UNROLL for (int m = 0; m < 5; m++) {
                if (way < 0) here[m] += w[m * points + at];
                w[m * points + at] = here[m];
                carried[m] = 0.0;
            }
            contribute(c, flow, here, 0, carried);
        }
        BARRIER();
    }
}

/* The forward sweep of one front: computes w from the residual r, on the interior. tx, ty, tz are the inverse mesh
 * widths. Threads: ny - 2, nz - 2. The fronts are 0 .. bx + by + bz - 3, where bx is the number of blocks in x, and
 * so on. */
KERNEL(16, 8, 1) forward(IN(double, u, [5][nz][ny][nx]), IN(double, r, [5][nz][ny][nx]),
                         INOUT(double, w, [5][nz][ny][nx]), int front, double tx, double ty, double tz, double dt,
                         int nx, int ny, int nz)
{
    REGION(u); REGION(r); REGION(w);
    sweep(u, r, w, 1, front, tx, ty, tz, dt, nx, ny, nz, GROUP_ID(0), GROUP_ID(1));
}

/* The backward sweep of one front: turns the w of the forward sweep into the correction. Threads and fronts as
 * above. */
KERNEL(16, 8, 1) backward(IN(double, u, [5][nz][ny][nx]), INOUT(double, w, [5][nz][ny][nx]), int front, double tx,
                          double ty, double tz, double dt, int nx, int ny, int nz)
{
    REGION(u); REGION(w);
    sweep(u, w, w, -1, front, tx, ty, tz, dt, nx, ny, nz, GROUP_ID(0), GROUP_ID(1));
}

/* The forward sweep of one front of each zone of a batch. A zone with fewer fronts than others has nothing to do in the
 * last ones. */
KERNEL(16, 8, 1) forward_of_zones(IN(double, u, numbers), IN(double, r, numbers), INOUT(double, w, numbers),
                                  IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]),
                                  INT64 numbers, INT64 inside, int zone_count, int first_group, int group_count,
                                  int front, double tx, double ty, double tz, double dt)
{
    REGION(u); REGION(r); REGION(w); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    int columns = groups_for(zone.ny - 2, BLOCK_Y);
    sweep(u + zone.field, r + zone.field, w + zone.field, 1, front, tx, ty, tz, dt, zone.nx, zone.ny, zone.nz,
          zone.group % columns, zone.group / columns);
}

/* The backward sweep of one front of each zone of a batch. */
KERNEL(16, 8, 1) backward_of_zones(IN(double, u, numbers), INOUT(double, w, numbers),
                                   IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]),
                                   INT64 numbers, INT64 inside, int zone_count, int first_group, int group_count,
                                   int front, double tx, double ty, double tz, double dt)
{
    REGION(u); REGION(w); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    int columns = groups_for(zone.ny - 2, BLOCK_Y);
    sweep(u + zone.field, w + zone.field, w + zone.field, -1, front, tx, ty, tz, dt, zone.nx, zone.ny, zone.nz,
          zone.group % columns, zone.group / columns);
}
