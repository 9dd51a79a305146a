/* Record files in the writing (see taper/events.h for what they promise): one lock, one list of open files and one
 * thread that writes what has waited long enough serve all of them, so that a fork finds everything in order. */
#ifndef TPI_RECORDS_H
#define TPI_RECORDS_H
#include <taper/events.h>
#include <sys/types.h>

#define TPI_MAX_QUEUE  10
#define TPI_FLUSH_SECS 120.0

/* A new file, which must not be there yet if `exclusive`: then NULL without an error, errno EEXIST. */
tp_records *tpi_records_open(const char *path, bool exclusive, int64_t max_queue, double flush_secs);
const char *tpi_records_path(const tp_records *r);

/* A record is its length (8 bytes), the masked CRC-32C of that (4), the bytes, and their masked CRC-32C (4). */
enum { TPI_RECORD_HEAD = 12, TPI_RECORD_TAIL = 4 };
uint32_t tpi_record_crc(const void *data, size_t bytes); /* masked */
#endif
