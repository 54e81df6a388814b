/* The phases of NPB's conjugate gradients. Counterparts: src/solver.rs and src/kernels.rs. Source: NASA report
 * RNR-94-007, section 2.4.
 *
 * A vector argument is one block of rows, except for the vector that a matrix is multiplied by. The scalars of the
 * iteration are in buffers, so that subsequent tasks find them in device memory. Kernels add their part to a scalar
 * named `sum`. Needs csr.h and reduce.h. */

/* Adds the sum of all threads' parts to `sum`. */
#define ADD_TO(sum, part)                                                                                              \
    do {                                                                                                               \
        double of_group = sum_of_threads(numbers, LOCAL_ID(0), 256, part);                                             \
        if (LOCAL_ID(0) == 0) ATOMIC_ADD(sum, of_group);                                                               \
    } while (0)

/* z <- 0, r <- x, p <- x, sum += x . x */
KERNEL(256, 1, 1) begin(IN(double, x, n), OUT(double, z, n), OUT(double, r, n), OUT(double, p, n),
                        INOUT(double, sum, 1), int n)
{
    REGION(x); REGION(z); REGION(r); REGION(p); REGION(sum);
    LOCAL(double, numbers, 256);
    int i = GLOBAL_ID(0);
    double here = i < n ? x[i] : 0.0;
    if (i < n) {
        z[i] = 0.0;
        r[i] = here;
        p[i] = here;
    }
    ADD_TO(sum, here * here);
}

/* q <- A p, sum += p . q, where the block's rows begin at `first`. Takes LANES threads per row. */
KERNEL(256, 1, 1) multiply(IN(unsigned, offsets, rows + 1), IN(unsigned, columns, entries), IN(double, values, entries),
                           IN(double, p, width), OUT(double, q, rows), INOUT(double, sum, 1), int first, int rows,
                           int entries, int width)
{
    REGION(offsets); REGION(columns); REGION(values); REGION(p); REGION(q); REGION(sum);
    LOCAL(double, numbers, 256);
    int row = GLOBAL_ID(0) / LANES, lane = GLOBAL_ID(0) % LANES;
    double part = row < rows ? part_of_row(offsets, columns, values, p, row, lane, entries, width) : 0.0;
    double product = sum_of_threads(numbers, LOCAL_ID(0), LANES, part);
    int leads = row < rows && lane == 0;
    if (leads) q[row] = product;
    unsigned own = (unsigned)first + row;
    ADD_TO(sum, leads && own < width ? product * p[own] : 0.0);
}

/* r <- r - a q with a = rho / p_dot_q, sum += r . r */
KERNEL(256, 1, 1) update_residual(IN(double, rho, 1), IN(double, p_dot_q, 1), IN(double, q, n), INOUT(double, r, n),
                                  INOUT(double, sum, 1), int n)
{
    REGION(rho); REGION(p_dot_q); REGION(q); REGION(r); REGION(sum);
    LOCAL(double, numbers, 256);
    int i = GLOBAL_ID(0);
    double here = 0.0;
    if (i < n) {
        here = r[i] - rho[0] / p_dot_q[0] * q[i];
        r[i] = here;
    }
    ADD_TO(sum, here * here);
}

/* z <- z + a p, next <- r + b p with a = rho / p_dot_q, b = the next rho / rho */
KERNEL(256, 1, 1) advance(IN(double, rho, 2), IN(double, p_dot_q, 1), IN(double, r, n), INOUT(double, z, n),
                          IN(double, p, n), OUT(double, next, n), int n)
{
    REGION(rho); REGION(p_dot_q); REGION(r); REGION(z); REGION(p); REGION(next);
    int i = GLOBAL_ID(0);
    if (i < n) {
        z[i] += rho[0] / p_dot_q[0] * p[i];
        next[i] = r[i] + rho[1] / rho[0] * p[i];
    }
}

/* first, second <- from. Takes one thread. */
KERNEL(1, 1, 1) pass_on(IN(double, from, 1), OUT(double, first, 1), OUT(double, second, 1))
{
    REGION(from); REGION(first); REGION(second);
    first[0] = from[0];
    second[0] = from[0];
}

/* residual += |x - A z|^2, x_dot_z += x . z, z_dot_z += z . z. Takes LANES threads per row. */
KERNEL(256, 1, 1) norms(IN(unsigned, offsets, rows + 1), IN(unsigned, columns, entries), IN(double, values, entries),
                        IN(double, x, rows), IN(double, z, width), INOUT(double, residual, 1),
                        INOUT(double, x_dot_z, 1), INOUT(double, z_dot_z, 1), int first, int rows, int entries,
                        int width)
{
    REGION(offsets); REGION(columns); REGION(values); REGION(x); REGION(z);
    REGION(residual); REGION(x_dot_z); REGION(z_dot_z);
    LOCAL(double, numbers, 256);
    int row = GLOBAL_ID(0) / LANES, lane = GLOBAL_ID(0) % LANES;
    double part = row < rows ? part_of_row(offsets, columns, values, z, row, lane, entries, width) : 0.0;
    double product = sum_of_threads(numbers, LOCAL_ID(0), LANES, part);
    int leads = row < rows && lane == 0;
    unsigned own = (unsigned)first + row;
    double x_here = leads ? x[row] : 0.0, z_here = leads && own < width ? z[own] : 0.0;
    double missing = leads ? x_here - product : 0.0;
    ADD_TO(residual, missing * missing);
    ADD_TO(x_dot_z, x_here * z_here);
    ADD_TO(z_dot_z, z_here * z_here);
}

/* outcome <- (zeta, |x - A z|). Takes one thread. */
KERNEL(1, 1, 1) zeta(IN(double, residual, 1), IN(double, x_dot_z, 1), OUT(double, outcome, 2), double shift)
{
    REGION(residual); REGION(x_dot_z); REGION(outcome);
    outcome[0] = shift + 1.0 / x_dot_z[0];
    outcome[1] = sqrt(residual[0]);
}

/* x <- z / |z| */
KERNEL(256, 1, 1) normalise(IN(double, z_dot_z, 1), IN(double, z, n), OUT(double, x, n), int n)
{
    REGION(z_dot_z); REGION(z); REGION(x);
    int i = GLOBAL_ID(0);
    if (i < n) x[i] = 1.0 / sqrt(z_dot_z[0]) * z[i];
}
