/* CRC-32C by tables: eight bytes a step, any processor, any byte order. */
#include "io/events/crc32c.h"
#include <pthread.h>

static uint32_t table[8][256]; /* table[k][b]: what byte b does to the sum, k bytes later */

static void fill_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++) table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t tpi_crc32c(uint32_t crc, const void *data, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
    const unsigned char *p = data;
    crc = ~crc;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^ table[4][crc >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; bytes; p++, bytes--) crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}
