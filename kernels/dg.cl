/* The gradient kernel of a discontinuous Galerkin method, written by hand (counterpart: examples/loops/dg.rs, whose
 * kernel is generated from a loop). Elements have 4 x 4 points; a group takes one element, a thread one of its
 * points. */

#define NX 4
#define POINTS 16

/* x, y <- x, y plus dt times the gradient */
KERNEL(16, 1, 1) advance_by_hand(IN(double, der, 16), IN(double, delta, 16), IN(double, weights, 4), double dt,
                                 INOUT(double, x, 16 * elements), INOUT(double, y, 16 * elements), int elements)
{
    REGION(der); REGION(delta); REGION(weights); REGION(x); REGION(y);
    LOCAL(double, x_here, POINTS);
    LOCAL(double, y_here, POINTS);
    int point = LOCAL_ID(0), k = point % NX, l = point / NX;
    for (INT64 element = GROUP_ID(0); element < elements; element += NUM_GROUPS(0)) {
        x_here[point] = x[element * POINTS + point];
        y_here[point] = y[element * POINTS + point];
        BARRIER();
        double outer = 0.0;
        for (int j = 0; j < NX; j++) {
            double inner = 0.0;
            for (int i = 0; i < NX; i++) {
                double along = delta[j * NX + l] * x_here[j * NX + i] * der[k * NX + i];
                double across = delta[k * NX + i] * y_here[j * NX + i] * der[l * NX + j];
                inner += (along + across) * weights[i];
            }
            outer += inner * weights[j];
        }
        x[element * POINTS + point] = x_here[point] + dt * outer;
        y[element * POINTS + point] = y_here[point] + dt * outer;
        BARRIER();
    }
}
