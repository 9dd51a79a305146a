/* How kernels of cheap maps read and write 16-bit floats themselves (tools/opgen/narrow.c): the same values as
 * convert.isa.c has. Loops over the bfloat16 functions vectorise; half floats go by tiles of TPI_LANES. Included by
 * element.h. */
#ifndef TPI_ELEMENT_NARROW_H
#define TPI_ELEMENT_NARROW_H
#ifdef __F16C__
#include <immintrin.h>
#endif

EL float el_load_bf16(uint16_t x) { return tpi_bf16_to_float(x); }
EL uint16_t el_store_bf16(float x) { /* tpi_float_to_bf16 without branches */
    union {
        float f;
        uint32_t u;
    } v = {x};
    const uint32_t rounded = (v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16;
    return (uint16_t)((v.u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
/* The sign alone changes; a NaN is written as above. */
EL uint16_t el_unless_nan_bf16(uint16_t x, uint16_t otherwise) {
    return (uint16_t)((x & 0x7fffu) > 0x7f80u ? 0x7fc0u : otherwise);
}
EL uint16_t el_neg_bf16(uint16_t x) { return el_unless_nan_bf16(x, (uint16_t)(x ^ 0x8000u)); }
EL uint16_t el_abs_bf16(uint16_t x) { return el_unless_nan_bf16(x, (uint16_t)(x & 0x7fffu)); }

EL void el_load_tile_f16(const uint16_t *x, float *tile) {
#if defined(__AVX512F__)
    _mm512_storeu_ps(tile, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x)));
#elif defined(__F16C__)
    for (int l = 0; l < TPI_LANES; l += 8)
        _mm256_storeu_ps(tile + l, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + l))));
#else
    for (int l = 0; l < TPI_LANES; l++) tile[l] = tpi_half_to_float(x[l]);
#endif
}
EL void el_store_tile_f16(const float *tile, uint16_t *out) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtps_ph(_mm512_loadu_ps(tile), 0));
#elif defined(__F16C__)
    for (int l = 0; l < TPI_LANES; l += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + l), _mm256_cvtps_ph(_mm256_loadu_ps(tile + l), 0));
#else
    for (int l = 0; l < TPI_LANES; l++) out[l] = tpi_float_to_half(tile[l]);
#endif
}
#endif
