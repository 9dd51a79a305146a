/* The functions of OpenCL C that kernels call. PoCL reads declarations of all there are, in every width, before each
 * program: 18,000 lines, a third of the time that a program took to compile. With TAPER_DECLARES they are kept out
 * (opencl/program.c), and a program begins with this text; types and constants PoCL has elsewhere. */
#ifdef TAPER_DECLARES
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define FUNCTION      __attribute__((overloadable))
#define PURE_FUNCTION __attribute__((overloadable, const))
#define TOGETHER      __attribute__((overloadable, convergent))

size_t PURE_FUNCTION get_global_id(uint);
size_t PURE_FUNCTION get_local_id(uint);
size_t PURE_FUNCTION get_local_size(uint);
size_t PURE_FUNCTION get_group_id(uint);
size_t PURE_FUNCTION get_num_groups(uint);
void TOGETHER barrier(uint);
void FUNCTION mem_fence(uint);
int FUNCTION atomic_add(volatile __global int *, int);
int FUNCTION atomic_add(volatile __local int *, int);
uint FUNCTION atomic_add(volatile __global uint *, uint);
uint FUNCTION atomic_add(volatile __local uint *, uint);
int FUNCTION atomic_inc(volatile __global int *);
int FUNCTION atomic_inc(volatile __local int *);
uint FUNCTION atomic_inc(volatile __global uint *);
uint FUNCTION atomic_inc(volatile __local uint *);
uint PURE_FUNCTION mul_hi(uint, uint);
float FUNCTION vload_half(size_t, const half *);
void FUNCTION vstore_half_rte(float, size_t, half *);

#define ONE(T, name) T PURE_FUNCTION name(T);
#define TWO(T, name) T PURE_FUNCTION name(T, T);
#define ASK(T, name) int PURE_FUNCTION name(T);
/* clang-format off */
#define FUNCTIONS_OF(T)                                                                                          \
    ONE(T, acos) ONE(T, acosh) ONE(T, asin) ONE(T, asinh) ONE(T, atan) ONE(T, atanh) ONE(T, cbrt) ONE(T, ceil)   \
    ONE(T, cos) ONE(T, cosh) ONE(T, erf) ONE(T, erfc) ONE(T, exp) ONE(T, exp2) ONE(T, expm1) ONE(T, fabs)        \
    ONE(T, floor) ONE(T, lgamma) ONE(T, log) ONE(T, log10) ONE(T, log1p) ONE(T, log2) ONE(T, rint) ONE(T, rsqrt) \
    ONE(T, sin) ONE(T, sinh) ONE(T, sqrt) ONE(T, tan) ONE(T, tanh) ONE(T, tgamma) ONE(T, trunc) TWO(T, atan2)    \
    TWO(T, copysign) TWO(T, fmod) TWO(T, hypot) TWO(T, nextafter) TWO(T, pow) ASK(T, isinf) ASK(T, isnan)        \
    ASK(T, signbit)                                                                                              \
    T PURE_FUNCTION fma(T, T, T);                                                                                \
    T FUNCTION frexp(T, int *);
/* clang-format on */
FUNCTIONS_OF(float)
#ifdef cl_khr_fp64
FUNCTIONS_OF(double)
#endif
#undef ONE
#undef TWO
#undef ASK
#undef FUNCTION
#undef PURE_FUNCTION
#undef TOGETHER
#endif
