/* Fast Fourier transforms of the rows of a matrix of complex numbers (counterpart: examples/hybrid/fft2d.rs).
 *
 * There are `rows` rows of n complex numbers, with real and imaginary parts adjacent; n is a power of two, 2^bits.
 * Each group of 256 threads transforms one row in place, radix 2, decimation in time: first the numbers are
 * permuted by bit reversal of their indices, then follow `bits` stages of n / 2 butterflies each. Threads: 256 for
 * each row. */

#define TURN 6.283185307179586476925286766559

/* The lowest `bits` bits of i, reversed. */
DEVICE int reversed(int i, int bits)
{
    int result = 0;
    for (int b = 0; b < bits; b++) result |= (i >> b & 1) << (bits - 1 - b);
    return result;
}

KERNEL(256, 1, 1) fft_rows(INOUT(double, x, [rows][2 * n]), int rows, int n, int bits)
{
    REGION(x);
    int thread = LOCAL_ID(0), row = GROUP_ID(0);
    /* Groups without a row do nothing, but reach each barrier. */
    int numbers = row < rows && n == 1 << bits ? n : 0;
    GLOBAL double *own = x + (INT64)(row < rows ? row : 0) * 2 * n;
    for (int i = thread; i < numbers; i += 256) {
        int j = reversed(i, bits);
        if (i < j) {
            double re = own[2 * i], im = own[2 * i + 1];
            own[2 * i] = own[2 * j];
            own[2 * i + 1] = own[2 * j + 1];
            own[2 * j] = re;
            own[2 * j + 1] = im;
        }
    }
    for (int stage = 0; stage < bits; stage++) {
        BARRIER();
        int apart = 1 << stage;
        for (int k = thread; k < numbers / 2; k += 256) {
            int offset = k & (apart - 1), i = ((k >> stage) << (stage + 1)) + offset, j = i + apart;
            double angle = -TURN * offset / (2 * apart), c = cos(angle), s = sin(angle);
            double re = c * own[2 * j] - s * own[2 * j + 1], im = s * own[2 * j] + c * own[2 * j + 1];
            own[2 * j] = own[2 * i] - re;
            own[2 * j + 1] = own[2 * i + 1] - im;
            own[2 * i] += re;
            own[2 * i + 1] += im;
        }
    }
}
