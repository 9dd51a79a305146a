/* Groups of threads that work on one row each. Before this text: GROUP, how many threads a row has (a power of two),
 * and GROUPS, how many rows a block has; a block has GROUP * GROUPS threads. Sums and largest values over a group are
 * the same for all its threads, and their order depends on GROUP alone. All threads of the block call them. */
#ifndef GROUP_H
#define GROUP_H
#define LANE      (THREAD % GROUP)
#define GROUP_ROW ((int64_t)BLOCK * GROUPS + THREAD / GROUP)

/* Room in shared memory that a reduction of this type takes: GROUP_ROOM elements. */
#if defined(__OPENCL_VERSION__)
#define GROUP_ROOM (GROUP * GROUPS)
#elif GROUP > WARP
#define GROUP_ROOM (GROUP * GROUPS / WARP)
#else
#define GROUP_ROOM 1
#endif

/* name(x, room): the values of a group joined by JOIN(a, b), which is the same with its sides exchanged. */
#if defined(__OPENCL_VERSION__)
#define GROUP_REDUCTION(name, type, JOIN)                          \
    INLINE type name(type x, SHARED_OF type *room) {               \
        room[THREAD] = x;                                          \
        BARRIER();                                                 \
        for (int half_of = GROUP / 2; half_of > 0; half_of /= 2) { \
            type other = room[THREAD ^ half_of];                   \
            BARRIER();                                             \
            x = JOIN(x, other);                                    \
            room[THREAD] = x;                                      \
            BARRIER();                                             \
        }                                                          \
        return x;                                                  \
    }
#elif GROUP > WARP
#define GROUP_REDUCTION(name, type, JOIN)                                    \
    INLINE type name(type x, SHARED_OF type *room) {                         \
        UNROLL                                                               \
        for (int by = WARP / 2; by > 0; by /= 2) {                           \
            type other = SWAP(x, by);                                        \
            x = JOIN(x, other);                                              \
        }                                                                    \
        BARRIER();                                                           \
        if (THREAD % WARP == 0) room[THREAD / WARP] = x;                     \
        BARRIER();                                                           \
        const int first = THREAD / GROUP * (GROUP / WARP);                   \
        x = room[first];                                                     \
        UNROLL                                                               \
        for (int i = 1; i < GROUP / WARP; i++) x = JOIN(x, room[first + i]); \
        return x;                                                            \
    }
#else
#define GROUP_REDUCTION(name, type, JOIN)            \
    INLINE type name(type x, SHARED_OF type *room) { \
        (void)room;                                  \
        UNROLL                                       \
        for (int by = GROUP / 2; by > 0; by /= 2) {  \
            type other = SWAP(x, by);                \
            x = JOIN(x, other);                      \
        }                                            \
        return x;                                    \
    }
#endif

/* name(x, y, room): the sums of two values of a group at once, each in the order of the reduction above. room: for
 * twice as many elements. */
#if defined(__OPENCL_VERSION__)
#define GROUP_SUMS(name, type)                                     \
    INLINE void name(type *x, type *y, SHARED_OF type *room) {     \
        room[2 * THREAD] = *x, room[2 * THREAD + 1] = *y;          \
        BARRIER();                                                 \
        for (int half_of = GROUP / 2; half_of > 0; half_of /= 2) { \
            const int at = 2 * (THREAD ^ half_of);                 \
            type first = room[at], second = room[at + 1];          \
            BARRIER();                                             \
            *x += first, *y += second;                             \
            room[2 * THREAD] = *x, room[2 * THREAD + 1] = *y;      \
            BARRIER();                                             \
        }                                                          \
    }
#elif GROUP > WARP
#define GROUP_SUMS(name, type)                                                                         \
    INLINE void name(type *x, type *y, SHARED_OF type *room) {                                         \
        UNROLL                                                                                         \
        for (int by = WARP / 2; by > 0; by /= 2) {                                                     \
            type first = SWAP(*x, by), second = SWAP(*y, by);                                          \
            *x += first, *y += second;                                                                 \
        }                                                                                              \
        BARRIER();                                                                                     \
        if (THREAD % WARP == 0) room[THREAD / WARP * 2] = *x, room[THREAD / WARP * 2 + 1] = *y;        \
        BARRIER();                                                                                     \
        const int at = THREAD / GROUP * (GROUP / WARP);                                                \
        *x = room[2 * at], *y = room[2 * at + 1];                                                      \
        UNROLL                                                                                         \
        for (int i = 1; i < GROUP / WARP; i++) *x += room[2 * (at + i)], *y += room[2 * (at + i) + 1]; \
    }
#else
#define GROUP_SUMS(name, type)                                 \
    INLINE void name(type *x, type *y, SHARED_OF type *room) { \
        (void)room;                                            \
        UNROLL                                                 \
        for (int by = GROUP / 2; by > 0; by /= 2) {            \
            type first = SWAP(*x, by), second = SWAP(*y, by);  \
            *x += first, *y += second;                         \
        }                                                      \
    }
#endif

#define JOIN_SUM(a, b)  ((a) + (b))
#define JOIN_MOST(a, b) ((a) != (a) || (a) > (b) ? (a) : (b)) /* a NaN stays */
#endif
