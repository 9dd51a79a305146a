/* A row in registers: each thread of its group holds PER elements, VEC neighbours at a time, so that a group moves
 * whole stretches of memory. Before this text: GROUP, GROUPS, PER, VEC, and for every tensor X that is read or written
 * so its storage type T_X, GET_X and SET_X. Element number k of a thread is at ROW_AT(k) of the row.
 *
 *     ROW_PIECE(X)                                    once, outside of functions
 *     LOAD_ROW(X, x, from, n, value, none)            value[k] = the row's elements from x[from] on; `none` past its
 *                                                     n elements
 *     STORE_ROW(X, x, from, n, k, expression)         x[from + ...] = expression, which may use k
 *
 * Rows that are too long to be held go by pieces; n is a multiple of VEC:
 *
 *     EACH_PIECE(at) { A v[VEC]; LOAD_PIECE(X, x, from + at, v) ... STORE_PIECE(Y, y, from + at, j, expression with
 *     v[j]) } */
#ifndef ROW_H
#define ROW_H
#include "group.h"
#include "piece.h"
#define ROW_AT(k) (((k) / VEC * GROUP + LANE) * VEC + (k) % VEC)

#define ROW_PIECE(X)                          \
    typedef struct ALIGNED(T_##X) piece_##X { \
        T_##X v[VEC];                         \
    } piece_##X;

#define LOAD_ROW(X, x, from, n, value, none)                                                 \
    UNROLL                                                                                   \
    for (int k_ = 0; k_ < PER; k_ += VEC) {                                                  \
        if (ROW_AT(k_) < (n)) {                                                              \
            const piece_##X piece_ = *(GLOBAL const piece_##X *)((x) + (from) + ROW_AT(k_)); \
            UNROLL                                                                           \
            for (int j_ = 0; j_ < VEC; j_++) value[k_ + j_] = GET_##X(piece_.v[j_]);         \
        } else {                                                                             \
            UNROLL                                                                           \
            for (int j_ = 0; j_ < VEC; j_++) value[k_ + j_] = none;                          \
        }                                                                                    \
    }

/* The same for an argument that may have a prologue, which is run for each of its elements once. */
#if PROLOGUE
#define FIRST_LOAD_ROW(X, x, from, n, value, none)                                   \
    UNROLL                                                                           \
    for (int k_ = 0; k_ < PER; k_ += VEC) {                                          \
        if (ROW_AT(k_) < (n)) {                                                      \
            const PROLOGUE_PIECE piece_ = PROLOGUE_READ((from) + ROW_AT(k_));        \
            UNROLL                                                                   \
            for (int j_ = 0; j_ < VEC; j_++) value[k_ + j_] = GET_##X(piece_.v[j_]); \
        } else {                                                                     \
            UNROLL                                                                   \
            for (int j_ = 0; j_ < VEC; j_++) value[k_ + j_] = none;                  \
        }                                                                            \
    }
#else
#define FIRST_LOAD_ROW(X, x, from, n, value, none) LOAD_ROW(X, x, from, n, value, none)
#endif

#define STORE_ROW(X, x, from, n, k, expression)                        \
    UNROLL                                                             \
    for (int k_ = 0; k_ < PER; k_ += VEC)                              \
        if (ROW_AT(k_) < (n)) {                                        \
            piece_##X piece_;                                          \
            UNROLL                                                     \
            for (int j_ = 0; j_ < VEC; j_++) {                         \
                const int k = k_ + j_;                                 \
                piece_.v[j_] = SET_##X(expression);                    \
            }                                                          \
            *(GLOBAL piece_##X *)((x) + (from) + ROW_AT(k_)) = piece_; \
        }

/* The same for a result that may have an epilogue. */
#define STORE_ROW_THEN(X, x, from, n, k, expression)                                       \
    UNROLL                                                                                 \
    for (int k_ = 0; k_ < PER; k_ += VEC)                                                  \
        if (ROW_AT(k_) < (n)) {                                                            \
            piece_##X piece_;                                                              \
            UNROLL                                                                         \
            for (int j_ = 0; j_ < VEC; j_++) {                                             \
                const int k = k_ + j_;                                                     \
                piece_.v[j_] = SET_##X(expression);                                        \
            }                                                                              \
            if (EPILOGUE_KEEPS) *(GLOBAL piece_##X *)((x) + (from) + ROW_AT(k_)) = piece_; \
            EPILOGUE_WRITE((from) + ROW_AT(k_), piece_.v)                                  \
        }

#define EACH_PIECE(at) for (int at = LANE * VEC; at < n; at += GROUP * VEC)
#define LOAD_PIECE(X, x, from, value)                                       \
    {                                                                       \
        const piece_##X piece_ = *(GLOBAL const piece_##X *)((x) + (from)); \
        UNROLL                                                              \
        for (int j_ = 0; j_ < VEC; j_++) value[j_] = GET_##X(piece_.v[j_]); \
    }
/* A row that is longer than registers hold: its largest element, and the sum of exponentials below it. Every thread has
 * `most` and `sum` of its pieces first, then `most` is the group's, and `sum` is to be summed over the group. */
#define RUNNING_MOST(X, x, from, v, most, sum, room)                          \
    EACH_PIECE(at_) {                                                         \
        LOAD_PIECE(X, x, (from) + at_, v)                                     \
        A higher_ = most;                                                     \
        UNROLL                                                                \
        for (int j_ = 0; j_ < VEC; j_++) higher_ = JOIN_MOST(v[j_], higher_); \
        sum = higher_ == most ? sum : sum * EXP(most - higher_);              \
        most = higher_;                                                       \
        UNROLL                                                                \
        for (int j_ = 0; j_ < VEC; j_++) sum += EXP(v[j_] - most);            \
    }                                                                         \
    const A own_ = most;                                                      \
    most = group_most(most, room);                                            \
    sum = own_ == most ? sum : sum * EXP(own_ - most);
#define STORE_PIECE(X, x, from, j, expression)                           \
    {                                                                    \
        piece_##X piece_;                                                \
        UNROLL                                                           \
        for (int j = 0; j < VEC; j++) piece_.v[j] = SET_##X(expression); \
        *(GLOBAL piece_##X *)((x) + (from)) = piece_;                    \
    }
#endif
