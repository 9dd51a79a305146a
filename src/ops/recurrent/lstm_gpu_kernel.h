/* One step of an LSTM over rows of gates in the order i, f, g, o. Before this text: A, the dtype of everything.
 *
 *   step   gates (rows, 4 width) become their activations in place; before (the cells), cells and out have rows of
 *          width
 *   back   from the gradients of the output and of h and c after the step (dc becomes that of `before`): the gradient
 *          of the gates */
#if defined(__OPENCL_VERSION__)
#define TANH tanh
#else
#define TANH(x) (WIDE ? tanh(x) : tanhf(x))
#endif
INLINE A squash(const A x) { return 1 / (1 + EXP(-x)); }

#ifdef KERNEL_step
KERNEL(entry)
(PTR(gates), PTR(before), PTR(cells), PTR(out), const int64_t n, const int width) {
    for (int64_t at = (int64_t)BLOCK * THREADS + THREAD; at < n; at += (int64_t)BLOCKS * THREADS) {
        GLOBAL A *row = AT(A, gates) + at / width * 4 * width + at % width;
        const A i = squash(row[0]), f = squash(row[width]), g = TANH(row[2 * width]), o = squash(row[3 * width]);
        const A c = f * AT(const A, before)[at] + i * g;
        row[0] = i;
        row[width] = f;
        row[2 * width] = g;
        row[3 * width] = o;
        AT(A, cells)[at] = c;
        AT(A, out)[at] = o * TANH(c);
    }
}
#endif

#ifdef KERNEL_back
KERNEL(entry)
(PTR(gates), PTR(before), PTR(cells), PTR(grad), PTR(dh), PTR(dc), PTR(dgates), const int64_t n, const int width) {
    for (int64_t at = (int64_t)BLOCK * THREADS + THREAD; at < n; at += (int64_t)BLOCKS * THREADS) {
        const int64_t place = at / width * 4 * width + at % width;
        GLOBAL const A *row = AT(const A, gates) + place;
        GLOBAL A *to = AT(A, dgates) + place;
        const A i = row[0], f = row[width], g = row[2 * width], o = row[3 * width], t = TANH(AT(const A, cells)[at]);
        const A h = AT(const A, grad)[at] + AT(const A, dh)[at], c = AT(const A, dc)[at] + h * o * (1 - t * t);
        to[0] = c * g * i * (1 - i);
        to[width] = c * AT(const A, before)[at] * f * (1 - f);
        to[2 * width] = c * i * (1 - g * g);
        to[3 * width] = h * t * o * (1 - o);
        AT(A, dc)[at] = c * f;
    }
}
#endif
