/* CRC-32C (Castagnoli), the checksum of TensorFlow's record files. */
#ifndef TPI_CRC32C_H
#define TPI_CRC32C_H
#include <stddef.h>
#include <stdint.h>

uint32_t tpi_crc32c(uint32_t crc, const void *data, size_t bytes); /* crc: 0, or what came before */
#endif
