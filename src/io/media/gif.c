/* A GIF encoder. Each frame has a palette of its own: its colours as they are if there are at most 256 of them,
 * otherwise the means of the boxes that median cut finds on colours of 5 bits a channel. The indices are packed by LZW
 * with codes of growing length. */
#include "io/media/gif.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

#define COLOURS 256
#define CELLS   32768 /* colours of 5 bits a channel */
#define SLOTS   1024  /* of the hash table of exact colours */

typedef struct palette {
    uint8_t rgb[COLOURS][3];
    int n;
    bool exact;
    uint32_t slot_colour[SLOTS]; /* exact: colour + 1 -> index */
    uint8_t slot_index[SLOTS];
    uint8_t index_of_cell[CELLS]; /* otherwise */
    uint32_t count[CELLS], sum[CELLS][3];
    uint16_t order[CELLS]; /* cells that are used, in the order of their boxes */
} palette;

/* ---- Exact colours ---- */

static uint32_t colour_at(const uint8_t *p) { return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]; }

static uint32_t slot_of(const palette *q, uint32_t colour) { /* where it is, or where it would go */
    uint32_t slot = colour * 2654435761u >> 22;
    while (q->slot_colour[slot] && q->slot_colour[slot] != colour + 1) slot = (slot + 1) % SLOTS;
    return slot;
}

static bool exact_palette(palette *q, const uint8_t *pixels, int64_t n) {
    memset(q->slot_colour, 0, sizeof q->slot_colour);
    q->n = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t colour = colour_at(pixels + 3 * i), slot = slot_of(q, colour);
        if (q->slot_colour[slot]) continue;
        if (q->n == COLOURS) return false;
        q->slot_colour[slot] = colour + 1;
        q->slot_index[slot] = (uint8_t)q->n;
        memcpy(q->rgb[q->n++], pixels + 3 * i, 3);
    }
    return true;
}

/* ---- Median cut ---- */
typedef struct box {       /* cells order[from] to order[to - 1] */
    int from, to, channel; /* the widest one */
    uint64_t pixels;
    int width; /* in that channel */
} box;

static int cell_of(const uint8_t *p) { return (p[0] >> 3) << 10 | (p[1] >> 3) << 5 | p[2] >> 3; }
static int level(int cell, int channel) { return cell >> (10 - 5 * channel) & 31; }

static void measure(const palette *q, box *b) {
    int low[3] = {31, 31, 31}, high[3] = {0, 0, 0};
    b->pixels = 0;
    for (int i = b->from; i < b->to; i++) {
        b->pixels += q->count[q->order[i]];
        for (int c = 0; c < 3; c++) {
            int v = level(q->order[i], c);
            low[c] = v < low[c] ? v : low[c];
            high[c] = v > high[c] ? v : high[c];
        }
    }
    b->channel = 0;
    for (int c = 1; c < 3; c++)
        if (high[c] - low[c] > high[b->channel] - low[b->channel]) b->channel = c;
    b->width = high[b->channel] - low[b->channel];
}

/* The box's cells in the order of its channel (32 levels: a stable counting sort), cut where half of the pixels are on
 * either side. */
static void split(palette *q, box *b, box *upper, uint16_t *scratch) {
    int n = b->to - b->from, start[33] = {0};
    for (int i = b->from; i < b->to; i++) start[level(q->order[i], b->channel) + 1]++;
    for (int v = 0; v < 32; v++) start[v + 1] += start[v];
    for (int i = b->from; i < b->to; i++) scratch[start[level(q->order[i], b->channel)]++] = q->order[i];
    memcpy(q->order + b->from, scratch, sizeof *scratch * (size_t)n);
    uint64_t half = 0;
    int cut = b->from;
    while (cut < b->to - 1 && (cut == b->from || half + q->count[q->order[cut]] <= b->pixels / 2))
        half += q->count[q->order[cut++]];
    *upper = (box){.from = cut, .to = b->to};
    b->to = cut;
    measure(q, b);
    measure(q, upper);
}

static void cut_palette(palette *q, const uint8_t *pixels, int64_t n, uint16_t *scratch) {
    memset(q->count, 0, sizeof q->count);
    memset(q->sum, 0, sizeof q->sum);
    for (int64_t i = 0; i < n; i++) {
        int cell = cell_of(pixels + 3 * i);
        q->count[cell]++;
        for (int c = 0; c < 3; c++) q->sum[cell][c] += pixels[3 * i + c];
    }
    box boxes[COLOURS] = {{0}};
    for (int cell = 0; cell < CELLS; cell++)
        if (q->count[cell]) q->order[boxes[0].to++] = (uint16_t)cell;
    measure(q, &boxes[0]);
    for (q->n = 1; q->n < COLOURS; q->n++) {
        int largest = -1;
        for (int i = 0; i < q->n; i++)
            if (boxes[i].width && (largest < 0 || boxes[i].pixels * (uint64_t)boxes[i].width >
                                                      boxes[largest].pixels * (uint64_t)boxes[largest].width))
                largest = i;
        if (largest < 0) break;
        split(q, &boxes[largest], &boxes[q->n], scratch);
    }
    for (int i = 0; i < q->n; i++) {
        uint64_t sum[3] = {0};
        for (int k = boxes[i].from; k < boxes[i].to; k++) {
            q->index_of_cell[q->order[k]] = (uint8_t)i;
            for (int c = 0; c < 3; c++) sum[c] += q->sum[q->order[k]][c];
        }
        for (int c = 0; c < 3; c++) q->rgb[i][c] = (uint8_t)((sum[c] + boxes[i].pixels / 2) / boxes[i].pixels);
    }
}

static uint8_t index_of(const palette *q, const uint8_t *p) {
    return q->exact ? q->slot_index[slot_of(q, colour_at(p))] : q->index_of_cell[cell_of(p)];
}

/* ---- LZW ---- */
typedef struct packer { /* codes into blocks of at most 255 bytes */
    tpi_wire *out;
    uint32_t bits;
    int held; /* bits that wait */
    uint8_t block[256];
    int used;
} packer;

static void end_block(packer *p) {
    if (!p->used) return;
    tpi_wire_raw(p->out, &(uint8_t){(uint8_t)p->used}, 1);
    tpi_wire_raw(p->out, p->block, (size_t)p->used);
    p->used = 0;
}
static void put_byte(packer *p) {
    p->block[p->used++] = (uint8_t)p->bits;
    p->bits >>= 8;
    if (p->used == 255) end_block(p);
}
static void put_code(packer *p, int code, int bits) {
    p->bits |= (uint32_t)code << p->held;
    for (p->held += bits; p->held >= 8; p->held -= 8) put_byte(p);
}

enum { CLEAR = 256, END = 257, FIRST = 258, CODES = 4096 };

/* children[prefix][byte] is the code of the text of `prefix` followed by `byte`, 0 if there is none yet. */
static void pack_frame(tpi_wire *out, const palette *q, const uint8_t *pixels, int64_t n, uint16_t (*children)[256]) {
    packer p = {.out = out};
    int bits = 9, next = FIRST, prefix = index_of(q, pixels);
    tpi_wire_raw(out, &(uint8_t){8}, 1);
    put_code(&p, CLEAR, bits);
    memset(children, 0, sizeof *children * CODES);
    for (int64_t i = 1; i < n; i++) {
        int byte = index_of(q, pixels + 3 * i), code = children[prefix][byte];
        if (code) {
            prefix = code;
            continue;
        }
        put_code(&p, prefix, bits);
        if (next < CODES) {
            children[prefix][byte] = (uint16_t)next;
            if (next++ == 1 << bits) bits++;
        } else {
            put_code(&p, CLEAR, bits);
            memset(children, 0, sizeof *children * CODES);
            bits = 9;
            next = FIRST;
        }
        prefix = byte;
    }
    put_code(&p, prefix, bits);
    if (next == 1 << bits && bits < 12) bits++; /* the reader has made one more code by now */
    put_code(&p, END, bits);
    if (p.held) put_byte(&p);
    end_block(&p);
    tpi_wire_raw(out, &(uint8_t){0}, 1);
}

/* ---- The file ---- */

static void two_bytes(tpi_wire *out, int64_t v) { tpi_wire_raw(out, (uint8_t[]){(uint8_t)v, (uint8_t)(v >> 8)}, 2); }

static void write_header(tpi_wire *out, int64_t height, int64_t width) {
    tpi_wire_raw(out, "GIF89a", 6);
    two_bytes(out, width);
    two_bytes(out, height);
    tpi_wire_raw(out, (uint8_t[]){0x70, 0, 0}, 3);                        /* no palette for all */
    tpi_wire_raw(out, "\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00", 19); /* for ever */
}

void tpi_gif_encode(tpi_wire *out, const uint8_t *pixels, int64_t frames, int64_t height, int64_t width, int delay) {
    palette *q = tpi_malloc(sizeof *q);
    uint16_t(*children)[256] = tpi_malloc(sizeof *children * CODES);
    if (!q || !children) {
        out->failed = true;
        frames = 0;
    }
    int64_t n = height * width;
    write_header(out, height, width);
    for (int64_t f = 0; f < frames; f++, pixels += 3 * n) {
        q->exact = exact_palette(q, pixels, n);
        if (!q->exact) cut_palette(q, pixels, n, &children[0][0]);
        tpi_wire_raw(out, "\x21\xf9\x04\x04", 4); /* how long, and what stays: everything */
        two_bytes(out, delay);
        tpi_wire_raw(out, (uint8_t[]){0, 0, 0x2c, 0, 0, 0, 0}, 7);
        two_bytes(out, width);
        two_bytes(out, height);
        tpi_wire_raw(out, &(uint8_t){0x87}, 1); /* a palette of 256 follows */
        if (q->n < COLOURS) memset(q->rgb[q->n], 0, sizeof q->rgb[0] * (size_t)(COLOURS - q->n));
        tpi_wire_raw(out, q->rgb, sizeof q->rgb);
        pack_frame(out, q, pixels, n, children);
    }
    tpi_wire_raw(out, &(uint8_t){0x3b}, 1);
    tpi_mfree(children);
    tpi_mfree(q);
}
