/* One dtype's loops of combine.c. Before including: STORED is the element in memory, T the type it is combined in, LOAD
 * and STORE go between them, ADD MUL MAX MIN combine two T, NAME gives this dtype's function names. */
#define CELL(expression)                                                                                           \
    for (int64_t r = 0; r < p->rows; r++) {                                                                        \
        const int64_t *index = p->index + r * p->index_row;                                                        \
        const char *plain = p->plain + r * p->plain_row;                                                           \
        if (p->index_col == 0) {                                                                                   \
            char *row = p->indexed + *index * p->scale;                                                            \
            if (p->indexed_col == (int64_t)sizeof(STORED) && p->plain_col == (int64_t)sizeof(STORED)) {            \
                STORED *to = (STORED *)(void *)row;                                                                \
                const STORED *from = (const STORED *)(const void *)plain;                                          \
                for (int64_t c = 0; c < p->cols; c++) {                                                            \
                    T a = LOAD(to[c]), b = LOAD(from[c]);                                                          \
                    to[c] = STORE(expression);                                                                     \
                }                                                                                                  \
                continue;                                                                                          \
            }                                                                                                      \
            for (int64_t c = 0; c < p->cols; c++) {                                                                \
                STORED *to = (STORED *)(void *)(row + c * p->indexed_col);                                         \
                T a = LOAD(*to), b = LOAD(*(const STORED *)(const void *)(plain + c * p->plain_col));              \
                *to = STORE(expression);                                                                           \
            }                                                                                                      \
            continue;                                                                                              \
        }                                                                                                          \
        if (p->index_col == 1 && p->indexed_col == 0 && p->plain_col == (int64_t)sizeof(STORED) &&                 \
            p->scale == (int64_t)sizeof(STORED)) { /* a contiguous line, an index for each of its elements */      \
            STORED *to = (STORED *)(void *)p->indexed;                                                             \
            const STORED *from = (const STORED *)(const void *)plain;                                              \
            for (int64_t c = 0, cols = p->cols; c < cols; c++) {                                                   \
                STORED *cell = to + index[c];                                                                      \
                T a = LOAD(*cell), b = LOAD(from[c]);                                                              \
                *cell = STORE(expression);                                                                         \
            }                                                                                                      \
            continue;                                                                                              \
        }                                                                                                          \
        for (int64_t c = 0; c < p->cols; c++) {                                                                    \
            STORED *to = (STORED *)(void *)(p->indexed + index[c * p->index_col] * p->scale + c * p->indexed_col); \
            T a = LOAD(*to), b = LOAD(*(const STORED *)(const void *)(plain + c * p->plain_col));                  \
            *to = STORE(expression);                                                                               \
        }                                                                                                          \
    }

static void NAME(tpi_combine_op op, const tpi_indexed_block *p) {
    switch (op) {
    case TPI_ADD: CELL(ADD(a, b)) break;
    case TPI_MUL: CELL(MUL(a, b)) break;
#ifdef MAX
    case TPI_MAX: CELL(MAX(a, b)) break;
    case TPI_MIN: CELL(MIN(a, b)) break;
#endif
    default: break;
    }
}
#undef CELL
#undef NAME
#undef STORED
#undef T
#undef LOAD
#undef STORE
#undef ADD
#undef MUL
#undef MAX
#undef MIN
