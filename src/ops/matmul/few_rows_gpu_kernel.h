/* Products of a few vectors with the rows of a matrix: out[v][r] = sum over i of x[v][i] * weight[r][i]. A group of
 * threads has a row, and reads 16 bytes of it at a time, AHEAD of them at once; all vectors use what it has read, so
 * that memory gives the matrix once. Before this text: what group.h asks for; X the vectors' dtype, W the matrix's and
 * PER how many of it are 16 bytes; VECTORS, at least as many as there are; EXTRA one of PLAIN, SCALED (the sum is
 * multiplied by the row's element of `extra`) and BIASED (that is added), and E its dtype. k and the pitches of x and
 * of the matrix are multiples of PER, and both lie on 16 bytes. */
#include "group.h"
#include "piece.h"
#define PLAIN  0
#define SCALED 1
#define BIASED 2
typedef struct ON_BYTES(16) piece_w {
    T_W v[PER];
} piece_w;
typedef struct ON_BYTES(16) piece_x {
    T_X v[PER];
} piece_x;
GROUP_REDUCTION(group_sum, A, JOIN_SUM)

KERNEL(entry)
(PTR(out), PTR(x), PTR(weight), PTR(extra), const int64_t vectors, const int64_t k, const int64_t rows,
 const int64_t x_pitch, const int64_t w_pitch, const int64_t out_pitch) {
    SHARED A room[GROUP_ROOM];
    const int64_t row = GROUP_ROW, end = row < rows ? k : 0;
    A sum[VECTORS];
    UNROLL
    for (int v = 0; v < VECTORS; v++) sum[v] = 0;
    for (int64_t first = LANE * PER; first < end; first += AHEAD * GROUP * PER) {
        piece_w w[AHEAD];
        UNROLL
        for (int a = 0; a < AHEAD; a++)
            if (first + a * GROUP * PER < end)
                w[a] = *(GLOBAL const piece_w *)(AT(const T_W, weight) + row * w_pitch + first + a * GROUP * PER);
        UNROLL
        for (int a = 0; a < AHEAD; a++) {
            const int64_t i = first + a * GROUP * PER;
            UNROLL
            for (int v = 0; v < VECTORS; v++) {
                if (v < vectors && i < end) {
                    const piece_x p = *(GLOBAL const piece_x *)(AT(const T_X, x) + v * x_pitch + i);
                    UNROLL
                    for (int j = 0; j < PER; j++) sum[v] += (A)GET_X(p.v[j]) * (A)GET_W(w[a].v[j]);
                }
            }
        }
    }
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        A total = group_sum(sum[v], room);
        if (LANE == 0 && row < rows && v < vectors) {
#if EXTRA == SCALED
            total *= (A)GET_E(AT(const T_E, extra)[row]);
#elif EXTRA == BIASED
            total += (A)GET_E(AT(const T_E, extra)[row]);
#endif
            AT(T_X, out)[v * out_pitch + row] = SET_X(total);
        }
    }
}
