/* NumPy's files: .npz, zip archives of .npy members as np.savez and np.savez_compressed write and np.load reads them,
 * and single .npy files. bfloat16, which NumPy does not know, is marked in the member's comment. */
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/formats.h"
#include "io/checkpoint/npy.h"

static const char suffix[] = ".npy";
enum { SUFFIX = sizeof suffix - 1 };
static const char bfloat16_mark[] = "bfloat16";

/* ---- Saving ---- */

static bool save_one(tpi_zip_writer *w, const char *name, tp_tensor *t) {
    size_t n = strlen(name);
    char header[TPI_NPY_HEADER_BYTES], *member = tpi_malloc(n + SUFFIX + 1);
    tp_tensor *here = member ? tpi_on_host(t) : NULL;
    bool ok = false;
    if (here && tpi_npy_has((tp_dtype)t->dtype, name)) {
        memcpy(member, name, n);
        memcpy(member + n, suffix, SUFFIX + 1);
        size_t length = tpi_npy_write(header, (tp_dtype)t->dtype, tpi_shape(t));
        tpi_zip_piece pieces[2] = {{header, length}, {here->data, (size_t)t->numel * tpi_itemsize(t)}};
        ok = tpi_zip_add(w, member, t->dtype == TP_BFLOAT16 ? bfloat16_mark : NULL, 2, pieces);
    }
    tp_release(here);
    tpi_mfree(member);
    return ok;
}

bool tpi_npz_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    tpi_zip_writer *w =
        tpi_zip_create(path, NULL, TPI_ALIGN); /* so that elements can be used where they are when the file is mapped */
    for (int64_t i = 0; w && i < n; i++) {
        if (save_one(w, names[i], tensors[i])) continue;
        tpi_zip_abandon(w);
        return false;
    }
    return w && tpi_zip_commit(w);
}

/* ---- Reading ---- */

typedef struct bytes {      /* a member's, or the file's */
    tpi_zip_stream *stream; /* NULL: the file's */
    const tpi_source *source;
    uint64_t at, bytes;
    const char *name;
} bytes;

static bool read_bytes(bytes *b, void *out, size_t n) {
    if (b->stream) return tpi_zip_read(b->stream, out, n);
    b->at += n;
    return tpi_source_read(b->source, b->at - n, out, n);
}

static bool read_header(bytes *b, bool is_bfloat16, tpi_npy *header, uint64_t *length) {
    unsigned char prefix[12];
    if (!read_bytes(b, prefix, 8)) return false;
    if (memcmp(prefix, "\x93NUMPY", 6) != 0)
        return tpi_refuse(TP_ERR_IO, "array '%s': it does not start as a NumPy array", b->name);
    if (prefix[6] < 1 || prefix[6] > 3)
        return tpi_refuse(TP_ERR_MISSING, "array '%s': expected version 1 to 3 of NumPy's format, got %d", b->name,
                          prefix[6]);
    size_t wide = prefix[6] == 1 ? 2 : 4, n = 0;
    if (!read_bytes(b, prefix + 8, wide)) return false;
    for (size_t i = wide; i-- > 0;) n = n << 8 | prefix[8 + i];
    *length = 8 + wide + n;
    if (*length > b->bytes || n > 1 << 20)
        return tpi_refuse(TP_ERR_IO, "array '%s': its header of %zu bytes is too long", b->name, n);
    char *text = tpi_malloc(n + 1);
    bool ok = text && read_bytes(b, text, n) && tpi_npy_parse(header, text, n, is_bfloat16, b->name);
    tpi_mfree(text);
    return ok;
}

/* The header's promise must be exactly what follows it. */
static tp_saved *read_array(tp_file *f, bytes *b, const tpi_zip_member *m, const char *key) {
    tpi_npy header;
    uint64_t length;
    if (!read_header(b, m && strcmp(m->comment, bfloat16_mark) == 0, &header, &length)) return NULL;
    tpi_store *store = tpi_arena_new(&f->arena, sizeof *store);
    if (!store) return NULL;
    *store = (tpi_store){.key = key,
                         .dtype = header.dtype,
                         .dtype_name = tp_dtype_name(header.dtype),
                         .member = m,
                         .at = length,
                         .swapped = header.swapped};
    tp_ints shape = tp_ints_view(header.shape, header.ndim);
    tp_saved *array = tpi_file_array(f, store, shape, header.fortran);
    if (array && (uint64_t)store->bytes != b->bytes - length)
        return tpi_fail(TP_ERR_IO, "array '%s': shape %s of %s does not fit its %llu bytes", key, tpi_shape_text(shape),
                        tp_dtype_name(header.dtype), (unsigned long long)(b->bytes - length));
    return array;
}

static bool add_member(tp_file *f, tp_saved *dict, const tpi_zip_member *m) {
    size_t n = strlen(m->name);
    if (n < SUFFIX || strcmp(m->name + n - SUFFIX, suffix) != 0) return true; /* not an array */
    tp_saved *key = tpi_saved_text(&f->arena, TP_SAVED_TEXT, m->name, n - SUFFIX);
    tpi_zip_stream *s = key ? tpi_zip_begin(&f->zip, m) : NULL;
    if (!s) return false;
    bytes b = {.stream = s, .bytes = m->bytes, .name = key->as.text};
    tp_saved *array = read_array(f, &b, m, key->as.text);
    tpi_zip_stop(s);
    return array && tpi_saved_put(&f->arena, dict, key, array);
}

tp_saved *tpi_npz_read(tp_file *f) {
    tp_saved *dict = tpi_saved_new(&f->arena, TP_SAVED_DICT);
    for (int64_t i = 0; dict && i < f->zip.n; i++)
        if (!add_member(f, dict, &f->zip.members[i])) return NULL;
    if (dict && dict->n == 0 && f->zip.n)
        return tpi_fail(TP_ERR_IO, "'%s' is a zip archive with neither PyTorch's data.pkl nor NumPy's arrays in it",
                        f->zip.source.path);
    return dict;
}

bool tpi_npy_is(const tpi_source *s) {
    char magic[6];
    return s->bytes >= sizeof magic && tpi_source_read(s, 0, magic, sizeof magic) &&
           memcmp(magic, "\x93NUMPY", sizeof magic) == 0;
}

tp_saved *tpi_npy_read(tp_file *f) {
    bytes b = {.source = &f->source, .bytes = f->source.bytes, .name = f->source.path};
    return read_array(f, &b, NULL, f->source.path);
}
