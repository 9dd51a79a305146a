/* CRC-32 as zip archives use it. */
#ifndef TPI_CRC_H
#define TPI_CRC_H
#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, which is 0 at the start. */
uint32_t tpi_crc32(uint32_t crc, const void *data, size_t bytes);
/* Of two parts that follow each other, the second of so many bytes: both parts'. */
uint32_t tpi_crc32_joined(uint32_t first, uint32_t second, size_t bytes);
#endif
