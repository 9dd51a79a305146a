/* Windows, frequencies of Fourier transforms, and grids of places: a thread per element, which follows from its number.
 * Before this text: LARGE, A the type to compute in, Y the result's dtype, KIND as ops/creation/window.h has it.
 *
 *   window       see ops/creation/window.c
 *   frequencies  0, 1, ..., -2, -1 times step; from `half_of` on they are negative
 *   grid         rows of KIND coordinates and a one, for every place of a size, whose last dim comes first (CORNERS:
 *                -1 and 1 are the corners' middles) */
#include "each.h"
#define MAX_TERMS 8
#define PI        ((A)3.14159265358979323846)

#ifdef KERNEL_window
typedef struct terms {
    A v[MAX_TERMS];
} terms;

INLINE A bessel(A x) { /* the modified one of the first kind and order zero, by its series */
    A sum = 1, part = 1;
    const A quarter = x * x / 4;
    for (int k = 1; k < 1000 && part > sum * (A)(WIDE ? 1e-17 : 1e-8); k++) {
        part *= quarter / ((A)k * k);
        sum += part;
    }
    return sum;
}

KERNEL(entry)
(PTR(out), const int64_t n, const int64_t last, const A b, const A center, const terms t, const int count) {
    EACH(i, n) {
        const A at = (A)i / (A)last;
        A y = 1;
        if (n == 1)
            y = 1;
        else if (KIND == 1)
            y = 1 - FABS(2 * at - 1);
        else if (KIND == 2) {
            const A inside = 1 - (2 * at - 1) * (2 * at - 1);
            y = bessel(b * SQRT(inside > 0 ? inside : 0)) / bessel(b);
        } else if (KIND == 3)
            y = sin(PI * ((A)i + (A)0.5) / (A)(last + 1));
        else if (KIND == 4) {
            const A d = ((A)i - (A)last / 2) / b;
            y = EXP((A)-0.5 * d * d);
        } else if (KIND == 5)
            y = EXP(-FABS((A)i - center) / b);
        else {
            y = 0;
            for (int k = 0; k < count; k++) y += (k % 2 ? -1 : 1) * t.v[k] * cos(k * (2 * PI * at));
        }
        AT(T_Y, out)[i] = SET_Y(y);
    }
}
#endif

#ifdef KERNEL_frequencies
KERNEL(entry)
(PTR(out), const int64_t n, const int64_t half_of, const A step) {
    EACH(i, n) AT(T_Y, out)[i] = SET_Y((A)((int64_t)i < half_of ? (int64_t)i : (int64_t)i - n) * step);
}
#endif

#ifdef KERNEL_grid
KERNEL(entry)
(PTR(out), const int64_t n, const int64_t width, const int64_t height, const int64_t depth) {
    EACH(i, n) {
        const int64_t row = i / (KIND + 1), d = i % (KIND + 1), size = d == 0 ? width : d == 1 ? height : depth;
        const int64_t at = (d == 0 ? row : d == 1 ? row / width : row / width / height) % size;
        const A y = size <= 1 ? 0 : CORNERS ? -1 + 2 * (A)at / (A)(size - 1) : (2 * (A)at + 1) / (A)size - 1;
        AT(T_Y, out)[i] = SET_Y(d == KIND ? 1 : y);
    }
}
#endif
