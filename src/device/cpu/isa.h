/* Code that is compiled once per instruction set. A file named *.isa.c is built for the baseline, and on x86-64 again
 * for AVX2 (x86-64-v3) and AVX-512 (x86-64-v4); tpi_cpu_isa, found at start, picks. A loop in such a file is plain C
 * that the compiler vectorises. Why not target_clones: this works the same with gcc and clang, under sanitizers and
 * without ifuncs.
 *
 *   in NAME.isa.c:   void TPI_ISA(tpi_softmax_rows)(...) { ... }
 *   in a header:     TPI_ISA_DECLARE(void, tpi_softmax_rows, (int64_t n, const float *x, float *out));
 *   in a caller:     TPI_ISA_PICK(tpi_softmax_rows)(n, x, out);
 */
#ifndef TPI_ISA_H
#define TPI_ISA_H

/* The build passes -DTPI_ISA_SUFFIX=_base, _avx2 or _avx512 to *.isa.c files. */
#ifdef TPI_ISA_SUFFIX
#define TPI_ISA_JOIN__(name, suffix) name##suffix
#define TPI_ISA_JOIN_(name, suffix)  TPI_ISA_JOIN__(name, suffix)
#define TPI_ISA(name)                TPI_ISA_JOIN_(name, TPI_ISA_SUFFIX)
#endif

#ifdef __clang__
#define TPI_UNROLL _Pragma("unroll")
#else
#define TPI_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__) && !defined(TPI_ISA_BASE_ONLY)
#define TPI_ISA_DECLARE(type, name, args) \
    type name##_base args;                \
    type name##_avx2 args;                \
    type name##_avx512 args
#define TPI_ISA_PICK(name) \
    (tpi_cpu_isa == TPI_ISA_AVX512 ? name##_avx512 : tpi_cpu_isa == TPI_ISA_AVX2 ? name##_avx2 : name##_base)
#define TPI_ISA_TABLE(name) \
    { name##_base, name##_avx2, name##_avx512 }
#define TPI_ISA_TABLE_WITHOUT_BASE(name) \
    { NULL, name##_avx2, name##_avx512 }
#else
#define TPI_ISA_DECLARE(type, name, args) type name##_base args
#define TPI_ISA_PICK(name)                name##_base
#define TPI_ISA_TABLE(name) \
    { name##_base, name##_base, name##_base }
#define TPI_ISA_TABLE_WITHOUT_BASE(name) TPI_ISA_TABLE(name)
#endif
#endif
