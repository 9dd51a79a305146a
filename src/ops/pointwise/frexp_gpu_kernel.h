/* Mantissas, in [1/2, 1), and exponents of X's elements; n of them. */
KERNEL(entry)
(PTR(mantissa), PTR(exponent), PTR(in), const int64_t n) {
    for (int64_t e = (int64_t)BLOCK * THREADS + THREAD; e < n; e += (int64_t)BLOCKS * THREADS) {
        const A x = GET_X(AT(const T_X, in)[e]);
        int power = 0;
        A m = x;
        if (x - x == 0) { /* what is infinite, or NaN, has none */
#if defined(__OPENCL_VERSION__) || WIDE
            m = frexp(x, &power);
#else
            m = frexpf(x, &power);
#endif
        }
        AT(T_X, mantissa)[e] = SET_X(m);
        AT(int32_t, exponent)[e] = power;
    }
}
