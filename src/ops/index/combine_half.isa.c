/* combine.c's loops for 16-bit floats: most of their time are conversions, for which not every processor has
 * instructions. */
#include "ops/index/combine.h"
#include "ops/index/combine_choices.h"
#ifdef __F16C__
#include <immintrin.h>
static inline float load_half(uint16_t x) { return _cvtsh_ss(x); }
static inline uint16_t store_half(float x) { return _cvtss_sh(x, 0); }
#else
#define load_half  tpi_half_to_float
#define store_half tpi_float_to_half
#endif

#define NAME   combine_f16
#define STORED uint16_t
#define T      float
#define LOAD   load_half
#define STORE  store_half
#define ADD    PLUS
#define MUL    TIMES
#define MAX    larger_f32
#define MIN    smaller_f32
#include "ops/index/combine_typed.h"

#define NAME   combine_bf16
#define STORED uint16_t
#define T      float
#define LOAD   tpi_bf16_to_float
#define STORE  tpi_float_to_bf16
#define ADD    PLUS
#define MUL    TIMES
#define MAX    larger_f32
#define MIN    smaller_f32
#include "ops/index/combine_typed.h"

void TPI_ISA(tpi_combine_f16)(tpi_combine_op op, const tpi_indexed_block *p) { combine_f16(op, p); }
void TPI_ISA(tpi_combine_bf16)(tpi_combine_op op, const tpi_indexed_block *p) { combine_bf16(op, p); }
