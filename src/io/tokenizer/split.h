/* The regular expressions by which tokenizers cut a text into words: alternatives, groups, (?i:), (?!), classes with
 * \p{L}, \p{N}, \s and their opposites, and repeats of single characters. Anything else is an error when it is
 * compiled. */
#ifndef TPI_SPLIT_H
#define TPI_SPLIT_H
#include "io/checkpoint/saved.h"

typedef struct tpi_pattern tpi_pattern;
/* In the arena. `path` is the file that has it, for messages. */
tpi_pattern *tpi_pattern_compile(tpi_arena *arena, const char *text, const char *path);

/* A text as characters: codes, and where each begins among the bytes; begins[n] is the number of bytes. A byte that
 * belongs to no character counts as one of its own. */
typedef struct tpi_characters {
    uint32_t *codes;
    int64_t *begins;
    int64_t n;
} tpi_characters;
bool tpi_characters_of(tpi_characters *to, const char *bytes, int64_t n);
void tpi_characters_free(tpi_characters *c);

/* The first match at `at` or behind it that is not empty: true and [*from, *to), or false and *failed if it takes too
 * many steps. */
bool tpi_pattern_find(const tpi_pattern *p, const tpi_characters *c, int64_t at, int64_t *from, int64_t *to,
                      bool *failed);
#endif
