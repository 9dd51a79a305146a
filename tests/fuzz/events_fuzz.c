/* TensorBoard's event files: as they are, or (the first byte is odd) one record with right checksums around the input.
 */
#include "fuzz.h"
#include "io/events/records.h"

enum { LONGEST = 1 << 16 };

static void look_at(const tp_point *point, void *context) {
    for (size_t i = 0; point->tag && i < point->tag_bytes; i++) *(unsigned *)context += (unsigned char)point->tag[i];
}

static void put_little(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t record[TPI_RECORD_HEAD + LONGEST + TPI_RECORD_TAIL];
    fuzz_begin();
    if (n < 1 || n > LONGEST) return -1;
    const uint8_t *file = data + 1;
    size_t bytes = n - 1;
    if (data[0] & 1) {
        put_little(record, bytes, 8);
        put_little(record + 8, tpi_record_crc(record, 8), 4);
        memcpy(record + TPI_RECORD_HEAD, file, bytes);
        put_little(record + TPI_RECORD_HEAD + bytes, tpi_record_crc(file, bytes), 4);
        file = record;
        bytes += TPI_RECORD_HEAD + TPI_RECORD_TAIL;
    }
    unsigned sum = 0;
    tp_event_file *f = tp_event_file_open(fuzz_path(file, bytes));
    tp_event_file_points(f, look_at, &sum);
    tp_event_file_points(f, look_at, &sum); /* nothing more comes */
    tp_event_file_close(f);
    return 0;
}
