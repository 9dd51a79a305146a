/* What combine.c and combine_half.isa.c combine with. */
#ifndef TPI_COMBINE_CHOICES_H
#define TPI_COMBINE_CHOICES_H
#include <stdint.h>
#include <string.h>

#define SAME(x)       (x)
#define PLUS(a, b)    ((a) + (b))
#define TIMES(a, b)   ((a) * (b))
#define LARGER(a, b)  ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

/* The larger and the smaller of two floats, and NaN of anything and NaN: chosen by bits, since a branch on elements in
 * no order is guessed wrong every other time. */
#define CHOICES(T, bits, suffix)                                                                    \
    static inline T choose_##suffix(bool second, T a, T b) {                                        \
        bits x, y;                                                                                  \
        memcpy(&x, &a, sizeof x);                                                                   \
        memcpy(&y, &b, sizeof y);                                                                   \
        x ^= (x ^ y) & -(bits)second;                                                               \
        memcpy(&a, &x, sizeof a);                                                                   \
        return a;                                                                                   \
    }                                                                                               \
    static inline T larger_##suffix(T a, T b) { return choose_##suffix((b > a) | (b != b), a, b); } \
    static inline T smaller_##suffix(T a, T b) { return choose_##suffix((b < a) | (b != b), a, b); }
CHOICES(float, uint32_t, f32)
CHOICES(double, uint64_t, f64)
#endif
