/* See order.h. */
#include "ops/sort/order.h"
#include "ops/native.h"

#define RADIX_CHUNK 65536
#define SHORT_ROW   48 /* insertion sort below */

int tpi_key_bits(tp_dtype dtype) {
    if (dtype == TP_INT64 || dtype == TP_UINT64 || dtype == TP_FLOAT64) return 64;
    return tp_dtype_is_complex(dtype) ? 0 : 32;
}

/* ---- Keys ---- */
static inline uint64_t key_u8(uint8_t v) { return v; }
static inline uint64_t key_u16(uint16_t v) { return v; }
static inline uint64_t key_u32(uint32_t v) { return v; }
static inline uint64_t key_u64(uint64_t v) { return v; }
static inline uint64_t key_i8(int8_t v) { return (uint8_t)v ^ 0x80u; }
static inline uint64_t key_i16(int16_t v) { return (uint16_t)v ^ 0x8000u; }
static inline uint64_t key_i32(int32_t v) { return (uint32_t)v ^ 0x80000000u; }
static inline uint64_t key_i64(int64_t v) { return (uint64_t)v ^ (uint64_t)1 << 63; }
/* Without branches, so that loops over them vectorise. A negative number's bits are turned round. */
static inline uint64_t key_f32(float v) {
    union {
        float f;
        uint32_t u;
    } bits = {v == 0 ? 0.0f : v};
    const uint32_t key = bits.u ^ ((uint32_t)((int32_t)bits.u >> 31) | 0x80000000u);
    return v != v ? UINT32_MAX : key;
}
static inline uint64_t key_f64(double v) {
    union {
        double f;
        uint64_t u;
    } bits = {v == 0 ? 0.0 : v};
    const uint64_t key = bits.u ^ ((uint64_t)((int64_t)bits.u >> 63) | (uint64_t)1 << 63);
    return v != v ? UINT64_MAX : key;
}
static inline uint64_t key_f16(uint16_t v) { /* in the upper half, as bfloat16's are */
    const uint16_t bits = v == 0x8000u ? 0 : v;
    const uint16_t key = (uint16_t)(bits ^ (bits & 0x8000u ? 0xffffu : 0x8000u));
    return (v & 0x7fffu) > 0x7c00u ? UINT32_MAX : (uint32_t)key << 16;
}
static inline uint64_t key_bf16(uint16_t v) { return key_f32(tpi_bf16_to_float(v)); }

#define EACH(type, key)                                                                                        \
    if (stride == sizeof(type))                                                                                \
        for (int64_t i = 0; i < n; i++) out[i] = key(((const type *)(const void *)from)[i]) ^ flip;            \
    else                                                                                                       \
        for (int64_t i = 0; i < n; i++) out[i] = key(*(const type *)(const void *)(from + i * stride)) ^ flip; \
    break

void tpi_keys(uint64_t *out, const char *from, int64_t stride, int64_t n, tp_dtype dtype, bool descending) {
    uint64_t flip = !descending ? 0 : tpi_key_bits(dtype) == 32 ? UINT32_MAX : UINT64_MAX;
    switch (dtype) {
    case TP_BOOL:
    case TP_UINT8: EACH(uint8_t, key_u8);
    case TP_UINT16: EACH(uint16_t, key_u16);
    case TP_UINT32: EACH(uint32_t, key_u32);
    case TP_UINT64: EACH(uint64_t, key_u64);
    case TP_INT8: EACH(int8_t, key_i8);
    case TP_INT16: EACH(int16_t, key_i16);
    case TP_INT32: EACH(int32_t, key_i32);
    case TP_INT64: EACH(int64_t, key_i64);
    case TP_FLOAT16: EACH(uint16_t, key_f16);
    case TP_BFLOAT16: EACH(uint16_t, key_bf16);
    case TP_FLOAT32: EACH(float, key_f32);
    default: EACH(double, key_f64);
    }
}

bool tpi_key_is_nan(uint64_t key, tp_dtype dtype) {
    return tp_dtype_is_floating(dtype) && key == (tpi_key_bits(dtype) == 32 ? UINT32_MAX : UINT64_MAX);
}

/* ---- Sorting and selecting ---- */
#define ITEM       uint64_t
#define KEY(x)     ((x) >> 32)
#define BYTES      4
#define LESS(a, b) ((a) < (b))
#define NAME(x)    packed_##x
#include "ops/sort/order_typed.h"

#define ITEM       tpi_pair
#define KEY(x)     ((x).key)
#define BYTES      8
#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).at < (b).at))
#define NAME(x)    pair_##x
#include "ops/sort/order_typed.h"

/* ---- Rows ---- */
bool tpi_row_order_new(tpi_row_order *o, int64_t n, tp_dtype dtype) {
    o->packed = tpi_key_bits(dtype) == 32 && n < UINT32_MAX;
    o->n = n;
    size_t each = (size_t)n * (o->packed ? sizeof(uint64_t) : sizeof(tpi_pair));
    int64_t chunks = n > RADIX_CHUNK ? tpi_ceil_div(n, RADIX_CHUNK) : 1;
    o->bytes = 2 * each + sizeof(int64_t[256]) * (size_t)chunks;
    o->items = tpi_alloc(o->bytes);
    o->scratch = o->items ? (char *)o->items + each : NULL;
    o->offsets = o->items ? (void *)((char *)o->items + 2 * each) : NULL;
    o->block = o->items;
    return o->items != NULL;
}

void tpi_row_order_free(tpi_row_order *o) {
    if (o->block) tpi_free(o->block, o->bytes);
    o->block = NULL;
}

typedef struct load_job {
    const tpi_row_order *o;
    const tpi_row *row;
} load_job;

static void load_chunk(int64_t chunk, void *context) {
    const load_job *j = context;
    const tpi_row *row = j->row;
    uint64_t keys[512];
    int64_t i = chunk * RADIX_CHUNK, end = i + RADIX_CHUNK < j->o->n ? i + RADIX_CHUNK : j->o->n;
    for (; i < end; i += 512) {
        int64_t n = end - i < 512 ? end - i : 512;
        tpi_keys(keys, row->from + i * row->stride, row->stride, n, row->dtype, row->descending);
        if (j->o->packed) {
            uint64_t *to = (uint64_t *)j->o->items + i;
            for (int64_t k = 0; k < n; k++) to[k] = keys[k] << 32 | (uint64_t)(i + k);
        } else {
            tpi_pair *to = (tpi_pair *)j->o->items + i;
            for (int64_t k = 0; k < n; k++) to[k] = (tpi_pair){keys[k], (uint64_t)(i + k)};
        }
    }
}

void tpi_row_order_load(tpi_row_order *o, const tpi_row *row) {
    load_job j = {.o = o, .row = row};
    int64_t chunks = tpi_ceil_div(o->n, RADIX_CHUNK);
    tpi_parallel_for(chunks, chunks > 1, load_chunk, &j);
}

void tpi_row_order_sort(tpi_row_order *o) {
    void *sorted = o->packed ? (void *)packed_sort(o->items, o->scratch, o->n, o->offsets)
                             : (void *)pair_sort(o->items, o->scratch, o->n, o->offsets);
    if (sorted == o->items) return;
    o->scratch = o->items;
    o->items = sorted;
}

void tpi_row_order_select(tpi_row_order *o, int64_t k) {
    bool found = false;
    if (k > 0 && k < o->n)
        found = o->packed ? packed_front(o->items, o->scratch, o->n, k) : pair_front(o->items, o->scratch, o->n, k);
    int64_t all = o->n;
    o->n = found ? k : all;
    tpi_row_order_sort(o);
    o->n = all;
}

int64_t tpi_row_order_kth(const tpi_row_order *o, int64_t k) {
    if (o->packed) return (int64_t)(uint32_t)packed_kth(o->items, o->scratch, o->n, k);
    return (int64_t)pair_kth(o->items, o->scratch, o->n, k).at;
}

int64_t tpi_row_order_count(const tpi_row_order *o, uint64_t key) {
    int64_t count = 0;
    if (o->packed)
        for (int64_t i = 0; i < o->n; i++) count += ((const uint64_t *)o->items)[i] >> 32 == key;
    else
        for (int64_t i = 0; i < o->n; i++) count += ((const tpi_pair *)o->items)[i].key == key;
    return count;
}
