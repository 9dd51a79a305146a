/* Batch norm over (images, channels, plane), plane contiguous, or over rows of channels (COLUMNS: the plane is one
 * element and channels lie side by side). Before this text: A the type to compute in, X and Y the dtypes of what is
 * read and written, W the affine vectors', R the running ones', VEC how many neighbours a thread moves at once, LANES
 * how many threads stand side by side on a row of channels.
 *
 *   sums     two sums per channel and part of the batch: of x - first and its square (BACK 0), or of g and g (x -
 *            mean) rstd (BACK 1)
 *   settle   a channel's statistics from the parts, the running ones moved on; or the gradients of weight and bias
 *   apply    y = (x - mean) rstd w + b, or dx
 *
 * Parts are added in order. The squares are of differences from the channel's first element, so that a mean far from
 * zero costs no digits. */
#include "epilogue.h"
#include "piece.h"
typedef struct ALIGNED(T_X) piece_x {
    T_X v[VEC];
} piece_x;
typedef struct ALIGNED(T_Y) piece_y {
    T_Y v[VEC];
} piece_y;
/* The gradient may have a prologue, which `sums` runs, and whose results it writes. */
#ifdef KERNEL_sums
#if PROLOGUE
typedef PROLOGUE_PIECE piece_g;
#define READ_GRAD(at) PROLOGUE_READ(at)
#else
typedef piece_x piece_g;
#define READ_GRAD(at) (*(GLOBAL const piece_x *)(AT(const T_X, grad) + (at)))
#endif
#endif
#define SLICES (256 / LANES)
#define GROUP  256
#define GROUPS 1
#include "group.h"
GROUP_REDUCTION(group_sum, A, JOIN_SUM)

/* Parts lie as [2][parts][channels]. */
#ifdef KERNEL_sums
#if COLUMNS
/* A block has LANES lanes of VEC channels and SLICES rows at a time; BLOCK is a stretch of channels, BLOCK_Y a part of
 * the rows. Four rows are on their way at once. */
KERNEL(entry)
(PTR(parts), PTR(in), PTR(grad), PTR(mean), PTR(rstd), const int64_t rows, const int64_t rows_per_part,
 const int channels PROLOGUE_ARGUMENTS) {
    SHARED A room[2][SLICES][LANES * VEC];
    const int lane = THREAD % LANES, slice = THREAD / LANES, c = ((int)BLOCK * LANES + lane) * VEC;
    A one[VEC], two[VEC];
    for (int j = 0; j < VEC; j++) one[j] = two[j] = 0;
    if (c < channels) {
        GLOBAL const T_X *x = AT(const T_X, in) + c;
        A shift[VEC], scale[VEC];
        UNROLL
        for (int j = 0; j < VEC; j++) {
#if BACK
            shift[j] = AT(const A, mean)[c + j];
            scale[j] = AT(const A, rstd)[c + j];
#else
            shift[j] = GET_X(x[j]);
            scale[j] = 1;
#endif
        }
        const int64_t first = (int64_t)BLOCK_Y * rows_per_part,
                      last = first + rows_per_part < rows ? first + rows_per_part : rows;
        for (int64_t r = first + slice; r < last; r += 4 * SLICES) {
            piece_x p[4];
#if BACK
            piece_g q[4];
#endif
            UNROLL
            for (int i = 0; i < 4; i++) {
                const int64_t row = r + i * SLICES < last ? r + i * SLICES : r;
                p[i] = *(GLOBAL const piece_x *)(x + row * channels);
#if BACK
                q[i] = READ_GRAD(c + row * channels);
#endif
            }
            UNROLL
            for (int i = 0; i < 4; i++) {
                if (r + i * SLICES >= last) break;
                UNROLL
                for (int j = 0; j < VEC; j++) {
                    const A d = (GET_X(p[i].v[j]) - shift[j]) * scale[j];
#if BACK
                    const A g = GET_X(q[i].v[j]);
                    one[j] += g;
                    two[j] += g * d;
#else
                    one[j] += d;
                    two[j] += d * d;
#endif
                }
            }
        }
    }
    UNROLL
    for (int j = 0; j < VEC; j++) {
        room[0][slice][lane * VEC + j] = one[j];
        room[1][slice][lane * VEC + j] = two[j];
    }
    BARRIER();
    for (int at = THREAD; at < 2 * LANES * VEC; at += 256) {
        const int which = at / (LANES * VEC), k = at % (LANES * VEC), channel = (int)BLOCK * LANES * VEC + k;
        A sum = 0;
        for (int s = 0; s < SLICES; s++) sum += room[which][s][k];
        if (channel < channels) AT(A, parts)[((int64_t)which * BLOCKS_Y + BLOCK_Y) * channels + channel] = sum;
    }
}
#else
/* A block has a channel (BLOCK) of a part of the images (BLOCK_Y). */
KERNEL(entry)
(PTR(parts), PTR(in), PTR(grad), PTR(mean), PTR(rstd), const int64_t images, const int64_t images_per_part,
 const int channels, const int64_t plane PROLOGUE_ARGUMENTS) {
    SHARED A room[GROUP_ROOM];
    const int c = (int)BLOCK;
    GLOBAL const T_X *x = AT(const T_X, in);
#if BACK
    const A shift = AT(const A, mean)[c], scale = AT(const A, rstd)[c];
#else
    const A shift = GET_X(x[(int64_t)c * plane]);
#endif
    const int64_t first = (int64_t)BLOCK_Y * images_per_part,
                  last = first + images_per_part < images ? first + images_per_part : images;
    A one = 0, two = 0;
    const int64_t pieces = plane / VEC, all = (last - first) * pieces;
    for (int64_t i = THREAD; i < all; i += 256) {
        const int64_t image = first + i / pieces, at = (image * channels + c) * plane + i % pieces * VEC;
        const piece_x p = *(GLOBAL const piece_x *)(x + at);
#if BACK
        const piece_g q = READ_GRAD(at);
#endif
        UNROLL
        for (int j = 0; j < VEC; j++) {
#if BACK
            const A d = (GET_X(p.v[j]) - shift) * scale, v = GET_X(q.v[j]);
            one += v;
            two += v * d;
#else
            const A d = GET_X(p.v[j]) - shift;
            one += d;
            two += d * d;
#endif
        }
    }
    one = group_sum(one, room);
    BARRIER();
    two = group_sum(two, room);
    if (THREAD) return;
    AT(A, parts)[(int64_t)BLOCK_Y * channels + c] = one;
    AT(A, parts)[((int64_t)BLOCKS_Y + BLOCK_Y) * channels + c] = two;
}
#endif
#endif

#ifdef KERNEL_settle
/* A block has 8 channels (a sector of memory) and 32 stretches of the parts; the stretches are added in order, and the
 * first 8 threads have their channels' totals. */
#define SETTLE_LANES  8
#define SETTLE_SLICES 32
#define ADD_PARTS                                                            \
    SHARED A room[2][SETTLE_SLICES][SETTLE_LANES];                           \
    const int lane = THREAD % SETTLE_LANES, slice = THREAD / SETTLE_LANES;   \
    const int c = (int)BLOCK * SETTLE_LANES + lane;                          \
    A one = 0, two = 0;                                                      \
    if (c < channels) {                                                      \
        UNROLL_4 for (int i = slice; i < nparts; i += SETTLE_SLICES) {       \
            one += AT(const A, parts)[(int64_t)i * channels + c];            \
            two += AT(const A, parts)[(int64_t)(nparts + i) * channels + c]; \
        }                                                                    \
    }                                                                        \
    room[0][slice][lane] = one, room[1][slice][lane] = two;                  \
    BARRIER();                                                               \
    if (slice || c >= channels) return;                                      \
    for (int i = 1; i < SETTLE_SLICES; i++) one += room[0][i][lane], two += room[1][i][lane];
#if defined(__OPENCL_VERSION__)
#define UNROLL_4
#else
#define UNROLL_4 _Pragma("unroll 4")
#endif
#if BACK
KERNEL(entry)
(PTR(parts), PTR(dweight), PTR(dbias), PTR(sums), const int nparts, const int channels) {
    ADD_PARTS
    AT(A, sums)[c] = one;
    AT(A, sums)[channels + c] = two;
    AT(T_W, dweight)[c] = SET_W(two);
    AT(T_W, dbias)[c] = SET_W(one);
}
#else
KERNEL(entry)
(PTR(parts), PTR(in), PTR(mean), PTR(rstd), PTR(running_mean), PTR(running_var), const int nparts, const int channels,
 const int64_t plane, const int64_t n, const A momentum, const A eps) {
#if TRAINING
    ADD_PARTS
    const A shift = GET_X(AT(const T_X, in)[(int64_t)c * plane]), d = one / n, square = two - one * d, m = shift + d;
    AT(A, mean)[c] = m;
    AT(A, rstd)[c] = RSQRT((square > 0 ? square : 0) / n + eps);
#if RUNNING
    AT(T_R, running_mean)[c] = SET_R((1 - momentum) * GET_R(AT(const T_R, running_mean)[c]) + momentum * m);
    AT(T_R, running_var)
    [c] = SET_R((1 - momentum) * GET_R(AT(const T_R, running_var)[c]) + momentum * (square / (n - 1)));
#endif
#else
    const int c = (int)BLOCK * SETTLE_LANES + THREAD;
    if (THREAD >= SETTLE_LANES || c >= channels) return;
    AT(A, mean)
    [c] = GET_R(AT(const T_R, running_mean)[c]);
    AT(A, rstd)[c] = RSQRT(GET_R(AT(const T_R, running_var)[c]) + eps);
#endif
}
#endif
#endif

/* y = x a + b, or back: dx = g a + x t + b, with a channel's coefficients worked out once: forward a = rstd w, b = bias
 * - mean a; back a = rstd w and, in training, t = -a rstd^2 (sum of g h) / n, b = -a (sum of g) / n - t mean, h being
 * the normalised input. */
#ifdef KERNEL_apply
typedef struct line_t {
    A a, t, b;
} line_t;

INLINE line_t line_of(const A m, const A k, const A w, const A bias, const A sum, const A along, const A over) {
    line_t l;
    l.a = k * w;
#if BACK
    l.t = TRAINING ? -l.a * k * along * over : 0;
    l.b = TRAINING ? -l.a * sum * over - l.t * m : 0;
#else
    l.t = 0;
    l.b = bias - m * l.a;
#endif
    return l;
}

#if WEIGHT
#define WEIGHT_OF(c) GET_W(AT(const T_W, weight)[c])
#else
#define WEIGHT_OF(c) 1
#endif
#if BIAS && !BACK
#define BIAS_OF(c) GET_W(AT(const T_W, bias)[c])
#else
#define BIAS_OF(c) 0
#endif
#if BACK && TRAINING
#define LINE_OF(c)                                                                             \
    line_of(AT(const A, mean)[c], AT(const A, rstd)[c], WEIGHT_OF(c), 0, AT(const A, sums)[c], \
            AT(const A, sums)[channels + (c)], over)
#else
#define LINE_OF(c) line_of(AT(const A, mean)[c], AT(const A, rstd)[c], WEIGHT_OF(c), BIAS_OF(c), 0, 0, over)
#endif

INLINE piece_y written(const piece_x p, const piece_x q, const line_t *l) {
    piece_y r;
    UNROLL
    for (int j = 0; j < VEC; j++) {
#if BACK
        r.v[j] = SET_Y(GET_X(q.v[j]) * l[j].a + GET_X(p.v[j]) * l[j].t + l[j].b);
#else
        r.v[j] = SET_Y(GET_X(p.v[j]) * l[j].a + l[j].b);
#endif
    }
    return r;
}

/* COLUMNS: as in `sums`, LANES lanes of VEC channels and SLICES rows at a time; BLOCK_Y goes through the rows in steps
 * of all. Else a block has a plane's stretch: BLOCK is image and channel, BLOCK_Y a stretch of its elements. */
KERNEL(entry)
(PTR(out), PTR(in), PTR(grad), PTR(mean), PTR(rstd), PTR(weight), PTR(bias), PTR(sums), const int64_t rows,
 const int channels, const int plane, const A over EPILOGUE_ARGUMENTS) {
#if COLUMNS
    const int c = ((int)BLOCK * LANES + THREAD % LANES) * VEC;
    if (c >= channels) return;
    line_t l[VEC];
    UNROLL
    for (int j = 0; j < VEC; j++) l[j] = LINE_OF(c + j);
    for (int64_t r = (int64_t)BLOCK_Y * SLICES + THREAD / LANES; r < rows; r += (int64_t)BLOCKS_Y * SLICES) {
        const int64_t at = r * channels + c;
        const piece_x p = *(GLOBAL const piece_x *)(AT(const T_X, in) + at);
#if BACK
        const piece_x q = *(GLOBAL const piece_x *)(AT(const T_X, grad) + at);
#else
        const piece_x q = p;
#endif
        const piece_y w = written(p, q, l);
        if (EPILOGUE_KEEPS) *(GLOBAL piece_y *)(AT(T_Y, out) + at) = w;
        EPILOGUE_WRITE(at, w.v)
    }
#else
    const int c = (int)(BLOCK % channels);
    const int64_t from = (int64_t)BLOCK * plane;
    line_t l[VEC];
    l[0] = LINE_OF(c);
    UNROLL
    for (int j = 1; j < VEC; j++) l[j] = l[0];
    for (int i = ((int)BLOCK_Y * THREADS + THREAD) * VEC; i < plane; i += (int)BLOCKS_Y * THREADS * VEC) {
        const piece_x p = *(GLOBAL const piece_x *)(AT(const T_X, in) + from + i);
#if BACK
        const piece_x q = *(GLOBAL const piece_x *)(AT(const T_X, grad) + from + i);
#else
        const piece_x q = p;
#endif
        const piece_y w = written(p, q, l);
        if (EPILOGUE_KEEPS) *(GLOBAL piece_y *)(AT(T_Y, out) + from + i) = w;
        EPILOGUE_WRITE(from + i, w.v)
    }
#endif
}
#endif
