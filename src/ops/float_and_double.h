/* Includes KERNELS, an *.isa.c file, for float and for double. The file defines KERNELS as its own name, includes this
 * header, and has its bodies in the part for which KERNELS is defined already. The bodies see REAL, the element type;
 * BITS, the integer type of its size; EXP, for arguments up to 0 (device/cpu/vector_math.h has both); LOG; and K(name),
 * which tells names of the two apart. */
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
