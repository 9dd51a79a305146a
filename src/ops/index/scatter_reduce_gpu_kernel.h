/* How scatter_reduce and its kin combine two values on GPUs: REDUCE says how; WHOLE: integers; A the type to sum in. A
 * mean is a sum that is divided at the end. */
#ifndef JOINED_H
#define JOINED_H
#define SUM      0
#define PRODUCT  1
#define MEAN     2
#define LARGEST  3
#define SMALLEST 4
#if WHOLE
typedef int64_t joined_t;
#else
typedef A joined_t;
#endif
INLINE joined_t joined(const joined_t v, const joined_t s) {
#if REDUCE == PRODUCT
    return v * s;
#elif REDUCE == LARGEST
    return s > v || s != s ? s : v;
#elif REDUCE == SMALLEST
    return s < v || s != s ? s : v;
#else
    return v + s;
#endif
}
INLINE joined_t finished(joined_t v, const int64_t count) {
#if REDUCE == MEAN
#if WHOLE
    return v / count - (v % count != 0 && v < 0); /* rounded down */
#else
    return v / (joined_t)count;
#endif
#else
    return v;
#endif
}
#endif
