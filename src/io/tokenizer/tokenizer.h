/* A tokenizer as load.c makes it and tokenizer.c uses it. */
#ifndef TPI_TOKENIZER_H
#define TPI_TOKENIZER_H
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/split.h"
#include <taper/tokenizer.h>

enum { TPI_MOST_STAGES = 8, TPI_MOST_AROUND = 8 };

typedef struct tpi_stage {      /* one way to cut a piece of text further */
    const tpi_pattern *pattern; /* NULL: it stays whole */
    bool prefix_space;          /* a piece that does not begin with a space gets one */
} tpi_stage;

typedef struct tpi_added { /* a token that is looked for before anything is cut */
    const char *text;
    size_t bytes;
    int32_t id;
    bool special, strips_left, strips_right; /* takes the spaces beside it along */
} tpi_added;

struct tp_tokenizer {
    tpi_arena arena; /* of all texts and patterns */
    tpi_bpe bpe;
    tpi_stage stages[TPI_MOST_STAGES];
    int nstages;
    tpi_added *added; /* longer ones first */
    int64_t nadded;
    int32_t before[TPI_MOST_AROUND], behind[TPI_MOST_AROUND]; /* special tokens around a text */
    int nbefore, nbehind;
};
#endif
