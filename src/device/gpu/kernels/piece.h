/* Neighbouring elements that are moved at once.
 *
 *   ON_BYTES(n)     of a structure: it lies on a multiple of n bytes
 *   ALIGNED(type)   of a structure of VEC elements of the type: it lies on a multiple of its size
 *   piece_t         PIECE bytes, where that is defined before this text */
#ifndef PIECE_H
#define PIECE_H

#if defined(__OPENCL_VERSION__)
#define ON_BYTES(n) __attribute__((aligned(n)))
#else
#define ON_BYTES(n) __align__(n)
#endif
#define ALIGNED(type) ON_BYTES(VEC * sizeof(type))

#if !defined(PIECE)
#elif PIECE == 16
typedef word16 piece_t;
#elif PIECE == 8
typedef word8 piece_t;
#elif PIECE == 4
typedef uint32_t piece_t;
#elif PIECE == 2
typedef uint16_t piece_t;
#else
typedef uint8_t piece_t;
#endif
#endif
