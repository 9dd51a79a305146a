/* One pass of a radix sort: a stable sort of a tile (tile_gpu_kernel.h) by one digit of 8 bits, keys with their
 * positions. */
#if !defined(__OPENCL_VERSION__)
#if defined(__HIP__)
typedef unsigned long long vote_t;
#define VOTE(x) __ballot(x)
#define ONES(x) __popcll(x)
#define STEP()
#define FROM_BELOW(x, by) __shfl_up(x, by)
#else
typedef unsigned int vote_t;
#define VOTE(x)           __ballot_sync(0xffffffffu, x)
#define ONES(x)           __popc(x)
#define STEP()            __syncwarp()
#define FROM_BELOW(x, by) __shfl_up_sync(0xffffffffu, x, by)
#endif
#endif

/* Sums of what the threads before this one have. */
INLINE int before_me(const int own, SHARED_OF int *room) {
    int sum = own;
#if defined(__OPENCL_VERSION__)
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
#else
    UNROLL
    for (int by = 1; by < WARP; by *= 2) {
        const int more = FROM_BELOW(sum, by);
        if (THREAD % WARP >= by) sum += more;
    }
    if (THREAD % WARP == WARP - 1) room[THREAD / WARP] = sum;
    BARRIER();
    int before = 0;
    for (int w = 0; w < THREAD / WARP; w++) before += room[w];
    BARRIER();
    return before + sum - own;
#endif
}

/* The tile's keys and places, sorted by a digit, stably. A place below zero is past the end, and stays last. */
#if defined(__OPENCL_VERSION__)
#define COUNTER_ROOM (16 * THREADS_OF)
typedef ushort counter_t;
/* Two rounds of 4 bits: a thread has ITEMS neighbours and counts its own digits. */
INLINE void settle(SHARED_OF key_t *tile_keys, SHARED_OF int *tile_places, SHARED_OF counter_t *counter,
                   SHARED_OF int *room, const int shift) {
    for (int half_digit = 0; half_digit < 2; half_digit++) {
        key_t key[ITEMS];
        int place[ITEMS], rank[ITEMS];
        for (int d = 0; d < 16; d++) counter[d * THREADS_OF + THREAD] = 0;
        for (int i = 0; i < ITEMS; i++) {
            const int at = THREAD * ITEMS + i;
            key[i] = tile_keys[at];
            place[i] = tile_places[at];
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
            tile_keys[to] = key[i];
            tile_places[to] = place[i];
        }
        BARRIER();
    }
}
#else
/* A warp has a stretch of the tile and takes it a row at a time: votes on every bit of the digit tell each thread who
 * has the same. Item i of a thread is element ITEM_AT(i) of the tile. */
#define COUNTER_ROOM (THREADS_OF / WARP * 256)
typedef int counter_t;
#define ITEM_AT(i)   (THREAD / WARP * (ITEMS * WARP) + (i)*WARP + THREAD % WARP)
INLINE void settle(const key_t *key, const int *place, key_t *tile_keys, int *tile_places, counter_t *counter,
                   int *room, const int shift) {
    enum { WARPS = THREADS_OF / WARP };
    const int warp = THREAD / WARP, lane = THREAD % WARP;
    int *mine = counter + warp * 256, rank[ITEMS];
    for (int i = lane; i < 256; i += WARP) mine[i] = 0;
    STEP();
    UNROLL
    for (int i = 0; i < ITEMS; i++) {
        const int there = place[i] >= 0, d = DIGIT(key[i]);
        vote_t same = VOTE(there);
        UNROLL
        for (int bit = 0; bit < 8; bit++) {
            const int on = d >> bit & 1;
            const vote_t votes = VOTE(on);
            same &= on ? votes : ~votes;
        }
        const int earlier = ONES(same & (((vote_t)1 << lane) - 1)), all = ONES(same);
        rank[i] = there ? mine[d] + earlier : 0;
        STEP();
        if (there && earlier == 0) mine[d] += all;
        STEP();
    }
    BARRIER();
    /* The warps' counters of a digit summed up in order, behind the digits before it. */
    int own = 0;
    for (int w = 0; w < WARPS; w++) own += counter[w * 256 + THREAD];
    int sum = before_me(own, room);
    for (int w = 0; w < WARPS; w++) {
        const int c = counter[w * 256 + THREAD];
        counter[w * 256 + THREAD] = sum;
        sum += c;
    }
    BARRIER();
    UNROLL
    for (int i = 0; i < ITEMS; i++)
        if (place[i] >= 0) {
            const int to = mine[DIGIT(key[i])] + rank[i];
            tile_keys[to] = key[i];
            tile_places[to] = place[i];
        }
    BARRIER();
}
#endif
