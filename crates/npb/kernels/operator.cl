/* The spatial operator of the multi-zone NAS benchmarks, r = scale (S(u) + forcing), and the addition of a step's
 * result.
 *
  * S(u) is the sum over the directions of central differences of the inviscid fluxes, the viscous terms, and second
  * and fourth differences of u as artificial dissipation. There is one thread per interior point. It derives the
  * quantities that it needs of its neighbours from their states, since that costs less than storing them. Only the
  * interior of a result is written.
  *
  * Counterparts: src/mz/operator/mod.rs and stencil.rs. Source: NASA report RNR-94-007, sections 3.2 and 4.2. Needs
  * npb_common.h. */

/* The state at a point and the quantities derived from it: velocities, pressure, and (1 - c1 c5) q + c1 c5 E / rho,
 * whose second difference conducts heat. */
typedef struct {
    double u[5];
    double v[3];
    double pressure;
    double heat;
} Point;

DEVICE Point point_at(GLOBAL const double *u, INT64 points, INT64 at)
{
    Point p;
    load_components(u, points, at, p.u);
    double inverse = 1.0 / p.u[0];
    UNROLL for (int c = 0; c < 3; c++) p.v[c] = p.u[c + 1] * inverse;
    double kinetic = 0.5 * (p.u[1] * p.v[0] + p.u[2] * p.v[1] + p.u[3] * p.v[2]);
    p.pressure = C2 * (p.u[4] - kinetic);
    p.heat = inverse * (C1C5 * p.u[4] + (1.0 - C1C5) * kinetic);
    return p;
}

/* Adds `weight` times the inviscid flux at a point along direction d. */
DEVICE void add_flux(double *sum, Point p, int d, double weight)
{
    double carried = weight * p.v[d];
    sum[0] += weight * p.u[d + 1];
    UNROLL for (int c = 0; c < 3; c++) sum[c + 1] += carried * p.u[c + 1];
    sum[d + 1] += weight * p.pressure;
    sum[4] += carried * (p.u[4] + p.pressure);
}

/* Adds `weight` times the quantities whose differences along direction d are the viscous terms. */
DEVICE void add_stress(double *sum, Point p, int d, double weight)
{
    UNROLL for (int c = 0; c < 3; c++) sum[c + 1] += (c == d ? CON43 * weight : weight) * p.v[c];
    sum[4] += weight * (p.heat + p.v[d] * p.v[d] * (1.0 / 6.0));
}

/* Adds the terms of direction d. The point `at` is the l-th of n on its line, and `stride` from the next. */
DEVICE void add_direction(double *sum, GLOBAL const double *u, INT64 points, INT64 at, Point here, int d, int stride,
                          int l, int n, double t)
{
    double viscous = C34 * t * t, second = DISSIPATION(d) * t * t;
    Point before = point_at(u, points, at - stride), after = point_at(u, points, at + stride);
    add_flux(sum, before, d, 0.5 * t);
    add_flux(sum, after, d, -0.5 * t);
    add_stress(sum, before, d, viscous);
    add_stress(sum, here, d, -2.0 * viscous);
    add_stress(sum, after, d, viscous);

    /* The fourth difference takes another form near the boundary, whose points do not contribute to it. */
    double fourth_before = l > 1 ? 4.0 * EPS4 : 0.0, fourth_after = l < n - 2 ? 4.0 * EPS4 : 0.0;
    double fourth_here = l == 1 || l == n - 2 ? -5.0 * EPS4 : -6.0 * EPS4;
    double far_before = l > 2 ? -EPS4 : 0.0, far_after = l < n - 3 ? -EPS4 : 0.0;
    GLOBAL const double *u_before = u + at - (l > 2 ? 2 * stride : 0), *u_after = u + at + (l < n - 3 ? 2 * stride : 0);
    UNROLL for (int m = 0; m < 5; m++) {
        sum[m] += (second + fourth_before) * before.u[m] + (fourth_here - 2.0 * second) * here.u[m] +
                  (second + fourth_after) * after.u[m];
        sum[m] += far_before * u_before[m * points] + far_after * u_after[m * points];
    }
}

/* r <- scale (S(u) + forcing) at an interior point. */
DEVICE void residual_at(GLOBAL const double *u, GLOBAL const double *forcing, GLOBAL double *r, double scale, double tx,
                        double ty, double tz, int nx, int ny, int nz, int i, int j, int k)
{
    if (i > nx - 2 || j > ny - 2 || k > nz - 2) return;
    INT64 points = (INT64)nx * ny * nz;
    int at = i + nx * (j + ny * k);
    double sum[5];
    load_components(forcing, points, at, sum);
    Point here = point_at(u, points, at);
    add_direction(sum, u, points, at, here, 0, 1, i, nx, tx);
    add_direction(sum, u, points, at, here, 1, nx, j, ny, ty);
    add_direction(sum, u, points, at, here, 2, nx * ny, k, nz, tz);
    UNROLL for (int m = 0; m < 5; m++) r[m * points + at] = scale * sum[m];
}

/* r <- scale (S(u) + forcing). Threads: nx - 2, ny - 2, nz - 2. */
KERNEL(32, 4, 1) residual(IN(double, u, [5][nz][ny][nx]), IN(double, forcing, [5][nz][ny][nx]),
                          INOUT(double, r, [5][nz][ny][nx]), double scale, double tx, double ty, double tz, int nx,
                          int ny, int nz)
{
    REGION(u); REGION(forcing); REGION(r);
    residual_at(u, forcing, r, scale, tx, ty, tz, nx, ny, nz, GLOBAL_ID(0) + 1, GLOBAL_ID(1) + 1, GLOBAL_ID(2) + 1);
}

/* The same for a batch. */
KERNEL(32, 4, 1) residual_of_zones(IN(double, u, numbers), IN(double, forcing, numbers), INOUT(double, r, numbers),
                                   IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]),
                                   INT64 numbers, INT64 inside, int zone_count, int first_group, int group_count,
                                   double scale, double tx, double ty, double tz)
{
    REGION(u); REGION(forcing); REGION(r); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Position at = position_in(zone, zone.nx - 2, zone.ny - 2);
    residual_at(u + zone.field, forcing + zone.field, r + zone.field, scale, tx, ty, tz, zone.nx, zone.ny, zone.nz,
                at.x + 1, at.y + 1, at.z + 1);
}

/* u <- u + factor change at one interior point of one component: plane is component times (nz - 2), plus the interior
 * plane in z. */
DEVICE void add_at(GLOBAL double *u, GLOBAL const double *change, double factor, int nx, int ny, int nz, int i, int j,
                   int plane)
{
    if (nz < 3 || i > nx - 2 || j > ny - 2 || plane >= 5 * (nz - 2)) return;
    int k = plane % (nz - 2) + 1, m = plane / (nz - 2);
    INT64 at = i + nx * (j + ny * (k + (INT64)nz * m));
    u[at] += factor * change[at];
}

/* u <- u + factor change. Threads: nx - 2, ny - 2, 5 (nz - 2). */
KERNEL(32, 4, 1) add(INOUT(double, u, [5][nz][ny][nx]), IN(double, change, [5][nz][ny][nx]), double factor, int nx,
                     int ny, int nz)
{
    REGION(u); REGION(change);
    add_at(u, change, factor, nx, ny, nz, GLOBAL_ID(0) + 1, GLOBAL_ID(1) + 1, GLOBAL_ID(2));
}

/* The same for a batch. */
KERNEL(32, 4, 1) add_to_zones(INOUT(double, u, numbers), IN(double, change, numbers),
                              IN(INT64, zones, [zone_count][10]), IN(int, groups, [group_count][2]), INT64 numbers,
                              INT64 inside, int zone_count, int first_group, int group_count, double factor)
{
    REGION(u); REGION(change); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Position at = position_in(zone, zone.nx - 2, zone.ny - 2);
    add_at(u + zone.field, change + zone.field, factor, zone.nx, zone.ny, zone.nz, at.x + 1, at.y + 1, at.z);
}
