/* BT-MZ's sweeps: block-tridiagonal systems along the lines of a zone, one thread per line.
 *
 * The method is block Thomas elimination without pivoting. Elimination forms the blocks from the state on the fly
 * and never stores them. For each point it stores one block and one vector in scratch memory for substitution; the
 * lines of neighbouring threads are adjacent there. The state is only read; the solution replaces the right-hand
 * side r in the interior.
 *
 * Within a line, components are ordered relative to the line's direction: density, the two transverse momenta, the
 * normal momentum, energy. So the formulas are the same in x, y and z. A flux couples a transverse momentum only to
 * density, to itself and to the normal momentum. Of the 25 entries of a block, 7 are always zero; they are neither
 * stored nor multiplied.
 *
 * The residual and the addition of a step are in operator.cl, the exchange is in pack.cl. Counterparts: src/mz/bt,
 * jacobian.rs, block5.rs, tridiagonal.rs, sweep.rs. Source: NASA report RNR-94-007, section 4.3.1, and the
 * derivatives of the fluxes given there; the elimination is the textbook algorithm. Needs npb_common.h. */

/* Numbers per point in scratch: the columns of a block, and a vector. */
#define STORED 30

/* The component at position m in the order of direction d. */
#define IN_ORDER(d, m) ((m) == 0 || (m) == 4 ? (m) : (d + (m)) % 3 + 1)

/* Weights of a direction: dt / 2h, dt c34 / h^2, dt D / h^2. */
typedef struct {
    double inviscid;
    double viscous;
    double dissipation;
} Weights;

/* A block that couples a point to the next point of its line, without the zeros. Density depends on density and
 * normal momentum; each transverse momentum on density, itself and normal momentum; the other two components on all
 * five. */
typedef struct {
    double density[2];
    double transverse[2][3];
    double normal[5];
    double energy[5];
} Coupling;

/* State that elimination carries from a point to the next: the factors of its block, its right-hand side, and the
 * negative of the coefficients in the next point's equations. */
typedef struct {
    double factors[5][5];
    double y[5];
    Coupling to_next;
} Front;

/* Computes a point's blocks in the system of its line, from the weighted inviscid and viscous Jacobians A and N (N
 * with the dissipation on its diagonal): A + N, A - N, and the columns of I + 2 N. */
DEVICE void form_blocks(Weights weights, const double *u, Coupling *to_next, Coupling *to_previous, double own[5][5])
{
    double inverse = 1.0 / u[0];
    double va = u[1] * inverse, vb = u[2] * inverse, vn = u[3] * inverse, e = u[4] * inverse;
    double transverse_squares = va * va + vb * vb, normal_square = vn * vn;
    double double_q = transverse_squares + normal_square;

    /* A */
    double w = weights.inviscid, wa = va * w, wb = vb * w, wn = vn * w;
    double normal_density = w * (0.5 * C2 * double_q - normal_square);
    double energy_density = wn * (C2 * double_q - C1 * e);
    double energy_normal = w * (C1 * e - (0.5 * C2 * double_q + C2 * normal_square));

    /* N: viscosity of the momenta and of the energy, across (g, h) and along (g43, h43) the line; heat conduction. */
    double g = weights.viscous * inverse, g43 = CON43 * g, h = (1.0 - C1C5) * g, h43 = (CON43 - C1C5) * g;
    double heat = C1C5 * g, conduction = heat * e + (h43 * normal_square + h * transverse_squares);
    double d = weights.dissipation;

    UNROLL for (int side = 0; side < 2; side++) {
        Coupling *to = side == 0 ? to_next : to_previous;
        double sign = side == 0 ? 1.0 : -1.0;
        to->density[0] = sign * d;
        to->density[1] = w;
        UNROLL for (int t = 0; t < 2; t++) {
            double v = t == 0 ? va : vb;
            to->transverse[t][0] = -(v * wn) - sign * (v * g);
            to->transverse[t][1] = wn + sign * (g + d);
            to->transverse[t][2] = v * w;
        }
        to->normal[0] = normal_density - sign * (g43 * vn);
        to->normal[1] = -(C2 * wa);
        to->normal[2] = -(C2 * wb);
        to->normal[3] = (2.0 - C2) * wn + sign * (g43 + d);
        to->normal[4] = C2 * w;
        to->energy[0] = energy_density - sign * conduction;
        to->energy[1] = sign * (h * va) - C2 * wn * va;
        to->energy[2] = sign * (h * vb) - C2 * wn * vb;
        to->energy[3] = energy_normal + sign * (h43 * vn);
        to->energy[4] = C1 * wn + sign * (heat + d);
    }

    UNROLL for (int column = 0; column < 5; column++)
        UNROLL for (int row = 0; row < 5; row++) own[column][row] = 0.0;
    double diagonal = 1.0 + 2.0 * d;
    own[0][0] = diagonal;
    own[0][1] = -2.0 * (va * g);
    own[0][2] = -2.0 * (vb * g);
    own[0][3] = -2.0 * (vn * g43);
    own[0][4] = -2.0 * conduction;
    own[1][1] = own[2][2] = diagonal + 2.0 * g;
    own[3][3] = diagonal + 2.0 * g43;
    own[1][4] = 2.0 * (va * h);
    own[2][4] = 2.0 * (vb * h);
    own[3][4] = 2.0 * (vn * h43);
    own[4][4] = diagonal + 2.0 * heat;
}

/* sum <- sum + block x */
DEVICE void add_product(Coupling block, const double *x, double *sum)
{
    sum[0] += block.density[0] * x[0] + block.density[1] * x[3];
    UNROLL for (int t = 0; t < 2; t++)
        sum[t + 1] += block.transverse[t][0] * x[0] + block.transverse[t][1] * x[t + 1] + block.transverse[t][2] * x[3];
    UNROLL for (int m = 0; m < 5; m++) {
        sum[3] += block.normal[m] * x[m];
        sum[4] += block.energy[m] * x[m];
    }
}

/* Returns a column of a block with its zeros. */
DEVICE void column_of(Coupling block, int column, double *x)
{
    x[0] = column == 0 ? block.density[0] : column == 3 ? block.density[1] : 0.0;
    UNROLL for (int t = 0; t < 2; t++) {
        x[t + 1] = column == 0       ? block.transverse[t][0]
                   : column == t + 1 ? block.transverse[t][1]
                   : column == 3     ? block.transverse[t][2]
                                     : 0.0;
    }
    x[3] = block.normal[column];
    x[4] = block.energy[column];
}

/* Replaces a block of columns by its triangular factors; the reciprocals of the pivots are on the diagonal. */
DEVICE void factor(double block[5][5])
{
    UNROLL for (int pivot = 0; pivot < 5; pivot++) {
        double inverse = 1.0 / block[pivot][pivot];
        block[pivot][pivot] = inverse;
        UNROLL for (int row = pivot + 1; row < 5; row++) block[pivot][row] *= inverse;
        UNROLL for (int column = pivot + 1; column < 5; column++)
            UNROLL for (int row = pivot + 1; row < 5; row++)
                block[column][row] -= block[pivot][row] * block[column][pivot];
    }
}

/* Replaces a right-hand side by its solution. The right-hand side is zero before position `first`. */
DEVICE void solve(const double factors[5][5], double *x, int first)
{
    UNROLL for (int column = 0; column < 4; column++)
        if (column >= first)
            UNROLL for (int row = column + 1; row < 5; row++) x[row] -= factors[column][row] * x[column];
    UNROLL for (int row = 4; row >= 0; row--) {
        UNROLL for (int column = row + 1; column < 5; column++) x[row] -= factors[column][row] * x[column];
        x[row] *= factors[row][row];
    }
}

/* The front before the first point: no coupling, and the factors of the identity. */
DEVICE Front no_front(void)
{
    Front none;
    UNROLL for (int column = 0; column < 5; column++) {
        UNROLL for (int row = 0; row < 5; row++) none.factors[column][row] = row == column ? 1.0 : 0.0;
        none.y[column] = none.to_next.normal[column] = none.to_next.energy[column] = 0.0;
    }
    UNROLL for (int t = 0; t < 2; t++) {
        none.to_next.density[t] = 0.0;
        UNROLL for (int m = 0; m < 3; m++) none.to_next.transverse[t][m] = 0.0;
    }
    return none;
}

/* Eliminates point l of a line, with the state u and the right-hand side `right`. The numbers that substitution
 * needs of a point are `lines` apart in `stored`; successive points are STORED times that apart. */
DEVICE void eliminate(Front *front, Weights weights, int l, const double *u, const double *right,
                      GLOBAL double *stored, int lines)
{
    Coupling to_next, to_previous;
    double block[5][5], y[5];
    form_blocks(weights, u, &to_next, &to_previous, block);
    GLOBAL double *before = stored + (INT64)(l - 1) * STORED * lines;
    UNROLL for (int column = 0; column < 5; column++) {
        double x[5];
        column_of(to_previous, column, x);
        solve(front->factors, x, column == 3 ? 0 : column == 4 ? 3 : column);
        if (l > 0)
            UNROLL for (int row = 0; row < 5; row++) before[(5 * column + row) * lines] = x[row];
        add_product(front->to_next, x, block[column]);
    }
    UNROLL for (int m = 0; m < 5; m++) y[m] = right[m];
    add_product(front->to_next, front->y, y);
    factor(block);
    solve(block, y, 0);
    UNROLL for (int m = 0; m < 5; m++) stored[((INT64)l * STORED + 25 + m) * lines] = y[m];
    UNROLL for (int column = 0; column < 5; column++) {
        UNROLL for (int row = 0; row < 5; row++) front->factors[column][row] = block[column][row];
        front->y[column] = y[column];
    }
    front->to_next = to_next;
}

/* Substitutes at point l, which is the last one if `last` is set. Replaces x, the solution at the next point, by
 * the solution at this one. */
DEVICE void substitute(double *x, int l, int last, GLOBAL const double *stored, int lines)
{
    double here[5];
    stored += (INT64)l * STORED * lines;
    UNROLL for (int m = 0; m < 5; m++) here[m] = stored[(25 + m) * lines];
    if (!last)
        UNROLL for (int column = 0; column < 5; column++)
            UNROLL for (int row = 0; row < 5; row++) here[row] -= stored[(5 * column + row) * lines] * x[column];
    UNROLL for (int m = 0; m < 5; m++) x[m] = here[m];
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
                state[m] = tile[IN_TILE(IN_ORDER(0, m), row, l)];
                right[m] = tile[IN_TILE(5 + IN_ORDER(0, m), row, l)];
            }
            eliminate(&front, weights, first + l, state, right, stored, lines);
        }
        BARRIER();
    }
    double x[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (int first = (length - 1) / TILE * TILE; first >= 0; first -= TILE) {
        for (int l = (length - first < TILE ? length - first : TILE) - 1; is_line && l >= 0; l--) {
            substitute(x, first + l, first + l == length - 1, stored, lines);
            UNROLL for (int m = 0; m < 5; m++) tile[IN_TILE(IN_ORDER(0, m), row, l)] = x[m];
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
    if (line >= lines) return;
    int start = 1 + row + plane + line % (nx - 2) + line / (nx - 2) * across;
    GLOBAL double *stored = scratch + line;
    Front front = no_front();
    for (int l = 0; l < length; l++) {
        double state[5], right[5];
        UNROLL for (int m = 0; m < 5; m++) {
            INT64 at = IN_ORDER(direction, m) * points + start + l * along;
            state[m] = u[at];
            right[m] = r[at];
        }
        eliminate(&front, weights, l, state, right, stored, lines);
    }
    double x[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (int l = length - 1; l >= 0; l--) {
        substitute(x, l, l == length - 1, stored, lines);
        UNROLL for (int m = 0; m < 5; m++) r[IN_ORDER(direction, m) * points + start + l * along] = x[m];
    }
}

/* Solves all lines in x. Threads: (ny - 2) (nz - 2). `scratch` has 30 (nx - 2) (ny - 2) (nz - 2) numbers. */
KERNEL(32, 1, 1) sweep_x(IN(double, u, [5][nz][ny][nx]), INOUT(double, r, [5][nz][ny][nx]),
                         INOUT(double, scratch, [30][nz - 2][ny - 2][nx - 2]), double inviscid, double viscous,
                         double dissipation, int nx, int ny, int nz)
{
    REGION(u); REGION(r); REGION(scratch);
    LOCAL(double, tile, TILE_SIZE(10));
    Weights weights = {inviscid, viscous, dissipation};
    solve_rows(tile, u, r, scratch, weights, GROUP_ID(0), nx, ny, nz);
}

/* The same for a batch. */
KERNEL(32, 1, 1) sweep_x_of_zones(IN(double, u, numbers), INOUT(double, r, numbers),
                                  INOUT(double, scratch, [30][inside]), IN(INT64, zones, [zone_count][10]),
                                  IN(int, groups, [group_count][2]), INT64 numbers, INT64 inside, int zone_count,
                                  int first_group, int group_count, double inviscid, double viscous, double dissipation)
{
    REGION(u); REGION(r); REGION(scratch); REGION(zones); REGION(groups);
    LOCAL(double, tile, TILE_SIZE(10));
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Weights weights = {inviscid, viscous, dissipation};
    solve_rows(tile, u + zone.field, r + zone.field, scratch + STORED * zone.interior, weights, zone.group, zone.nx,
               zone.ny, zone.nz);
}

/* Solves all lines in y (direction 1) or z (2). Threads: (nx - 2) times (nz - 2) or (ny - 2). `scratch` as above. */
KERNEL(64, 1, 1) sweep_yz(IN(double, u, [5][nz][ny][nx]), INOUT(double, r, [5][nz][ny][nx]),
                          INOUT(double, scratch, [30][nz - 2][ny - 2][nx - 2]), int direction, double inviscid,
                          double viscous, double dissipation, int nx, int ny, int nz)
{
    REGION(u); REGION(r); REGION(scratch);
    Weights weights = {inviscid, viscous, dissipation};
    solve_line(u, r, scratch, weights, direction, GLOBAL_ID(0), nx, ny, nz);
}

/* The same for a batch. */
KERNEL(64, 1, 1) sweep_yz_of_zones(IN(double, u, numbers), INOUT(double, r, numbers),
                                   INOUT(double, scratch, [30][inside]), IN(INT64, zones, [zone_count][10]),
                                   IN(int, groups, [group_count][2]), INT64 numbers, INT64 inside, int zone_count,
                                   int first_group, int group_count, int direction, double inviscid, double viscous,
                                   double dissipation)
{
    REGION(u); REGION(r); REGION(scratch); REGION(zones); REGION(groups);
    Zone zone = zone_of_group(zones, groups, numbers, inside, zone_count, first_group, group_count);
    Weights weights = {inviscid, viscous, dissipation};
    solve_line(u + zone.field, r + zone.field, scratch + STORED * zone.interior, weights, direction,
               64 * zone.group + LOCAL_ID(0), zone.nx, zone.ny, zone.nz);
}
