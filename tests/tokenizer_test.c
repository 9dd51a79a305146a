/* Byte-pair tokenizers: the ids of Hugging Face's library (tests/fixtures/tokenizer/cases.txt), texts that come back,
 * and files that are refused. */
#include "tape_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *fixture(const char *name) {
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    const char *root = getenv("TAPER_SOURCE_DIR");
    snprintf(path[next], sizeof *path, "%s/tests/fixtures/tokenizer/%s", root ? root : ".", name);
    return path[next];
}

static int64_t from_hex(const char *hex, char *out) {
    int64_t n = 0;
    unsigned byte;
    for (; *hex != '-' && sscanf(hex, "%2x", &byte) == 1; hex += 2) out[n++] = (char)byte;
    out[n] = 0;
    return n;
}

/* Compares ids with those behind `want`, numbers with spaces between. */
static void assert_ids(tp_tensor *ids, const char *want, const char *line) {
    if (!ids) fail_msg("%s: %s", line, tp_error());
    const int64_t *v = tp_data(ids);
    for (int64_t i = 0; i < tp_numel(ids); i++) {
        char *end;
        long long id = strtoll(want, &end, 10);
        if (end == want || id != v[i]) fail_msg("id %lld: got %lld in: %s", (long long)i, (long long)v[i], line);
        want = end;
    }
    while (*want == ' ' || *want == '\n') want++;
    if (*want) fail_msg("ids are missing: %s in: %s", want, line);
}

static void ids_are_hugging_faces(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama", "roberta"};
    int seen = 0;
    for (int k = 0; k < 3; k++) {
        char file[32], line[8192], name[32], hex[4096], text[2048];
        snprintf(file, sizeof file, "%s.json", names[k]);
        tp_tokenizer *t = tp_tokenizer_load(fixture(file));
        if (!t) fail_msg("%s", tp_error());
        FILE *cases = fopen(fixture("cases.txt"), "r");
        assert_non_null(cases);
        while (fgets(line, sizeof line, cases)) {
            int ids;
            assert_true(sscanf(line, "%31s %4095s %n", name, hex, &ids) >= 2);
            if (strcmp(name, names[k]) != 0) continue;
            int64_t n = from_hex(hex, text);
            TP_SCOPE {
                assert_ids(tp_tokenizer_encode(t, text, n, true), line + ids, line);
                tp_tensor *plain = tp_tokenizer_encode(t, text, n, false);
                int64_t bytes;
                char *back = tp_tokenizer_decode(t, plain, false, &bytes);
                assert_non_null(back);
                bool prefixed = k == 2 && n && *text != ' '; /* add_prefix_space */
                bool strips = strstr(text, "<mask>") != NULL || strstr(text, "<|end") != NULL;
                if (!strips) {
                    assert_int_equal(bytes, n + prefixed);
                    assert_memory_equal(back + prefixed, text, (size_t)n);
                }
                tp_text_free(back);
            }
            seen++;
        }
        fclose(cases);
        tp_tokenizer_free(t);
    }
    assert_true(seen > 200);
}

static void gpt2s_own_files_give_the_same(void **state) {
    (void)state;
    tp_tokenizer *one = tp_tokenizer_load(fixture("gpt2.json"));
    tp_tokenizer *two = tp_tokenizer_load_gpt2(fixture("vocab.json"), fixture("merges.txt"));
    assert_non_null(one);
    assert_non_null(two);
    const char *text = "The king's  crown,\nand <|endoftext|> 1623";
    TP_SCOPE {
        tp_tensor *a = tp_tokenizer_encode(one, text, -1, true), *b = tp_tokenizer_encode(two, text, -1, true);
        assert_true(tp_equal(a, b));
        char *plain = tp_tokenizer_decode(two, b, true, NULL);
        assert_string_equal(plain, "The king's  crown,\nand  1623");
        tp_text_free(plain);
    }
    assert_int_equal(tp_tokenizer_size(two), 420);
    assert_int_equal(tp_tokenizer_id(two, "<|endoftext|>"), 0);
    assert_int_equal(tp_tokenizer_id(two, "no such token"), -1);
    assert_string_equal(tp_tokenizer_token(two, 0), "<|endoftext|>");
    assert_null(tp_tokenizer_token(two, 100000));
    assert_true(tp_tokenizer_is_special(two, 0));
    assert_false(tp_tokenizer_is_special(two, 5));
    assert_true(tp_ok());
    tp_tokenizer_free(one);
    tp_tokenizer_free(two);
}

static void bytes_that_are_no_text_come_back(void **state) {
    (void)state;
    tp_tokenizer *t = tp_tokenizer_load(fixture("gpt2.json"));
    char all[512];
    for (int i = 0; i < 512; i++) all[i] = (char)(i * 37 % 256);
    TP_SCOPE {
        int64_t n;
        char *back = tp_tokenizer_decode(t, tp_tokenizer_encode(t, all, sizeof all, false), false, &n);
        assert_int_equal(n, sizeof all);
        assert_memory_equal(back, all, sizeof all);
        tp_text_free(back);
    }
    tp_tokenizer_free(t);
}

static void refused(const char *json, const char *words) {
    char path[] = "/tmp/tokenizer-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, json, strlen(json)) == (ssize_t)strlen(json));
    close(fd);
    tp_tokenizer *t = tp_tokenizer_load(path);
    unlink(path);
    if (t) fail_msg("taken: %s", json);
    if (!strstr(tp_error(), words)) fail_msg("%s: %s", json, tp_error());
    tp_error_clear();
}

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}"
#define CUTS                 ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"
#define SPLIT(regex)                                                                                 \
    ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{" \
    "\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"

static void what_is_not_known_is_refused(void **state) {
    (void)state;
    refused("", "expected a value");
    refused("{", "expected a text");
    refused("[]", "it has no model");
    refused("{\"a\":1} x", "goes on behind its end");
    refused("{\"a\":[1,2}", "expected a comma");
    refused("{\"a\":99999999999999999999}", "too large");
    refused("{\"a\":tru}", "expected a value");
    refused("{" MODEL("{\"a\":-1}", "[]") CUTS "}", "id -1");
    refused("{" MODEL("{\"a\":99999999999}", "[]") CUTS "}", "99999999999");
    refused("{" MODEL("{\"a\":\"b\"}", "[]") CUTS "}", "id is no number");
    refused("{" MODEL("{\"a\":0}", "[\"a b\"]") CUTS "}", "the vocabulary lacks");
    refused("{" MODEL("{\"a\":0}", "[\"ab\"]") CUTS "}", "two tokens with a space");
    refused("{" MODEL("{\"a\":0}", "[3]") CUTS "}", "not two tokens");
    refused("{" MODEL("{\"a\":0}", "[]") "}", "pre-tokenizer '(none)'");
    refused("{\"model\":{\"type\":\"WordPiece\"}}", "model 'WordPiece'");
    refused("{\"normalizer\":{\"type\":\"NFC\"}," MODEL("{}", "[]") CUTS "}", "normalizer 'NFC'");
    refused("{\"decoder\":{\"type\":\"Metaspace\"}," MODEL("{}", "[]") CUTS "}", "decoder 'Metaspace'");
    refused("{" MODEL("{}", "[]") SPLIT("(a)+") "}", "a repeated group");
    refused("{" MODEL("{}", "[]") SPLIT("\\\\p{Lu}") "}", "other than L and N");
    refused("{" MODEL("{}", "[]") SPLIT("((((((((((((((((((a))))))))))))))))))") "}", "nested too deeply");
    refused("{" MODEL("{}", "[]") SPLIT("[a") "}", "does not end");
    refused("{" MODEL("{}", "[]") SPLIT("a)") "}", "too many");
    refused("{" MODEL("{}", "[]") SPLIT("*") "}", "a repeat of nothing");
    refused("{" MODEL("{}", "[]") CUTS ",\"added_tokens\":[{\"id\":1}]}", "lacks its text");
    char deep[400] = "";
    for (int i = 0; i < 200; i++) strcat(deep, "[");
    refused(deep, "nested too deeply");
    assert_null(tp_tokenizer_load("/no/such/file"));
    tp_error_clear();
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    tp_tokenizer *t = tp_tokenizer_load(fixture("gpt2.json"));
    TP_SCOPE {
        assert_null(tp_tokenizer_encode(NULL, "a", -1, true));
        assert_error("tp_tokenizer_encode: argument 'tokenizer': expected a tokenizer, got NULL");
        assert_null(tp_tokenizer_encode(t, NULL, -1, true));
        assert_error("argument 'text'");
        assert_null(tp_tokenizer_encode(t, "a", -5, true));
        assert_error("argument 'bytes'");
        assert_null(tp_tokenizer_decode(t, tp_ones(TP_INTS(2)), true, NULL));
        assert_error("expected a row of integers, got float32");
        assert_null(tp_tokenizer_decode(t, tp_full(TP_INTS(1), tp_int(9999)), true, NULL));
        assert_error("no token has the id 9999");
        assert_int_equal(tp_numel(tp_tokenizer_encode(t, "", 0, true)), 0);
    }
    tp_tokenizer_free(t);
    tp_tokenizer_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_hugging_faces),
        cmocka_unit_test(gpt2s_own_files_give_the_same),
        cmocka_unit_test(bytes_that_are_no_text_come_back),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
