/* Triangular systems, a thread per right-hand side. Before this text: A the type, float or double, of all elements; UPPER, UNIT: the diagonal counts as ones.
 * Matrix number b begins at b * n * n and has the strides `down` and `across`; a right-hand side has the stride `step`, the next one is `next` further on,
 * and those of the next matrix `matrix`. The solutions take their places. */
KERNEL(entry)(PTR(a), PTR(x), const int64_t systems, const int64_t sides, const int n, const int64_t down, const int64_t across, const int64_t step, const int64_t next,
              const int64_t matrix) {
    const int64_t i = (int64_t)BLOCK * THREADS + THREAD, b = i / sides;
    if (b >= systems) return;
    GLOBAL const A *m = AT(const A, a) + b * n * n;
    GLOBAL A *v = AT(A, x) + b * matrix + (i - b * sides) * next;
    for (int s = 0; s < n; s++) {
        const int row = UPPER ? n - 1 - s : s;
        A sum = v[row * step];
        for (int t = 0; t < s; t++) {
            const int k = UPPER ? n - 1 - t : t;
            sum -= m[row * down + k * across] * v[k * step];
        }
        v[row * step] = UNIT ? sum : sum / m[row * (down + across)];
    }
}
