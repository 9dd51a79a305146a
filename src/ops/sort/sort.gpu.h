/* A stable radix sort of keys with their places, by digits of 8 bits from the lowest on. Before this text: KEY (4 or 8
 * bytes), and for a pass FIRST (the places are the elements' own numbers, none are read) and LAST.
 *
 *   keys     elements to whole numbers in the order wanted: -0 is 0, NaN the largest; BACKWARDS turns the order round
 *   count    how often each digit occurs in each tile: counts[digit][tile]
 *   prefix   each digit's counts summed along the tiles, and the digit's total
 *   move     every key and place to where it belongs
 *
 * A block has THREADS_OF threads and a tile of TILE keys. Within a tile keys are ranked warp by warp with votes where
 * threads run in step; elsewhere by each thread's own counters, in two steps of 4 bits. */
#define THREADS_OF 256
#define ITEMS      (KEY == 8 ? 8 : 16) /* as shared memory has room */
#define TILE       (THREADS_OF * ITEMS)
#if KEY == 8
typedef uint64_t key_t;
#else
typedef uint32_t key_t;
#endif
#if defined(__OPENCL_VERSION__)
#define COUNT_UP(at) atomic_inc(at)
#else
#define COUNT_UP(at) atomicAdd(at, 1)
#endif
#define DIGIT(key) ((int)((key) >> shift) & 255)

#ifdef KERNEL_keys
KERNEL(entry)
(PTR(out), PTR(in), const int64_t n) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < n; i += (int64_t)BLOCKS * THREADS) {
        const T_X x = AT(const T_X, in)[i];
        key_t key;
#if FLOATING == 8
        const double v = x;
        union {
            double f;
            uint64_t u;
        } bits;
        bits.f = v == 0 ? 0 : v;
        key = v != v ? ~(key_t)0 : bits.u >> 63 ? ~bits.u : bits.u | (uint64_t)1 << 63;
#elif FLOATING
        const float v = GET_X(x);
        const uint32_t bits = F32_BITS(v == 0 ? 0.0f : v);
        key = v != v ? ~(key_t)0 : bits >> 31 ? (key_t)~bits : (key_t)(bits | 0x80000000u);
#elif KEY == 8
        key = (key_t)((uint64_t)GET_X(x) ^ (uint64_t)1 << 63);
#else
        key = (key_t)((uint32_t)(int32_t)GET_X(x) ^ 0x80000000u);
#endif
#if BACKWARDS
        key = ~key;
#endif
        AT(key_t, out)[i] = key;
    }
}
#endif

#ifdef KERNEL_count
KERNEL(entry)
(PTR(counts), PTR(keys), const int64_t n, const int shift, const int tiles) {
    SHARED int bins[256];
    bins[THREAD] = 0;
    BARRIER();
    const int64_t from = (int64_t)BLOCK * TILE;
    for (int i = THREAD; i < TILE; i += THREADS_OF)
        if (from + i < n) COUNT_UP(&bins[DIGIT(AT(const key_t, keys)[from + i])]);
    BARRIER();
    AT(int, counts)[(int64_t)THREAD * tiles + BLOCK] = bins[THREAD];
}
#endif

/* A block per digit. */
#ifdef KERNEL_prefix
KERNEL(entry)
(PTR(counts), PTR(totals), const int tiles) {
    SHARED int room[THREADS_OF];
    GLOBAL int *row = AT(int, counts) + (int64_t)BLOCK * tiles;
    int before = 0;
    for (int from = 0; from < tiles; from += THREADS_OF) {
        const int at = from + THREAD, own = at < tiles ? row[at] : 0;
        int sum = own;
        room[THREAD] = sum;
        BARRIER();
        for (int by = 1; by < THREADS_OF; by *= 2) {
            const int more = THREAD >= by ? room[THREAD - by] : 0;
            BARRIER();
            sum += more;
            room[THREAD] = sum;
            BARRIER();
        }
        if (at < tiles) row[at] = before + sum - own;
        before += room[THREADS_OF - 1];
        BARRIER();
    }
    if (THREAD == 0) AT(int, totals)[BLOCK] = before;
}
#endif

#ifdef KERNEL_move
/* Sums of what the threads before this one have. */
INLINE int before_me(const int own, SHARED_OF int *room) {
    int sum = own;
    room[THREAD] = sum;
    BARRIER();
    for (int by = 1; by < THREADS_OF; by *= 2) {
        const int more = THREAD >= by ? room[THREAD - by] : 0;
        BARRIER();
        sum += more;
        room[THREAD] = sum;
        BARRIER();
    }
    return sum - own;
}

KERNEL(entry)
(PTR(keys_out), PTR(places_out), PTR(keys), PTR(places), PTR(counts), PTR(totals), const int64_t n, const int shift,
 const int tiles) {
    SHARED key_t tile_keys[TILE];
    SHARED int tile_places[TILE];
    SHARED int room[THREADS_OF], start[256], base[256];
    const int64_t from = (int64_t)BLOCK * TILE, left = n - from;
    const int count = left < TILE ? (int)left : TILE;

    /* Where each digit's stretch begins among all keys: the digits before it, then the tiles before this one. */
    base[THREAD] =
        before_me(AT(const int, totals)[THREAD], room) + AT(const int, counts)[(int64_t)THREAD * tiles + BLOCK];
    BARRIER();

#if defined(__OPENCL_VERSION__)
    /* Two stable rounds of 4 bits within the tile: a thread has ITEMS neighbours and counts its own digits. */
    SHARED ushort counter[16 * THREADS_OF];
    for (int i = THREAD; i < TILE; i += THREADS_OF) {
        const int there = i < count;
        tile_keys[i] = there ? AT(const key_t, keys)[from + i] : ~(key_t)0;
        tile_places[i] = there ? (FIRST ? (int)(from + i) : AT(const int, places)[from + i]) : -1;
    }
    BARRIER();
    for (int half_digit = 0; half_digit < 2; half_digit++) {
        key_t key[ITEMS];
        int place[ITEMS], rank[ITEMS];
        for (int d = 0; d < 16; d++) counter[d * THREADS_OF + THREAD] = 0;
        for (int i = 0; i < ITEMS; i++) {
            const int at = THREAD * ITEMS + i;
            key[i] = tile_keys[at], place[i] = tile_places[at];
            /* what is past the end goes last in both rounds */
            const int d = place[i] < 0 ? 15 : (int)(key[i] >> (shift + 4 * half_digit)) & 15;
            rank[i] = counter[d * THREADS_OF + THREAD]++;
        }
        BARRIER();
        int own = 0;
        for (int k = 0; k < 16; k++) own += counter[THREAD * 16 + k];
        int sum = before_me(own, room);
        for (int k = 0; k < 16; k++) {
            const int c = counter[THREAD * 16 + k];
            counter[THREAD * 16 + k] = (ushort)sum;
            sum += c;
        }
        BARRIER();
        for (int i = 0; i < ITEMS; i++) {
            const int d = place[i] < 0 ? 15 : (int)(key[i] >> (shift + 4 * half_digit)) & 15,
                      to = counter[d * THREADS_OF + THREAD] + rank[i];
            tile_keys[to] = key[i], tile_places[to] = place[i];
        }
        BARRIER();
    }
#else
    /* A warp has a stretch of the tile and takes it a row at a time: votes on every bit of the digit tell each thread
     * who has the same. */
    enum { WARPS = THREADS_OF / WARP, PER_WARP = TILE / WARPS };
#if defined(__HIP__)
    typedef unsigned long long vote_t;
#define VOTE(x) __ballot(x)
#define ONES(x) __popcll(x)
#define STEP()
#else
    typedef unsigned int vote_t;
#define VOTE(x) __ballot_sync(0xffffffffu, x)
#define ONES(x) __popc(x)
#define STEP()  __syncwarp()
#endif
    SHARED int counter[THREADS_OF / WARP][256];
    const int warp = THREAD / WARP, lane = THREAD % WARP;
    for (int i = lane; i < 256; i += WARP) counter[warp][i] = 0;
    STEP();
    key_t key[PER_WARP / WARP];
    int place[PER_WARP / WARP], rank[PER_WARP / WARP];
    UNROLL
    for (int i = 0; i < PER_WARP / WARP; i++) {
        const int at = warp * PER_WARP + i * WARP + lane, there = at < count;
        key[i] = there ? AT(const key_t, keys)[from + at] : ~(key_t)0;
        place[i] = there ? (FIRST ? (int)(from + at) : AT(const int, places)[from + at]) : -1;
    }
    UNROLL
    for (int i = 0; i < PER_WARP / WARP; i++) {
        const int at = warp * PER_WARP + i * WARP + lane, there = at < count, d = DIGIT(key[i]);
        vote_t same = VOTE(there);
        UNROLL
        for (int bit = 0; bit < 8; bit++) {
            const int on = d >> bit & 1;
            const vote_t votes = VOTE(on);
            same &= on ? votes : ~votes;
        }
        const int earlier = ONES(same & (((vote_t)1 << lane) - 1)), all = ONES(same);
        rank[i] = there ? counter[warp][d] + earlier : 0;
        STEP();
        if (there && earlier == 0) counter[warp][d] += all;
        STEP();
    }
    BARRIER();
    /* The warps' counters of a digit summed up in order, behind the digits before it. */
    int own = 0;
    for (int w = 0; w < WARPS; w++) own += counter[w][THREAD];
    int sum = before_me(own, room);
    for (int w = 0; w < WARPS; w++) {
        const int c = counter[w][THREAD];
        counter[w][THREAD] = sum;
        sum += c;
    }
    BARRIER();
    UNROLL
    for (int i = 0; i < PER_WARP / WARP; i++)
        if (place[i] >= 0) {
            const int to = counter[warp][DIGIT(key[i])] + rank[i];
            tile_keys[to] = key[i], tile_places[to] = place[i];
        }
    BARRIER();
#endif
    /* The tile is sorted: a digit's stretch begins where the digit before it ends. */
    start[THREAD] = 0;
    BARRIER();
    for (int i = THREAD; i < count; i += THREADS_OF) {
        const int d = DIGIT(tile_keys[i]);
        if (i == 0 || DIGIT(tile_keys[i - 1]) != d) start[d] = i;
    }
    BARRIER();
    for (int i = THREAD; i < count; i += THREADS_OF) {
        const int d = DIGIT(tile_keys[i]);
        const int64_t to = (int64_t)base[d] + i - start[d];
        AT(key_t, keys_out)[to] = tile_keys[i];
        AT(int, places_out)[to] = tile_places[i];
    }
}
#endif

/* What sorted places mean: the element there, and its number within its row. One row's sorted keys (DECODE) say what
 * the element is, which spares a look at its place, but for zeros, whose sign they do not know, and NaN. */
#ifdef KERNEL_pick
KERNEL(entry)
(PTR(values), PTR(indices), PTR(in), PTR(places), PTR(keys), const int64_t rows, const int n, const int k) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < rows * k; i += (int64_t)BLOCKS * THREADS) {
#if DECODE
        const int place = AT(const int, places)[i];
        key_t key = AT(const key_t, keys)[i];
#if BACKWARDS
        key = ~key;
#endif
        AT(int64_t, indices)[i] = place;
#if FLOATING == 8
        union {
            double f;
            uint64_t u;
        } bits;
        bits.u = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
        AT(T_X, values)[i] = bits.f == 0 || bits.f != bits.f ? AT(const T_X, in)[place] : bits.f;
#elif FLOATING
        const float v = BITS_F32((uint32_t)(key >> 31 ? key & 0x7fffffffu : ~key));
        AT(T_X, values)[i] = v == 0 || v != v ? AT(const T_X, in)[place] : SET_X(v);
#elif KEY == 8
        AT(T_X, values)[i] = SET_X((int64_t)(key ^ (uint64_t)1 << 63));
#else
        AT(T_X, values)[i] = SET_X((int32_t)(key ^ 0x80000000u));
#endif
#else
        const int place = AT(const int, places)[i / k * n + i % k];
        AT(T_X, values)[i] = AT(const T_X, in)[place];
        AT(int64_t, indices)[i] = place % n;
#endif
    }
}
#endif

/* The row of each sorted place, as the next key. */
#ifdef KERNEL_rows
KERNEL(entry)
(PTR(keys), PTR(places), const int64_t total, const int n) {
    for (int64_t i = (int64_t)BLOCK * THREADS + THREAD; i < total; i += (int64_t)BLOCKS * THREADS)
        AT(key_t, keys)[i] = (key_t)(AT(const int, places)[i] / n);
}
#endif
