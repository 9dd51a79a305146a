/* The FFT's kernels, compiled per instruction set and for both real types. */
#include "linalg/fft.h"
#include "linalg/transpose.h"
#include <string.h>

/* ---- Lines of floats, by eights: two elements of eight lines at a time, and four of four lines; the last ones
 * together with some that were there before ---- */
void TPI_ISA(tpi_fft_load_lines)(int64_t n, int64_t lanes, const float *const *line, float *re, float *im) {
    for (int64_t l = 0; l < lanes; l += 8)
        for (int64_t next = 0; next < n; next += 2) {
            const int64_t k = next < n - 2 ? next : n - 2;
            eight out[4];
            transpose_four(line + l, 2 * k, out);
            float *to[4] = {re + k * lanes + l, im + k * lanes + l, re + (k + 1) * lanes + l, im + (k + 1) * lanes + l};
            UNROLL
            for (int i = 0; i < 4; i++) memcpy(to[i], &out[i], sizeof out[i]);
        }
}

/* Four lines at a time: lines whose length is a power of two share a set of the first cache, which has no place for one
 * of each of sixteen. */
void TPI_ISA(tpi_fft_store_lines)(int64_t n, int64_t lanes, const float *re, const float *im, float scale,
                                  float *const *line) {
    for (int64_t l = 0; l < lanes; l += 4)
        for (int64_t next = 0; next < n; next += 4) {
            const int64_t k = next < n - 4 ? next : n - 4;
            const float *from[8];
            UNROLL
            for (int i = 0; i < 4; i++) {
                from[2 * i] = re + (k + i) * lanes;
                from[2 * i + 1] = im + (k + i) * lanes;
            }
            eight out[4];
            transpose_four(from, l, out);
            UNROLL
            for (int i = 0; i < 4; i++) {
                const eight scaled = out[i] * scale;
                memcpy(line[l + i] + 2 * k, &scaled, sizeof scaled);
            }
        }
}

#if defined(__AVX512F__)
#define V 16
#elif defined(__AVX2__)
#define V 8
#else
#define V 4
#endif
#define T     float
#define INDEX int32_t
#define NAME  _f32
#include "linalg/fft_kernels.h"
#undef T
#undef INDEX
#undef NAME
#undef V
#if defined(__AVX512F__)
#define V 8
#elif defined(__AVX2__)
#define V 4
#else
#define V 2
#endif
#define T     double
#define INDEX int64_t
#define NAME  _f64
#include "linalg/fft_kernels.h"

int TPI_ISA(tpi_fft_vector_lanes)(bool single) { return VECTOR_BYTES / (int)(single ? sizeof(float) : sizeof(double)); }
int TPI_ISA(tpi_fft_largest_power)(void) { return VECTOR_BYTES == 64 ? 16 : 8; }
