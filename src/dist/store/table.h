/* Keys and their values, and the requests that stores answer from them: what every kind of store keeps. Not locked: its
 * owner is. */
#ifndef TPI_DIST_TABLE_H
#define TPI_DIST_TABLE_H
#include <taper/base.h>

typedef struct tpi_bytes { /* from tpi_malloc; the owner frees data */
    char *data;
    size_t n;
} tpi_bytes;

/* What can be asked of a store. The value that comes with a request, and the answer:
 *   SET     the new value; none            GET     none; the value
 *   ADD     8 bytes to add to the number that the key holds as text; the sum as 8 bytes
 *   CAS     4 bytes, how long the expected value is, then the expected and the new one; the value afterwards
 *   CHECK   none; none                     DELETE  none; none
 *   COUNT   (no key) none; 8 bytes         APPEND  what to add to the value's end; none
 *   KEYS    (a prefix) none; the rest of each key that begins with it, 4 bytes of length before each
 * A value may be a queue: items with 8 bytes of length before each; a key whose queue is empty is not there.
 *   PUSH    an item for the end; none      POP     none; the first item, which leaves
 *   LENGTH  none; how many items, 8 bytes */
enum tpi_store_op {
    TPI_STORE_SET = 1,
    TPI_STORE_GET,
    TPI_STORE_ADD,
    TPI_STORE_CAS,
    TPI_STORE_CHECK,
    TPI_STORE_DELETE,
    TPI_STORE_COUNT,
    TPI_STORE_APPEND,
    TPI_STORE_KEYS,
    TPI_STORE_PUSH,
    TPI_STORE_POP,
    TPI_STORE_LENGTH
};
bool tpi_store_changes(enum tpi_store_op op); /* may a request of this kind change the table? */
enum tpi_store_answer { TPI_STORE_FULL = -2, TPI_STORE_FAILED = -1, TPI_STORE_DONE = 0, TPI_STORE_ABSENT = 1 };

typedef struct tpi_value { /* counted: an answer that is on its way may outlive it in the table */
    int64_t refs;
    size_t n;
    char data[];
} tpi_value;

typedef struct tpi_table {
    struct tpi_table_entry **buckets;
    size_t nbuckets;
    int64_t count;
    size_t bytes;            /* of keys and values, and of values that are still on their way */
    size_t most, most_value; /* of them, and of one value; 0: no limit */
} tpi_table;

void tpi_table_free(tpi_table *table);
tpi_value *tpi_table_find(tpi_table *table, const char *key,
                          size_t key_bytes);             /* one more reference to its value; NULL: it has none */
void tpi_table_drop(tpi_table *table, tpi_value *value); /* that reference ends; NULL is fine */
/* Answers one request. out may be NULL where no answer is wanted; it is left alone unless the answer is DONE. */
enum tpi_store_answer tpi_table_ask(tpi_table *table, enum tpi_store_op op, const char *key, size_t key_bytes,
                                    const char *in, size_t n, tpi_bytes *out);
#endif
