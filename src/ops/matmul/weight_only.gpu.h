/* Products of a few vectors with the rows of a matrix of bytes, times the row's scale: out[v][r] = scales[r] * sum over
 * i of x[v][i] * weight[r][i]. A group of threads has a row, and reads 16 bytes of it at a time; all vectors use what
 * it has read, so that memory gives the matrix once. Before this text: what group.h asks for; X the vectors' dtype, S
 * the scales'; VECTORS, at least as many as there are. k is a multiple of 16, and rows begin at multiples of 16
 * elements. */
#include "group.h"
#ifdef KERNEL_weight_only
#define PIECE 16
#if defined(__OPENCL_VERSION__)
#define IN_PIECES(type) __attribute__((aligned(PIECE * sizeof(type))))
#else
#define IN_PIECES(type) __align__(PIECE * sizeof(type) > 16 ? 16 : PIECE * sizeof(type))
#endif
typedef struct IN_PIECES(int8_t) piece_w {
    int8_t v[PIECE];
} piece_w;
typedef struct IN_PIECES(T_X) piece_x {
    T_X v[PIECE];
} piece_x;
GROUP_REDUCTION(group_sum, A, JOIN_SUM)

KERNEL(entry)
(PTR(out), PTR(x), PTR(weight), PTR(scales), const int64_t vectors, const int64_t k, const int64_t rows) {
    SHARED A room[GROUP_ROOM];
    const int64_t row = GROUP_ROW;
    A sum[VECTORS];
    UNROLL
    for (int v = 0; v < VECTORS; v++) sum[v] = 0;
    for (int64_t i = LANE * PIECE; row < rows && i < k; i += GROUP * PIECE) {
        const piece_w w = *(GLOBAL const piece_w *)(AT(const int8_t, weight) + row * k + i);
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            if (v < vectors) {
                const piece_x p = *(GLOBAL const piece_x *)(AT(const T_X, x) + v * k + i);
                UNROLL
                for (int j = 0; j < PIECE; j++) sum[v] += (A)GET_X(p.v[j]) * (A)w.v[j];
            }
        }
    }
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const A total = group_sum(sum[v], room);
        if (LANE == 0 && row < rows && v < vectors)
            AT(T_X, out)[v * rows + row] = SET_X(total * (A)GET_S(AT(const T_S, scales)[row]));
    }
}
#endif
