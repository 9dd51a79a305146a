/* The most frequent element of each row, the smallest of several, at its last place. Rows are in order, NaN last, with
 * the numbers that their elements had; a block has a row. Before this text: X the dtype, GROUP and GROUPS as group.h
 * has them.
 *
 * Who is the last of its equals finds the first of them: equals lie together, so a search by halves does. */
#include "group.h"
#define JOIN_LONGER(a, b) ((a) > (b) ? (a) : (b))
GROUP_REDUCTION(longest, int64_t, JOIN_LONGER)

INLINE int same(const T_X a, const T_X b) {
    return GET_X(a) == GET_X(b) || (GET_X(a) != GET_X(a) && GET_X(b) != GET_X(b));
}

KERNEL(entry)
(PTR(values), PTR(indices), PTR(sorted), PTR(places), const int64_t n) {
    SHARED int64_t room[GROUP_ROOM];
    GLOBAL const T_X *x = AT(const T_X, sorted) + (int64_t)BLOCK * n;
    int64_t best = -1; /* how many equals, then how near to the row's start, in one number: n is below 2^31 */
    for (int64_t j = THREAD; j < n; j += GROUP) {
        if (j + 1 < n && same(x[j], x[j + 1])) continue;
        int64_t low = 0, high = j;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (same(x[middle], x[j]))
                high = middle;
            else
                low = middle + 1;
        }
        const int64_t found = (j - low + 1) * ((int64_t)1 << 31) + (n - 1 - j);
        if (found > best) best = found;
    }
    best = longest(best, room);
    if (THREAD) return;
    const int64_t at = n - 1 - best % ((int64_t)1 << 31);
    AT(T_X, values)[BLOCK] = x[at];
    AT(int64_t, indices)[BLOCK] = AT(const int64_t, places)[(int64_t)BLOCK * n + at];
}
