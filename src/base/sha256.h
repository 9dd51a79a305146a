/* SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), with which ranks prove to each other that they know the job's
 * secret. */
#ifndef TPI_SHA256_H
#define TPI_SHA256_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TPI_SHA256_BYTES = 32 };

typedef struct tpi_sha256 {
    uint32_t state[8];
    uint64_t bytes;    /* taken so far */
    uint8_t block[64]; /* the last of them that do not fill a block */
} tpi_sha256;

void tpi_sha256_begin(tpi_sha256 *s);
void tpi_sha256_add(tpi_sha256 *s, const void *data, size_t n);
void tpi_sha256_end(tpi_sha256 *s, uint8_t digest[TPI_SHA256_BYTES]);

typedef struct tpi_hmac {
    tpi_sha256 inner, outer;
} tpi_hmac;

void tpi_hmac_begin(tpi_hmac *h, const void *key, size_t n);
void tpi_hmac_add(tpi_hmac *h, const void *data, size_t n);
void tpi_hmac_end(tpi_hmac *h, uint8_t digest[TPI_SHA256_BYTES]);

/* Takes as long for bytes that differ as for bytes that do not: a stranger learns nothing from the time. */
bool tpi_same_bytes(const void *a, const void *b, size_t n);
#endif
