/* CRC-32: by carry-less multiplication where the processor has it, which is as fast as memory; by zlib elsewhere, or,
 * in a build without it, a byte at a time.
 *
 * The fast way keeps four remainders of 128 bits, or eight in pairs where the processor multiplies two at a time, and
 * folds 64 or 128 bytes into them at a time: multiplying a remainder by x^n mod P moves it n bits further. At the end
 * all become one, 128 bits become 64 and Barrett's reduction gives the 32 bits. Constants are x^n mod P, bits reversed,
 * for the distances that the folds go. */
#include "io/checkpoint/crc.h"
#include "base/zlib.h"
#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CLMUL __attribute__((target("pclmul,sse4.1")))
#define PAIRS __attribute__((target("vpclmulqdq,pclmul,avx2")))

CLMUL static inline __m128i fold(__m128i r, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(r, by, 0x00), high = _mm_clmulepi64_si128(r, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* n remainders that follow each other, and then `bytes` bytes, a multiple of 16, become one number. */
CLMUL static uint32_t reduce(const __m128i *r, int n, const unsigned char *p, size_t bytes) {
    const __m128i by16 = _mm_set_epi64x(0xccaa009e, 0x1751997d0), by8 = _mm_set_epi64x(0, 0x163cd6124),
                  barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i x = r[0];
    for (int i = 1; i < n; i++) x = fold(x, by16, r[i]);
    for (; bytes >= 16; p += 16, bytes -= 16) x = fold(x, by16, _mm_loadu_si128((const __m128i *)p));
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by16, 0x10)); /* 128 bits to 96 */
    __m128i high = _mm_srli_si128(x, 4);
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), by8, 0x00), high); /* to 64 */
    __m128i q = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), barrett, 0x10), low32);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(q, barrett, 0x00));
    return (uint32_t)_mm_extract_epi32(x, 1);
}

/* bytes: a multiple of 16, 64 or more; crc is the complement of what zlib calls the crc. */
CLMUL static uint32_t crc_by_folding(uint32_t crc, const unsigned char *p, size_t bytes) {
    const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    __m128i r[4];
    for (int i = 0; i < 4; i++) r[i] = _mm_loadu_si128((const __m128i *)p + i);
    r[0] = _mm_xor_si128(r[0], _mm_cvtsi32_si128((int)crc));
    for (p += 64, bytes -= 64; bytes >= 64; p += 64, bytes -= 64)
        for (int i = 0; i < 4; i++) r[i] = fold(r[i], by64, _mm_loadu_si128((const __m128i *)p + i));
    return reduce(r, 4, p, bytes);
}

/* The same for 128 bytes and more. */
PAIRS static uint32_t crc_by_pairs(uint32_t crc, const unsigned char *p, size_t bytes) {
    const __m256i by128 = _mm256_set_epi64x(0x14a7fe880, 0x1e88ef372, 0x14a7fe880, 0x1e88ef372);
    __m256i r[4];
    __m128i one[8];
    for (int i = 0; i < 4; i++) r[i] = _mm256_loadu_si256((const __m256i *)p + i);
    r[0] = _mm256_xor_si256(r[0], _mm256_inserti128_si256(_mm256_setzero_si256(), _mm_cvtsi32_si128((int)crc), 0));
    for (p += 128, bytes -= 128; bytes >= 128; p += 128, bytes -= 128)
        for (int i = 0; i < 4; i++) {
            __m256i low = _mm256_clmulepi64_epi128(r[i], by128, 0x00),
                    high = _mm256_clmulepi64_epi128(r[i], by128, 0x11);
            r[i] = _mm256_xor_si256(_mm256_xor_si256(low, high), _mm256_loadu_si256((const __m256i *)p + i));
        }
    for (int i = 0; i < 4; i++) _mm256_storeu_si256((__m256i *)one + i, r[i]);
    return reduce(one, 8, p, bytes);
}

static uint32_t by_processor(uint32_t crc, const unsigned char **data, size_t *bytes) {
    size_t part = *bytes & ~(size_t)15;
    if (part < 64 || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return crc;
    bool pairs = part >= 128 && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
    crc = ~(pairs ? crc_by_pairs : crc_by_folding)(~crc, *data, part);
    *data += part;
    *bytes -= part;
    return crc;
}
#else
static uint32_t by_processor(uint32_t crc, const unsigned char **data, size_t *bytes) {
    (void)data;
    (void)bytes;
    return crc;
}
#endif

#ifndef TPI_HAVE_ZLIB
/* Of half a byte at a time: 16 numbers. */
static uint32_t crc32_z(uint32_t crc, const unsigned char *p, size_t bytes) {
    static const uint32_t of_half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                         0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                         0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    for (crc = ~crc; bytes; p++, bytes--) {
        crc ^= *p;
        crc = of_half[crc & 15] ^ crc >> 4;
        crc = of_half[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}
#endif

uint32_t tpi_crc32(uint32_t crc, const void *data, size_t bytes) {
    const unsigned char *p = data;
    crc = by_processor(crc, &p, &bytes);
    return bytes ? (uint32_t)crc32_z(crc, p, bytes) : crc; /* zlib takes NULL for a new start */
}

static uint32_t times(uint32_t a, uint32_t b) { /* of two remainders, their product's */
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b & 1 ? b >> 1 ^ 0xedb88320 : b >> 1;
    }
    return product;
}

uint32_t tpi_crc32_joined(uint32_t first, uint32_t second, size_t bytes) {
    uint32_t power = 1u << 30, moved = 1u << 31; /* x and 1, bits reversed */
    for (uint64_t bits = 8 * (uint64_t)bytes; bits; bits >>= 1) {
        if (bits & 1) moved = times(moved, power);
        power = times(power, power);
    }
    return times(moved, first) ^ second;
}
