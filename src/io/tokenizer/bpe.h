/* Byte-pair encoding: a vocabulary, and which two tokens become one, in which order. */
#ifndef TPI_BPE_H
#define TPI_BPE_H
#include "io/checkpoint/saved.h"

enum { TPI_MOST_TOKENS = 1 << 24 };

typedef struct tpi_bpe {
    struct entry *words; /* by text */
    size_t words_capacity, nwords;
    struct merge *merges; /* by the two ids */
    size_t merges_capacity, nmerges;
    const char **tokens; /* by id; NULL: none has it. The texts are the arena's */
    int32_t ntokens, tokens_capacity;
    int32_t bytes[256]; /* the token of each byte; -1: none */
    int32_t unknown;    /* the token in the place of those; -1: they are left out */
    bool whole_words;   /* a word that is a token is that token, whatever the merges say */
} tpi_bpe;

/* A growing list of ids. */
typedef struct tpi_ids {
    int64_t *v, n, capacity;
} tpi_ids;
bool tpi_ids_add(tpi_ids *ids, int64_t id);

void tpi_bpe_free(tpi_bpe *b);
bool tpi_bpe_add(tpi_bpe *b, const char *token, int64_t id);             /* `token` outlives b; false and an error */
int32_t tpi_bpe_find(const tpi_bpe *b, const char *token, size_t bytes); /* -1: none */
/* The next merge, of tokens that are in the vocabulary; false and an error that names `path`. */
bool tpi_bpe_add_merge(tpi_bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                       const char *path);
void tpi_bpe_settle(tpi_bpe *b); /* once the vocabulary is complete */
bool tpi_bpe_encode(const tpi_bpe *b, const char *word, int64_t bytes, tpi_ids *ids);

/* Files write each byte as a character that can be printed: a space as U+0120. Writes the characters of a word, 2 bytes
 * for one at most, and gives their number of bytes. */
size_t tpi_bytes_to_printable(const char *bytes, size_t n, char *out);
/* The other way: the number of bytes written to `out`, or -1 if the text is not of that kind. */
int64_t tpi_printable_to_bytes(const char *text, size_t n, char *out);
#endif
