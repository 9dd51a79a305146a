/* Includes KERNELS, the bodies of an *.isa.c file, for float and for double. They see REAL, the element type; BITS, the
 * integer type of its size; EXP, for arguments up to 0 (device/cpu/vector_math.h has both); LOG; and K(name), which
 * tells names of the two apart. No guard: an *.isa.c file includes this once, after defining KERNELS. */
#define REAL    float
#define BITS    int32_t
#define EXP     tpi_exp_share_f32
#define LOG     logf
#define K(name) name##_f32
#include KERNELS
#undef REAL
#undef BITS
#undef EXP
#undef LOG
#undef K
#define REAL    double
#define BITS    int64_t
#define EXP     tpi_exp_f64
#define LOG     log
#define K(name) name##_f64
#include KERNELS
