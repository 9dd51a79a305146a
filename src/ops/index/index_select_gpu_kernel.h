/* Rows by their numbers: taken out, and summed into their places. Before this text: T_INDEX the dtype of the numbers;
 * for `rows` PIECE the bytes that are moved at once, for `segments` G and Y the dtypes of what is read and written, A
 * the type to sum in; for `largest` X. Numbers that are no row's are faults. */
#ifdef KERNEL_rows
#include "fault.h"
#include "piece.h"
/* out[outer][i][...] = x[outer][index[i]][...], rows of `per` pieces; SIZE rows to choose from. WRAP: negative numbers
 * count from the end. GROUP threads have ROWS rows at a time, so that as many loads are on their way at once. */
#define ROWS 4
KERNEL(entry)
(FAULT, PTR(out), PTR(in), PTR(index), const int64_t rows, const int64_t count, const int64_t size, const int64_t per) {
    for (int64_t first = ((int64_t)BLOCK * (256 / GROUP) + THREAD / GROUP) * ROWS; first < rows;
         first += (int64_t)BLOCKS * (256 / GROUP) * ROWS) {
        GLOBAL const piece_t *from[ROWS];
        UNROLL
        for (int j = 0; j < ROWS; j++) {
            const int64_t row = first + j < rows ? first + j : rows - 1, outer = rows == count ? 0 : row / count;
            const int64_t given = AT(const T_INDEX, index)[row - outer * count];
            int64_t k = WRAP && given < 0 ? given + size : given;
            if (k < 0 || k >= size) {
                NOTE_FAULT(given, size);
                k = 0;
            }
            from[j] = AT(const piece_t, in) + (outer * size + k) * per;
        }
        GLOBAL piece_t *to = AT(piece_t, out) + first * per;
        for (int64_t at = THREAD % GROUP; at < per; at += GROUP) {
            piece_t v[ROWS];
            UNROLL
            for (int j = 0; j < ROWS; j++) v[j] = from[j][at];
            UNROLL
            for (int j = 0; j < ROWS; j++)
                if (first + j < rows) to[j * per + at] = v[j];
        }
    }
}
#endif

/* Sorted numbers and their places: the block of a number's first occurrence sums its rows in order, 32 at a time into
 * shared memory's lines. The number `skip` gets nothing. SCALE: over how often the number occurs. */
#ifdef KERNEL_segments
KERNEL(entry)
(PTR(out), PTR(grad), PTR(numbers), PTR(places), const int64_t n, const int64_t rows, const int width,
 const int64_t skip) {
    const int64_t i = BLOCK;
    GLOBAL const int64_t *number = AT(const int64_t, numbers);
    GLOBAL const int *place = AT(const int, places);
    const int64_t k = number[i];
    if ((i && number[i - 1] == k) || k == skip || k < 0 || k >= rows) return;
    int64_t end = i + 1;
    while (end < n && number[end] == k) end++;
    for (int c = THREAD; c < width; c += THREADS) {
        A sum = 0;
        int64_t j = i;
        for (; j + 4 <= end; j += 4) { /* four loads on their way at once, added in order */
            const A a = GET_G(AT(const T_G, grad)[(int64_t)place[j] * width + c]),
                    b = GET_G(AT(const T_G, grad)[(int64_t)place[j + 1] * width + c]);
            const A d = GET_G(AT(const T_G, grad)[(int64_t)place[j + 2] * width + c]),
                    e = GET_G(AT(const T_G, grad)[(int64_t)place[j + 3] * width + c]);
            sum += a;
            sum += b;
            sum += d;
            sum += e;
        }
        for (; j < end; j++) sum += GET_G(AT(const T_G, grad)[(int64_t)place[j] * width + c]);
#if SCALE
        sum /= (A)(end - i);
#endif
        AT(T_Y, out)[k * width + c] = SET_Y(sum);
    }
}
#endif

/* The same with the row whose value is the largest, the first of equals, column by column. */
#ifdef KERNEL_largest
KERNEL(entry)
(PTR(out), PTR(in), PTR(numbers), PTR(places), const int64_t n, const int64_t rows, const int width) {
    const int64_t i = BLOCK;
    GLOBAL const int64_t *number = AT(const int64_t, numbers);
    GLOBAL const int *place = AT(const int, places);
    const int64_t k = number[i];
    if ((i && number[i - 1] == k) || k < 0 || k >= rows) return;
    for (int c = THREAD; c < width; c += THREADS) {
        int best = place[i];
        A most = GET_X(AT(const T_X, in)[(int64_t)best * width + c]);
        for (int64_t j = i + 1; j < n && number[j] == k; j++) {
            const A v = GET_X(AT(const T_X, in)[(int64_t)place[j] * width + c]);
            if (v > most) {
                most = v;
                best = place[j];
            }
        }
        AT(int64_t, out)[k * width + c] = best;
    }
}
#endif
