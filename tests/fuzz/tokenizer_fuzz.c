/* A tokenizer.json: the input is the file up to a 0, and what is behind that a text for it. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    const uint8_t *end = memchr(data, 0, n);
    size_t json = end ? (size_t)(end - data) : n;
    tp_tokenizer *t = tp_tokenizer_load(fuzz_path(data, json));
    if (!t) return 0;
    TP_SCOPE {
        const char *text = end ? (const char *)end + 1 : "a 1's\n";
        tp_tensor *ids = tp_tokenizer_encode(t, text, end ? (int64_t)(n - json - 1) : -1, true);
        if (ids) {
            fuzz_touch(ids);
            tp_text_free(tp_tokenizer_decode(t, ids, true, NULL));
        }
    }
    tp_tokenizer_free(t);
    return 0;
}
