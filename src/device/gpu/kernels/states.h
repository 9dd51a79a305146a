/* States of reductions and scans that pass between threads which run in step, without shared memory: CUDA and HIP. All
 * threads of them take part; the state of a thread that is not there comes back as one's own. After the operator's
 * functions; state_t is theirs. */
#ifndef STATES_H
#define STATES_H
#if !defined(__OPENCL_VERSION__)
#define TEAM  (BLOCK_SIZE < WARP ? BLOCK_SIZE : WARP) /* threads in step */
#define TEAMS (BLOCK_SIZE / TEAM)

typedef union state_words {
    state_t state;
    uint32_t word[(sizeof(state_t) + 3) / 4];
} state_words;

#if defined(__HIP__)
#define WORD_UP(w, by)   __shfl_up(w, by)
#define WORD_DOWN(w, by) __shfl_down(w, by)
#else
#define WORD_UP(w, by)   __shfl_up_sync(0xffffffffu, w, by)
#define WORD_DOWN(w, by) __shfl_down_sync(0xffffffffu, w, by)
#endif

INLINE state_t state_up(const state_t a, const int by) { /* of the thread `by` before this one */
    state_words s;
    s.state = a;
    UNROLL
    for (int i = 0; i < (int)(sizeof(state_t) + 3) / 4; i++) s.word[i] = WORD_UP(s.word[i], by);
    return s.state;
}

INLINE state_t state_down(const state_t a, const int by) { /* of the thread `by` after this one */
    state_words s;
    s.state = a;
    UNROLL
    for (int i = 0; i < (int)(sizeof(state_t) + 3) / 4; i++) s.word[i] = WORD_DOWN(s.word[i], by);
    return s.state;
}
#endif
#endif
