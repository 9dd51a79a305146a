/* Byte-pair tokenizers: text to numbers and back, as GPT-2's and Hugging Face's tokenizers do it on bytes.
 *
 *     tp_tokenizer *t = tp_tokenizer_load("tokenizer.json");
 *     tp_tensor *ids = tp_tokenizer_encode(t, "Hello, world", -1, true);    // int64, one dimension
 *     char *text = tp_tokenizer_decode(t, ids, true, NULL);
 *     tp_text_free(text);
 *     tp_tokenizer_free(t);
 *
 * A tokenizer never changes, so threads may share it. Texts are UTF-8; bytes that are not pass unchanged. */
#ifndef TAPER_TOKENIZER_H
#define TAPER_TOKENIZER_H
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_tokenizer tp_tokenizer;
/* Hugging Face's tokenizer.json, of byte-level BPE: GPT-2, RoBERTa, Llama 3, Qwen's like. A file that asks for what is
 * not here (another model, a normalizer) is an error that names it. */
TP_API tp_tokenizer *tp_tokenizer_load(const char *path);
/* GPT-2's two files, vocab.json and merges.txt. A token "<|endoftext|>" of the vocabulary is special. */
TP_API tp_tokenizer *tp_tokenizer_load_gpt2(const char *vocab, const char *merges);
TP_API void tp_tokenizer_free(tp_tokenizer *tokenizer); /* NULL is fine */

TP_API int64_t tp_tokenizer_size(const tp_tokenizer *tokenizer); /* the largest id and 1; -1 on failure */
TP_API int64_t tp_tokenizer_id(const tp_tokenizer *tokenizer, const char *token); /* -1, without an error: none */
/* As files write it: a space is "\u0120". NULL, without an error: no token has that id. */
TP_API const char *tp_tokenizer_token(const tp_tokenizer *tokenizer, int64_t id);
TP_API bool tp_tokenizer_is_special(const tp_tokenizer *tokenizer, int64_t id);

/* The ids of `bytes` bytes of text (-1: up to its 0). special: with the tokens that the file puts before and behind a
 * text, as Llama's "<|begin_of_text|>"; special tokens within the text are found in any case. */
TP_API tp_tensor *tp_tokenizer_encode(const tp_tokenizer *tokenizer, const char *text, int64_t bytes, bool special);
/* The text of ids, ended by a 0; *bytes (NULL: not asked) is its length without that. skip_special: without special
 * tokens. An id that is none is an error. tp_text_free it. */
TP_API char *tp_tokenizer_decode(const tp_tokenizer *tokenizer, const tp_tensor *ids, bool skip_special,
                                 int64_t *bytes);
TP_API void tp_text_free(char *text); /* NULL is fine */

TP_END
#endif
