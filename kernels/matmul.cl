/* Rows of a dense matrix product (counterpart: examples/hybrid/matmul.rs).
 *
 * c <- a b, with `rows` x `inner` numbers in a and `inner` x `columns` in b, all without gaps. A group computes a
 * square of 16 x 16 from squares of a and b that it holds in local memory. Threads: columns, rows, both rounded up
 * to 16. */

#define SIDE 16

KERNEL(16, 16, 1) multiply_rows(IN(double, a, [rows][inner]), IN(double, b, [inner][columns]),
                                OUT(double, c, [rows][columns]), int rows, int inner, int columns)
{
    REGION(a); REGION(b); REGION(c);
    LOCAL(double, left, 256);
    LOCAL(double, right, 256);
    int x = LOCAL_ID(0), y = LOCAL_ID(1), j = GLOBAL_ID(0), i = GLOBAL_ID(1);
    double sum = 0.0;
    for (int first = 0; first < inner; first += SIDE) {
        left[y * SIDE + x] = i < rows && first + x < inner ? a[(INT64)i * inner + first + x] : 0.0;
        right[y * SIDE + x] = j < columns && first + y < inner ? b[(INT64)(first + y) * columns + j] : 0.0;
        BARRIER();
        for (int k = 0; k < SIDE; k++) sum += left[y * SIDE + k] * right[k * SIDE + x];
        BARRIER();
    }
    if (i < rows && j < columns) c[(INT64)i * columns + j] = sum;
}
