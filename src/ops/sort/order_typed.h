/* One item type's sorting for order.c: a stable radix sort, least significant byte first, and selection.
 * Before including: ITEM, KEY(item) the part to sort by as uint64_t, BYTES how many of its bytes count, LESS(a, b) a
 * strict total order that agrees with KEY, NAME(x). */

static void NAME(insertion)(ITEM *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        ITEM v = x[i];
        int64_t j = i;
        for (; j > 0 && KEY(v) < KEY(x[j - 1]); j--) x[j] = x[j - 1];
        x[j] = v;
    }
}

/* One pass of one thread: counts were taken before. */
static void NAME(deal)(ITEM *to, const ITEM *from, int64_t n, int shift, int64_t *offsets) {
    for (int64_t i = 0; i < n; i++) to[offsets[KEY(from[i]) >> shift & 255]++] = from[i];
}

typedef struct NAME(pass) {
    const ITEM *from;
    ITEM *to;
    int64_t n;
    int shift;
    int64_t (*offsets)[256]; /* per chunk */
} NAME(pass);

static void NAME(count_chunk)(int64_t chunk, void *context) {
    NAME(pass) *p = context;
    int64_t i = chunk * RADIX_CHUNK, end = i + RADIX_CHUNK < p->n ? i + RADIX_CHUNK : p->n, *count = p->offsets[chunk];
    memset(count, 0, sizeof *p->offsets);
    for (; i < end; i++) count[KEY(p->from[i]) >> p->shift & 255]++;
}

static void NAME(deal_chunk)(int64_t chunk, void *context) {
    NAME(pass) *p = context;
    int64_t i = chunk * RADIX_CHUNK, end = i + RADIX_CHUNK < p->n ? i + RADIX_CHUNK : p->n;
    NAME(deal)(p->to, p->from + i, end - i, p->shift, p->offsets[chunk]);
}

/* Counts become offsets: all of a digit stand together, chunk after chunk. true if one digit has them all. */
static bool NAME(counts_to_offsets)(int64_t (*offsets)[256], int64_t chunks, int64_t n) {
    int64_t at = 0;
    for (int digit = 0; digit < 256; digit++) {
        int64_t before = at;
        for (int64_t c = 0; c < chunks; c++) {
            int64_t count = offsets[c][digit];
            offsets[c][digit] = at;
            at += count;
        }
        if (at - before == n) return true;
    }
    return false;
}

/* offsets: space for as many counters as there are chunks. */
static ITEM *NAME(radix)(ITEM *items, ITEM *scratch, int64_t n, int64_t (*offsets)[256]) {
    int64_t chunks = tpi_ceil_div(n, RADIX_CHUNK);
    NAME(pass) p = {.from = items, .to = scratch, .n = n, .offsets = offsets};
    for (int byte = 0; byte < BYTES; byte++) {
        p.shift = byte * 8;
        tpi_parallel_for(chunks, chunks > 1, NAME(count_chunk), &p);
        if (NAME(counts_to_offsets)(offsets, chunks, n)) continue;
        tpi_parallel_for(chunks, chunks > 1, NAME(deal_chunk), &p);
        ITEM *done = p.to;
        p.to = (ITEM *)p.from;
        p.from = done;
    }
    return (ITEM *)p.from;
}

static ITEM *NAME(sort)(ITEM *items, ITEM *scratch, int64_t n, int64_t (*offsets)[256]) {
    if (n > SHORT_ROW) return NAME(radix)(items, scratch, n, offsets);
    NAME(insertion)(items, n);
    return items;
}

static ITEM NAME(middle)(ITEM a, ITEM b, ITEM c) {
    if (LESS(b, a)) {
        ITEM t = a;
        a = b;
        b = t;
    }
    return LESS(c, a) ? a : LESS(c, b) ? c : b;
}

/* Quickselect; false if it did not settle within a generous number of steps (the caller sorts then). */
static bool NAME(quickselect)(ITEM *x, int64_t n, int64_t k) {
    int64_t low = 0, high = n;
    for (int tries = 0; high - low > 16; tries++) {
        if (tries > 120) return false;
        ITEM pivot = NAME(middle)(x[low], x[low + (high - low) / 2], x[high - 1]);
        int64_t i = low - 1, j = high;
        for (;;) {
            do i++;
            while (LESS(x[i], pivot));
            do j--;
            while (LESS(pivot, x[j]));
            if (i >= j) break;
            ITEM t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
        if (k <= j + 1)
            high = j + 1;
        else
            low = j + 1;
    }
    for (int64_t i = low + 1; i < high; i++) {
        ITEM v = x[i];
        int64_t j = i;
        for (; j > low && LESS(v, x[j - 1]); j--) x[j] = x[j - 1];
        x[j] = v;
    }
    return true;
}

/* Few of many: a sorted list of the best so far, in scratch. */
static void NAME(best_few)(ITEM *best, const ITEM *x, int64_t n, int64_t k) {
    int64_t have = 0;
    for (int64_t i = 0; i < n; i++) {
        if (have == k && !LESS(x[i], best[k - 1])) continue;
        int64_t j = have < k ? have++ : k - 1;
        for (; j > 0 && LESS(x[i], best[j - 1]); j--) best[j] = best[j - 1];
        best[j] = x[i];
    }
}

/* The k smallest to the front of items, in the order they had; false if that was not found cheaply. */
static bool NAME(front)(ITEM *items, ITEM *scratch, int64_t n, int64_t k) {
    if (k <= 32) {
        NAME(best_few)(scratch, items, n, k);
        memcpy(items, scratch, sizeof(ITEM) * (size_t)k);
        return true;
    }
    memcpy(scratch, items, sizeof(ITEM) * (size_t)n);
    if (!NAME(quickselect)(scratch, n, k)) return false;
    ITEM last = scratch[k - 1];
    int64_t kept = 0;
    for (int64_t i = 0; kept < k; i++) {
        items[kept] = items[i];
        kept += !LESS(last, items[i]);
    }
    return true;
}

/* The k-th smallest, from 0, as a stable sort would have it: of the items, those that share the next digit with it are
 * kept, in the order they had, until no digit is left. What was in both arrays is lost. */
static ITEM NAME(kth)(ITEM *items, ITEM *scratch, int64_t n, int64_t k) {
    for (int byte = BYTES - 1; byte >= 0 && n > 1; byte--) {
        int64_t count[256] = {0}, kept = 0;
        const int shift = byte * 8;
        for (int64_t i = 0; i < n; i++) count[KEY(items[i]) >> shift & 255]++;
        uint64_t digit = 0;
        while (k >= count[digit]) k -= count[digit++];
        if (count[digit] == n) continue;
        for (int64_t i = 0; i < n; i++) {
            scratch[kept] = items[i];
            kept += (KEY(items[i]) >> shift & 255) == digit;
        }
        ITEM *other = items;
        items = scratch;
        scratch = other;
        n = kept;
    }
    return items[k];
}
#undef ITEM
#undef KEY
#undef BYTES
#undef LESS
#undef NAME
