/* SHA-256 and HMAC-SHA256 as their standards write them. What is hashed here is a few hundred bytes per connection. */
#include "base/sha256.h"
#include <string.h>

static const uint32_t first_state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void hash_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t low = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3,
                 high = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t one = v[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + round_words[i] + w[i];
        uint32_t two = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void tpi_sha256_begin(tpi_sha256 *s) {
    *s = (tpi_sha256){0};
    memcpy(s->state, first_state, sizeof s->state);
}

void tpi_sha256_add(tpi_sha256 *s, const void *data, size_t n) {
    const uint8_t *from = data;
    while (n) {
        size_t have = s->bytes % 64, count = 64 - have < n ? 64 - have : n;
        memcpy(s->block + have, from, count);
        s->bytes += count;
        from += count;
        n -= count;
        if (s->bytes % 64 == 0) hash_block(s->state, s->block);
    }
}

void tpi_sha256_end(tpi_sha256 *s, uint8_t digest[TPI_SHA256_BYTES]) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(s->bytes * 8 >> (56 - 8 * i));
    tpi_sha256_add(s, "\x80", 1);
    while (s->bytes % 64 != 56) tpi_sha256_add(s, "", 1);
    tpi_sha256_add(s, length, sizeof length);
    for (int i = 0; i < TPI_SHA256_BYTES; i++) digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void tpi_hmac_begin(tpi_hmac *h, const void *key, size_t n) {
    uint8_t pad[64] = {0};
    tpi_sha256_begin(&h->inner);
    if (n > sizeof pad) {
        tpi_sha256_add(&h->inner, key, n);
        tpi_sha256_end(&h->inner, pad);
        tpi_sha256_begin(&h->inner);
    } else if (n)
        memcpy(pad, key, n);
    tpi_sha256_begin(&h->outer);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36;
    tpi_sha256_add(&h->inner, pad, sizeof pad);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
    tpi_sha256_add(&h->outer, pad, sizeof pad);
}

void tpi_hmac_add(tpi_hmac *h, const void *data, size_t n) { tpi_sha256_add(&h->inner, data, n); }

void tpi_hmac_end(tpi_hmac *h, uint8_t digest[TPI_SHA256_BYTES]) {
    tpi_sha256_end(&h->inner, digest);
    tpi_sha256_add(&h->outer, digest, TPI_SHA256_BYTES);
    tpi_sha256_end(&h->outer, digest);
}

bool tpi_same_bytes(const void *a, const void *b, size_t n) {
    const volatile uint8_t *x = a, *y = b;
    uint8_t differs = 0;
    for (size_t i = 0; i < n; i++) differs |= x[i] ^ y[i];
    return differs == 0;
}
