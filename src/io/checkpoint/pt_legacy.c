/* Reading the format that PyTorch wrote before it took to zip archives: five pickles (a magic number, a protocol
 * number, facts about the machine, the value, the keys of its storages), then for each storage the number of its
 * elements and their bytes. It has no checksums. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/zip_format.h"

/* How every such file begins: protocol 2 or later, and the magic number as a ten-byte integer. */
static const unsigned char magic[] = {0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
enum { PROTOCOL = 1001, WINDOW = 1 << 20 };

/* Behind the protocol's opcode; a frame of protocol 4 may stand between. */
bool tpi_pt_is_legacy(const tpi_source *s) {
    unsigned char head[2 + 9 + sizeof magic];
    size_t n = s->bytes < sizeof head ? (size_t)s->bytes : sizeof head;
    if (n < 2 + sizeof magic || !tpi_source_read(s, 0, head, n) || head[0] != 0x80) return false;
    size_t at = head[2] == 0x95 ? 11 : 2;
    return n >= at + sizeof magic && memcmp(head + at, magic, sizeof magic) == 0;
}

static void *refuse(const tp_file *f, const char *what) {
    return tpi_fail(TP_ERR_IO, "'%s' is not a valid file of PyTorch's old format: %s", f->source.path, what);
}

/* The five pickles in the window; *used: their bytes. */
static tp_saved *read_pickles(tp_file *f, const unsigned char *window, size_t bytes, size_t *used, tp_saved **keys,
                              bool *cut) {
    tpi_pickle p = tpi_file_pickle(f);
    tp_saved *parts[5] = {0};
    *used = 0;
    for (int i = 0; i < 5; i++) {
        size_t n;
        parts[i] = tpi_pickle_read(&p, window + *used, bytes - *used, &n, cut);
        if (!parts[i]) return NULL;
        *used += n;
    }
    if (!tpi_is_int(parts[1]) || parts[1]->as.number.as.i != PROTOCOL) return refuse(f, "its protocol is not 1001");
    const tp_saved *order = parts[2]->kind == TP_SAVED_DICT && tp_saved_has(parts[2], "little_endian")
                                ? tp_saved_get(parts[2], "little_endian")
                                : NULL;
    f->swapped = order && tpi_is_bool(order) && !order->as.number.as.i;
    *keys = parts[4];
    return parts[3];
}

/* Where each storage's bytes are. */
static bool locate(tp_file *f, const tp_saved *keys, uint64_t at) {
    if (keys->kind != TP_SAVED_LIST) return refuse(f, "its list of storages is none");
    for (int64_t i = 0; i < keys->n; i++) {
        const tp_saved *key = keys->as.items.v[i];
        tpi_store *s = key->kind == TP_SAVED_TEXT ? tpi_file_store(f, key->as.text) : NULL;
        unsigned char count[8];
        if (!s) return refuse(f, "it lists a storage that nothing looks at");
        if (!tpi_source_read(&f->source, at, count, sizeof count)) return false;
        if (f->swapped)
            for (int k = 0; k < 4; k++) {
                unsigned char c = count[k];
                count[k] = count[7 - k];
                count[7 - k] = c;
            }
        if (get64(count) != (uint64_t)s->numel) return refuse(f, "a storage has another size than its pickle says");
        s->at = at + 8;
        s->swapped = f->swapped;
        if ((uint64_t)s->bytes > f->source.bytes - s->at) return refuse(f, "a storage reaches beyond its end");
        at = s->at + (uint64_t)s->bytes;
    }
    f->end = at;
    for (int64_t i = 0; i < f->stores_capacity; i++)
        if (f->stores[i] && !f->stores[i]->at) return refuse(f, "a storage is not listed");
    return true;
}

/* The pickles' length stands nowhere: a window at the start of the file is read, and a larger one where they go on
 * beyond it. */
tp_saved *tpi_pt_read_legacy(tp_file *f) {
    for (size_t most = WINDOW;; most *= 8) {
        size_t bytes = f->source.bytes < most ? (size_t)f->source.bytes : most, used;
        unsigned char *window = tpi_malloc(bytes);
        if (!window) return NULL;
        tp_saved *keys = NULL;
        bool cut = false;
        tp_saved *value =
            tpi_source_read(&f->source, 0, window, bytes) ? read_pickles(f, window, bytes, &used, &keys, &cut) : NULL;
        tpi_mfree(window);
        if (value) return locate(f, keys, used) ? value : NULL;
        if (!cut || bytes == f->source.bytes) return NULL;
        tp_error_clear();
    }
}
