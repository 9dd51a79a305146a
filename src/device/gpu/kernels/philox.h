/* Philox 4x32 in ten rounds: the four words of a counter. The same as tpi_philox_group on the host. `step`: a stream of
 * further words of its own for each counter, which no other call draws from; step 0 is the counter's first group. */
#ifndef PHILOX_H
#define PHILOX_H
typedef struct words4 {
    uint32_t w[4];
} words4;

INLINE words4 philox_at(const uint64_t seed, const uint64_t counter, const uint32_t step) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32), c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32),
             c2 = step, c3 = 0;
    UNROLL
    for (int round = 0; round < 10; round++) {
        const uint32_t high_a = MULHI(0xd2511f53u, c0), low_a = 0xd2511f53u * c0, high_b = MULHI(0xcd9e8d57u, c2),
                       low_b = 0xcd9e8d57u * c2;
        c0 = high_b ^ c1 ^ k0;
        c1 = low_b;
        c2 = high_a ^ c3 ^ k1;
        c3 = low_a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    words4 out;
    out.w[0] = c0;
    out.w[1] = c1;
    out.w[2] = c2;
    out.w[3] = c3;
    return out;
}
INLINE words4 philox(const uint64_t seed, const uint64_t counter) { return philox_at(seed, counter, 0); }

/* Where a kernel's draws begin: arguments DRAWS, and DRAWS_MOVED at the list's end, and in its body DRAWS_FROM(seed,
 * first). MOVED: a captured graph runs again, and the seed, and how far draws have come since, are in memory. */
#define DRAWS const uint64_t seed_then, const uint64_t first_then
#if MOVED
#define DRAWS_MOVED , PTR(moved)
#define DRAWS_FROM(seed, first) \
    const uint64_t seed = AT(uint64_t, moved)[0], first = first_then + AT(uint64_t, moved)[1];
#else
#define DRAWS_MOVED
#define DRAWS_FROM(seed, first) const uint64_t seed = seed_then, first = first_then;
#endif
#endif
