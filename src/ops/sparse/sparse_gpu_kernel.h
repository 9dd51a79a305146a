/* Sparse matrices on GPUs. Before this text: X the dtype of the elements, A the type to sum in, GROUP the threads that
 * share a row or a place (a power of two, 256 at most; a block has 256). Indices out of range are faults. */
#include "fault.h"

/* out[i] = the sum over k from crow[i] to crow[i + 1] of values[k] * dense[col[k]], in order; without WEIGHTED, of
 * dense's rows alone. */
#ifdef KERNEL_rows
KERNEL(entry)
(FAULT, PTR(out), PTR(crow), PTR(col), PTR(values), PTR(dense), const int64_t rows, const int64_t width,
 const int64_t height) {
    GLOBAL const int64_t *columns = AT(const int64_t, col);
    for (int64_t i = (int64_t)BLOCK * (256 / GROUP) + THREAD / GROUP; i < rows; i += (int64_t)BLOCKS * (256 / GROUP)) {
        const int64_t begin = AT(const int64_t, crow)[i], end = AT(const int64_t, crow)[i + 1];
        for (int64_t c = THREAD % GROUP; c < width; c += GROUP) {
            A sum = 0;
            for (int64_t k = begin; k < end; k++) {
                const int64_t row = columns[k];
                if (row < 0 || row >= height) {
                    NOTE_FAULT(row, height);
                    continue;
                }
                const A x = GET_X(AT(const T_X, dense)[row * width + c]);
#if WEIGHTED
                sum += (A)GET_X(AT(const T_X, values)[k]) * x;
#else
                sum += x;
#endif
            }
            AT(T_X, out)[i * width + c] = SET_X(sum);
        }
    }
}
#endif

/* out[k] = left[row[k]] . right[column[k]]: each thread of the group sums every GROUP-th product, the first one adds up
 * what they have. */
#ifdef KERNEL_dots
KERNEL(entry)
(FAULT, PTR(out), PTR(at), PTR(left), PTR(right), const int64_t n, const int64_t width, const int64_t rows,
 const int64_t columns) {
    SHARED A part[256];
    for (int64_t first = (int64_t)BLOCK * (256 / GROUP); first < n; first += (int64_t)BLOCKS * (256 / GROUP)) {
        const int64_t k = first + THREAD / GROUP;
        A sum = 0;
        if (k < n) {
            const int64_t row = AT(const int64_t, at)[k], column = AT(const int64_t, at)[n + k];
            if (row < 0 || row >= rows)
                NOTE_FAULT(row, rows);
            else if (column < 0 || column >= columns)
                NOTE_FAULT(column, columns);
            else
                for (int64_t c = THREAD % GROUP; c < width; c += GROUP)
                    sum += (A)GET_X(AT(const T_X, left)[row * width + c]) *
                           (A)GET_X(AT(const T_X, right)[column * width + c]);
        }
        part[THREAD] = sum;
        BARRIER();
        if (k < n && THREAD % GROUP == 0) {
            for (int t = 1; t < GROUP; t++) sum += part[THREAD + t];
            AT(T_X, out)[k] = SET_X(sum);
        }
        BARRIER();
    }
}
#endif
