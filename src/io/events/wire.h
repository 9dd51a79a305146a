/* Protocol buffers on the wire: writing messages into a growing block of bytes, and walking through the fields of one.
 * Writing has no results to check: the first allocation that fails marks the block, what follows does nothing, and the
 * one who made the block looks at `failed` at the end. Fields are written as they are called for, in any order; a value
 * that is the type's default is written too, unless the caller leaves it out. */
#ifndef TPI_WIRE_H
#define TPI_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tpi_wire {
    unsigned char *data; /* tpi_malloc's */
    size_t n, capacity;
    bool failed; /* memory ran out; the error is pending */
} tpi_wire;

void tpi_wire_free(tpi_wire *w); /* and makes it empty */
void tpi_wire_raw(tpi_wire *w, const void *data, size_t bytes);
void *tpi_wire_reserve(tpi_wire *w,
                       size_t bytes); /* room for so many bytes at the end, counted as written; NULL if there is none */

void tpi_wire_int(tpi_wire *w, int field, int64_t v); /* int32, int64, bool and enums */
void tpi_wire_double(tpi_wire *w, int field, double v);
void tpi_wire_float(tpi_wire *w, int field, float v);
void tpi_wire_bytes(tpi_wire *w, int field, const void *data, size_t bytes);
void tpi_wire_text(tpi_wire *w, int field, const char *text);             /* NULL and "": nothing */
void tpi_wire_doubles(tpi_wire *w, int field, const double *v, size_t n); /* packed */
void tpi_wire_floats(tpi_wire *w, int field, const float *v, size_t n);
void tpi_wire_varint(tpi_wire *w, uint64_t v); /* an element of a packed list of integers */

/* A message inside of the message: open, write its fields, close with what open returned. */
size_t tpi_wire_open(tpi_wire *w, int field);
void tpi_wire_close(tpi_wire *w, size_t opened);

/* ---- Reading ---- */
typedef struct tpi_field {
    int number;
    int type;                  /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t bits;             /* of types 0, 1 and 5 */
    const unsigned char *data; /* of type 2 */
    size_t bytes;
} tpi_field;
/* The field at *at, which moves behind it; false at the end or where the bytes are no message (then *at is not
 * `bytes`). */
bool tpi_wire_next(const unsigned char *data, size_t bytes, size_t *at, tpi_field *field);
double tpi_field_double(const tpi_field *f); /* of types 1 and 5 */
#endif
