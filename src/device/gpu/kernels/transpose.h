/* Copies whose source runs fastest along another dim than their destination: a block reads a tile of TILE by TILE
 * elements row by row, transposes it in shared memory, and writes it row by row. Rows move LOAD and STORE elements at
 * once (16 bytes, or one element where the memory is not aligned to that); all that a thread reads is on its way before
 * it waits. The program defines
 *
 *   S, D             storage types of source and destination, and CONVERT(x) from one to the other
 *   LOAD, STORE      elements per access, TILE a multiple of both
 *
 * Dimension 0 is the destination's fastest, dimension 1 the source's; others are counted by the grid. */
#define TRANSPOSE_THREADS 256
#define MAX_OUTER         8
typedef struct transpose_layout_t {
    uint32_t size[2], tiles[2], outer, size_outer[MAX_OUTER], room;
    int64_t from_row, to_row; /* bytes from one row of the tile to the next: along dimension 0, and along dimension 1 */
    int64_t from_outer[MAX_OUTER], to_outer[MAX_OUTER];
} transpose_layout_t;
typedef union load_t {
    S e[LOAD];
#if LOAD > 1
    word16 w;
#endif
} load_t;
typedef union store_t {
    D e[STORE];
#if STORE > 1
    word16 w;
#endif
} store_t;
#define LOADS  (TILE * (TILE / LOAD) / TRANSPOSE_THREADS)
#define STORES (TILE * (TILE / STORE) / TRANSPOSE_THREADS)

KERNEL(entry)
(PTR(to), PTR(from), const transpose_layout_t g) {
    SHARED D tile[TILE][TILE + 1];
    uint32_t block = BLOCK;
    const uint32_t at0 = block % g.tiles[0] * TILE;
    block /= g.tiles[0];
    const uint32_t at1 = block % g.tiles[1] * TILE;
    block /= g.tiles[1];
    GLOBAL const char *source = AT(char, from) + at0 * g.from_row + (int64_t)at1 * (int)sizeof(S);
    GLOBAL char *target = AT(char, to) + at1 * g.to_row + (int64_t)at0 * (int)sizeof(D);
    for (uint32_t d = 0; d < g.outer; d++) {
        const uint32_t i = block % g.size_outer[d];
        block /= g.size_outer[d];
        source += i * g.from_outer[d];
        target += i * g.to_outer[d];
    }
    load_t read[LOADS];
    UNROLL
    for (int l = 0; l < LOADS; l++) {
        const uint32_t place = l * TRANSPOSE_THREADS + THREAD, row = place / (TILE / LOAD),
                       column = place % (TILE / LOAD) * LOAD;
        if (at0 + row >= g.size[0] || at1 + column >= g.size[1]) continue;
        GLOBAL const char *p = source + row * g.from_row + column * (int)sizeof(S);
#if LOAD > 1
        read[l].w = *(GLOBAL const word16 *)p;
#else
        read[l].e[0] = *(GLOBAL const S *)p;
#endif
    }
    UNROLL
    for (int l = 0; l < LOADS; l++) {
        const uint32_t place = l * TRANSPOSE_THREADS + THREAD, row = place / (TILE / LOAD),
                       column = place % (TILE / LOAD) * LOAD;
        UNROLL
        for (int i = 0; i < LOAD; i++) tile[row][column + i] = CONVERT(read[l].e[i]);
    }
    BARRIER();
    UNROLL
    for (int l = 0; l < STORES; l++) {
        const uint32_t place = l * TRANSPOSE_THREADS + THREAD, row = place / (TILE / STORE),
                       column = place % (TILE / STORE) * STORE;
        if (at1 + row >= g.size[1] || at0 + column >= g.size[0]) continue;
        store_t write;
        UNROLL
        for (int i = 0; i < STORE; i++) write.e[i] = tile[column + i][row];
        GLOBAL char *p = target + row * g.to_row + column * (int)sizeof(D);
#if STORE > 1
        *(GLOBAL word16 *)p = write.w;
#else
        *(GLOBAL D *)p = write.e[0];
#endif
    }
}
