/* What kernels of reductions and scans share: where the columns of a result and the elements of a column lie, and how
 * elements are read. A column is what one element of a reduction's result is made of; a scan's column is one line along
 * its dim. gpu/axes.c writes before this text:
 *
 *   KDIMS, RDIMS    kept and reduced dims, each at least 1
 *   NOUT, EACH_OUT(X), OUT_ARGUMENTS, OUT_POINTERS, OUT_VALUES, OUT_RESULTS
 *                   the results, as the kernel's and the functions' arguments
 *   index_t         uint32_t where all positions fit, else int64_t
 *   VEC             elements that are read at once: 16 bytes, or 1
 *   BLOCK_SIZE      threads of a block
 *   SHARING         whether they work together
 *   sx_t, READ(s)   storage type of x, and an element of it as x_t
 *   so0_t, WRITE0(v), ...
 *                   the same for results
 *   x_t, state_t, op_start(), op_step(), ... of the operator */
#ifndef AXES_H
#define AXES_H

typedef struct axes_t {    /* strides in bytes; dim 0 is the fastest */
    int64_t kept, total;   /* columns, elements of a column */
    int64_t piece, pieces; /* elements of a piece of a column, pieces of a column */
    int64_t group;         /* threads that work side by side, a power of two: its exponent */
    int64_t ksize[KDIMS], kx[KDIMS], kout[NOUT][KDIMS];
    int64_t rsize[RDIMS], rx[RDIMS];
    int64_t rout[NOUT]; /* along a scan's dim */
} axes_t;

#define OFFSET_OVER(DIMS, size_of, stride_of, position)       \
    index_t at = (index_t)(position);                         \
    int64_t offset = 0;                                       \
    UNROLL                                                    \
    for (int d = 0; d < DIMS - 1; d++) {                      \
        index_t size = (index_t)size_of[d], next = at / size; \
        offset += (int64_t)(at - next * size) * stride_of[d]; \
        at = next;                                            \
    }                                                         \
    return offset + (int64_t)at * stride_of[DIMS - 1];

INLINE int64_t column_x(const axes_t *g, int64_t column){OFFSET_OVER(KDIMS, g->ksize, g->kx, column)} INLINE int64_t
    column_out(const axes_t *g, int64_t column, int k){OFFSET_OVER(KDIMS, g->ksize, g->kout[k], column)} INLINE int64_t
    element_x(const axes_t *g, int64_t i){OFFSET_OVER(RDIMS, g->rsize, g->rx, i)}

INLINE x_t read_x(GLOBAL const char *at) {
    return READ(*(GLOBAL const sx_t *)at);
}

typedef union pack_t {
#if VEC > 1
    word16 whole;
#endif
    sx_t e[VEC];
} pack_t;

INLINE pack_t read_pack(GLOBAL const char *at) {
    pack_t p;
#if VEC > 1
    p.whole = *(GLOBAL const word16 *)at;
#else
    p.e[0] = *(GLOBAL const sx_t *)at;
#endif
    return p;
}

/* A result's value r<k>; VEC of them, to be written 16 bytes at a time: EACH_OUT(OUT_PACK) declares their type,
 * pack<k>_t. */
#define DECLARE_RESULT(k) out##k##_t r##k;
#define OUT_PACK(k)                                 \
    typedef union pack##k##_t {                     \
        word16 words[VEC * sizeof(so##k##_t) / 16]; \
        so##k##_t e[VEC];                           \
    } pack##k##_t;
#define DECLARE_PACK(k) pack##k##_t w##k;
#define KEEP_RESULT(k)  w##k.e[v] = WRITE##k(r##k);
#endif
