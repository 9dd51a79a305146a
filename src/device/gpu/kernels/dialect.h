/* One language for kernels: what CUDA C (NVRTC), HIP and OpenCL C 1.2 have in common, under one set of names. Every
 * program begins with this text; gpu/program.c puts HAS_F64 (0 or 1) and WARP (threads that run in step) before it. C
 * as all three read it: no templates, no overloading, no compound literals, no static variables.
 *
 *   KERNEL(name)(PTR(out), PTR(x), const int64_t n) { GLOBAL float *p = AT(float, x); ... }
 *
 *   PTR(name)       declares a pointer argument (OpenCL's is a buffer and an offset in bytes)
 *   AT(type, name)  reads it
 *   GLOBAL, SHARED  memory of the device, and of the block: SHARED float tile[32][33]; at the top of a kernel
 *   SHARED_OF       of a pointer to shared memory
 *   INLINE, HEAVY   declare a function, put in line or not
 *   UNROLL          before a loop
 *   THREAD, THREADS, BLOCK, BLOCKS
 *                   number and count of threads in the block, of blocks in the grid; _Y and _Z: the other two dims
 *   BARRIER()       all threads of the block come here, and see what the others wrote before
 *   SWAP(x, by)     CUDA and HIP alone: x of the thread of this warp whose number differs by that bit
 *   KERNEL_OF(name, threads, blocks)
 *                   a kernel of so many threads a block, that many blocks of which share a processor
 *
 * Elements in memory are of a storage type, s_<dtype>; get_<dtype> gives the value in its compute type (b8, i32, i64,
 * f32, f64, c64, c128: f16 and bf16 compute in f32, the small integers in i32) and set_<dtype> takes one back.
 * to_<ctype>_<ctype>() converts among compute types as casts of tensors do. Without double precision `double` is float,
 * and programs for float64 and complex128 are not made. */
#ifndef DIALECT_H
#define DIALECT_H

/* ---- Words of the language ---- */
#if defined(__OPENCL_VERSION__)
#if HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#else
#define double float
#endif
typedef uchar uint8_t;
typedef char int8_t;
typedef ushort uint16_t;
typedef short int16_t;
typedef uint uint32_t;
typedef int int32_t;
typedef ulong uint64_t;
typedef long int64_t;
#define KERNEL(name)                     __kernel void name
#define KERNEL_OF(name, threads, blocks) __kernel void name
#define GLOBAL                           __global
#define SHARED                           __local
#define SHARED_OF                        __local
#define PTR(name)                        __global char *name##_block, const ulong name##_offset
#define AT(type, name)                   ((__global type *)(name##_block + name##_offset))
#define INLINE                           static inline
#define HEAVY                            static __attribute__((noinline))
#define THREAD                           ((int)get_local_id(0))
#define THREAD_Y                         ((int)get_local_id(1))
#define THREAD_Z                         ((int)get_local_id(2))
#define THREADS                          ((int)get_local_size(0))
#define THREADS_Y                        ((int)get_local_size(1))
#define BLOCK                            ((unsigned)get_group_id(0))
#define BLOCK_Y                          ((unsigned)get_group_id(1))
#define BLOCK_Z                          ((unsigned)get_group_id(2))
#define BLOCKS                           ((unsigned)get_num_groups(0))
#define BLOCKS_Y                         ((unsigned)get_num_groups(1))
#define BARRIER()                        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define UNROLL                           __attribute__((opencl_unroll_hint))
#define MULHI(a, b)                      mul_hi((uint32_t)(a), (uint32_t)(b))
#define F32_BITS(x)                      as_uint(x)
#define BITS_F32(u)                      as_float(u)
#define INT64_MAX                        0x7fffffffffffffffL
#else /* CUDA and HIP */
#if defined(__HIP__) && !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#include <stdint.h>
#undef INT32_MIN
#undef INT32_MAX
#undef INT64_MIN
#undef INT64_MAX
#undef INFINITY
#undef NAN
#elif defined(__HIPCC_RTC__) /* versions differ in which of them they have */
#define uint8_t  unsigned char
#define int8_t   signed char
#define uint16_t unsigned short
#define int16_t  short
#define uint32_t unsigned int
#define int32_t  int
#define uint64_t unsigned long long
#define int64_t  long long
#undef INFINITY
#undef NAN
#else
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#endif
#define KERNEL(name)                     extern "C" __global__ void name
#define KERNEL_OF(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define GLOBAL
#define SHARED __shared__
#define SHARED_OF
#if defined(__HIP__)
#define SWAP(x, by) __shfl_xor(x, by)
#else
#define SWAP(x, by) __shfl_xor_sync(0xffffffffu, x, by)
#endif
#define PTR(name)      char *name
#define AT(type, name) ((type *)(name))
#define INLINE         static __device__ __forceinline__
#define HEAVY          static __device__ __noinline__
#define THREAD         ((int)threadIdx.x)
#define THREAD_Y       ((int)threadIdx.y)
#define THREAD_Z       ((int)threadIdx.z)
#define THREADS        ((int)blockDim.x)
#define THREADS_Y      ((int)blockDim.y)
#define BLOCK          blockIdx.x
#define BLOCK_Y        blockIdx.y
#define BLOCK_Z        blockIdx.z
#define BLOCKS         gridDim.x
#define BLOCKS_Y       gridDim.y
#define BARRIER()      __syncthreads()
#define UNROLL         _Pragma("unroll")
#define MULHI(a, b)    __umulhi((uint32_t)(a), (uint32_t)(b))
#define F32_BITS(x)    __float_as_uint(x)
#define BITS_F32(u)    __uint_as_float(u)
#define INT64_MAX      0x7fffffffffffffffLL
#define INFINITY       __int_as_float(0x7f800000)
#define NAN            __int_as_float(0x7fc00000)
#endif
#define INT64_MIN (-INT64_MAX - 1)
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-INT32_MAX - 1)

typedef struct tpi_c64 {
    float re, im;
} tpi_c64;
typedef struct tpi_c128 {
    double re, im;
} tpi_c128;

/* 16 and 8 bytes at once. HIP's uint4 is a class, which has no place in a union. */
#if defined(__HIP__)
typedef uint32_t word16 __attribute__((ext_vector_type(4)));
typedef uint32_t word8 __attribute__((ext_vector_type(2)));
#else
typedef uint4 word16;
typedef uint2 word8;
#endif

/* A number that comes by value: the host's tpi_param. */
typedef union param_t {
    uint8_t b8;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    tpi_c64 c64;
    tpi_c128 c128;
    int64_t room[2];
} param_t;
#define PARAMS_TYPE(n)        \
    typedef struct params_t { \
        param_t p[n];         \
    } params_t; /* what kernels of the tables read their parameters from */

/* ---- Storage types ---- */
typedef uint8_t s_bool;
typedef uint8_t s_uint8;
typedef int8_t s_int8;
typedef int16_t s_int16;
typedef int32_t s_int32;
typedef int64_t s_int64;
typedef uint16_t s_float16;
typedef uint16_t s_bfloat16;
typedef float s_float32;
typedef double s_float64;
typedef tpi_c64 s_complex64;
typedef tpi_c128 s_complex128;

INLINE uint8_t get_bool(s_bool x) { return x != 0; }
INLINE int32_t get_uint8(s_uint8 x) { return x; }
INLINE int32_t get_int8(s_int8 x) { return x; }
INLINE int32_t get_int16(s_int16 x) { return x; }
INLINE int32_t get_int32(s_int32 x) { return x; }
INLINE int64_t get_int64(s_int64 x) { return x; }
INLINE float get_float32(s_float32 x) { return x; }
INLINE double get_float64(s_float64 x) { return x; }
INLINE tpi_c64 get_complex64(s_complex64 x) { return x; }
INLINE tpi_c128 get_complex128(s_complex128 x) { return x; }
INLINE float get_bfloat16(s_bfloat16 x) { return BITS_F32((uint32_t)x << 16); }

INLINE s_bool set_bool(uint8_t x) { return x; }
INLINE s_uint8 set_uint8(int32_t x) { return (uint8_t)x; }
INLINE s_int8 set_int8(int32_t x) { return (int8_t)x; }
INLINE s_int16 set_int16(int32_t x) { return (int16_t)x; }
INLINE s_int32 set_int32(int32_t x) { return x; }
INLINE s_int64 set_int64(int64_t x) { return x; }
INLINE s_float32 set_float32(float x) { return x; }
INLINE s_float64 set_float64(double x) { return x; }
INLINE s_complex64 set_complex64(tpi_c64 x) { return x; }
INLINE s_complex128 set_complex128(tpi_c128 x) { return x; }
INLINE s_bfloat16 set_bfloat16(float x) { /* to nearest even; NaN stays a NaN */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    uint32_t u = F32_BITS(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
#endif
}

#if defined(__OPENCL_VERSION__)
INLINE float get_float16(s_float16 x) { return vload_half(0, (const half *)&x); }
INLINE s_float16 set_float16(float x) {
    uint16_t h;
    vstore_half_rte(x, 0, (half *)&h);
    return h;
}
#elif defined(__HIP__)
INLINE float get_float16(s_float16 x) { return (float)__builtin_bit_cast(_Float16, x); }
INLINE s_float16 set_float16(float x) { return __builtin_bit_cast(uint16_t, (_Float16)x); }
#else
INLINE float get_float16(s_float16 x) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
    return f;
}
INLINE s_float16 set_float16(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif

/* ---- Casts among compute types: reals take the real part, bools ask for nonzero, and integers wrap ---- */
#define CASTS_OF_REAL(from, F)                               \
    INLINE uint8_t to_b8_##from(F x) { return x != 0; }      \
    INLINE int32_t to_i32_##from(F x) { return (int32_t)x; } \
    INLINE int64_t to_i64_##from(F x) { return (int64_t)x; } \
    INLINE float to_f32_##from(F x) { return (float)x; }     \
    INLINE double to_f64_##from(F x) { return (double)x; }   \
    INLINE tpi_c64 to_c64_##from(F x) {                      \
        tpi_c64 c;                                           \
        c.re = (float)x, c.im = 0;                           \
        return c;                                            \
    }                                                        \
    INLINE tpi_c128 to_c128_##from(F x) {                    \
        tpi_c128 c;                                          \
        c.re = (double)x, c.im = 0;                          \
        return c;                                            \
    }
#define CASTS_OF_COMPLEX(from, F)                                          \
    INLINE uint8_t to_b8_##from(F x) { return (x.re != 0) | (x.im != 0); } \
    INLINE int32_t to_i32_##from(F x) { return (int32_t)x.re; }            \
    INLINE int64_t to_i64_##from(F x) { return (int64_t)x.re; }            \
    INLINE float to_f32_##from(F x) { return (float)x.re; }                \
    INLINE double to_f64_##from(F x) { return (double)x.re; }              \
    INLINE tpi_c64 to_c64_##from(F x) {                                    \
        tpi_c64 c;                                                         \
        c.re = (float)x.re, c.im = (float)x.im;                            \
        return c;                                                          \
    }                                                                      \
    INLINE tpi_c128 to_c128_##from(F x) {                                  \
        tpi_c128 c;                                                        \
        c.re = (double)x.re, c.im = (double)x.im;                          \
        return c;                                                          \
    }
CASTS_OF_REAL(b8, uint8_t)
CASTS_OF_REAL(i32, int32_t)
CASTS_OF_REAL(i64, int64_t)
CASTS_OF_REAL(f32, float)
CASTS_OF_REAL(f64, double)
CASTS_OF_COMPLEX(c64, tpi_c64)
CASTS_OF_COMPLEX(c128, tpi_c128)

/* n / d for n < 2^31, with what the host made of d (tpi_gpu_divider): one multiplication and a shift. */
INLINE uint32_t divide(uint32_t n, uint32_t multiplier, uint32_t shift) { return (MULHI(n, multiplier) + n) >> shift; }
#endif
