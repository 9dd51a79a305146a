/* Gradients times a number, and whether any of them was infinite or NaN: the flag is set, never cleared. Before this
 * text: A, X the dtype. */
#ifdef KERNEL_unscale
KERNEL(entry)
(PTR(grad), PTR(flag), const int64_t n, const A scale) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < n; i += (int64_t)BLOCKS * THREADS) {
        const A v = GET_X(AT(const T_X, grad)[i]);
        if (v - v != 0) AT(int, flag)[0] = 1;
        AT(T_X, grad)[i] = SET_X(v * scale);
    }
}
#endif
