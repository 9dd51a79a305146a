/* JSON, read into the tree of values that saved.h has: for safetensors' headers and tokenizers' files. Nothing is
 * believed: nesting is limited, texts must be UTF-8 without control characters, and each error names the file. */
#ifndef TPI_JSON_H
#define TPI_JSON_H
#include "io/checkpoint/saved.h"

typedef struct tpi_json {
    const unsigned char *p, *end;
    tpi_arena *arena;
    const char *path, *format; /* for messages: "'PATH' is not a valid FORMAT: ..." */
} tpi_json;

bool tpi_json_refuse(const tpi_json *s, const char *what); /* false, and that error */
unsigned char tpi_json_peek(tpi_json *s);                  /* the next character that is no space; 0: none */
bool tpi_json_accept(tpi_json *s, char c);                 /* passes it, if it is the next one */
tp_saved *tpi_json_string(tpi_json *s);                    /* NULL and an error */
/* Any value: dicts (keys in order, also those that come twice), lists, texts, numbers (whole ones as integers, if 64
 * bits hold them), true, false and null. */
tp_saved *tpi_json_value(tpi_json *s);
/* The whole of it: a value, and nothing behind it. */
tp_saved *tpi_json_all(tpi_json *s);
/* A dict's value, the last one if a key comes twice; NULL, without an error: v is no dict, or has no such key. */
const tp_saved *tpi_json_get(const tp_saved *v, const char *key);
#endif
