/* A profile as a table, in every order, and as a trace that is JSON with one entry per event. */
#include "tape_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tp_profile *some_work(void) {
    const tp_profile_options options = {.size = sizeof options, .shapes = true};
    tp_profile *p = tp_profile_start(&options);
    const int64_t range = tp_range_begin("a \"range\"");
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2, 3);
        for (int i = 0; i < 3; i++) tp_exp(x);
        tp_backward(tp_sum(tp_mul(x, 2)));
    }
    tp_range_end(range);
    assert_true(tp_profile_stop(p));
    return p;
}

static void test_tables(void **state) {
    (void)state;
    tp_profile *p = some_work();
    char text[8192], head[64];
    const int64_t n = tp_profile_table(p, TP_PROFILE_BY_CALLS, 0, text, sizeof text);
    assert_true(n > 0);
    assert_true(n < (int64_t)sizeof text);
    assert_int_equal(n, (int64_t)strlen(text));
    assert_non_null(strstr(text, "self %"));
    const char *exp = strstr(text, "\nexp "), *mul = strstr(text, "\nmul ");
    assert_true(exp);
    assert_true(mul);
    assert_true(exp < mul); /* three calls before one */
    double self, total;
    char share[16];
    int calls;
    assert_int_equal(sscanf(exp, " exp %15s %lf %lf %d", share, &self, &total, &calls), 4);
    assert_int_equal(calls, 3);
    assert_true(self <= total);
    assert_true(tp_profile_table(p, TP_PROFILE_BY_SELF, 1, head, sizeof head) > (int64_t)sizeof head - 1);
    assert_int_equal(strlen(head), sizeof head - 1); /* cut, as snprintf does */
    assert_int_equal(tp_profile_table(p, (tp_profile_order)9, 0, text, sizeof text), -1);
    assert_error("tp_profile_table: argument 'order': got 9");
    assert_int_equal(tp_profile_table(NULL, TP_PROFILE_BY_SELF, 0, text, sizeof text), -1);
    assert_error("tp_profile_table: argument 'profile'");
    tp_profile_free(p);
}

static void test_traces(void **state) {
    (void)state;
    tp_profile *p = some_work();
    char path[64], text[1 << 16];
    snprintf(path, sizeof path, "/tmp/taper-trace-%d.json", (int)getpid());
    assert_true(tp_profile_save_trace(p, path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    remove(path);
    int64_t events = 0, depth = 0;
    bool quoted = false;
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            c++;
        else if (*c == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
    }
    for (const char *at = text; (at = strstr(at, "\"ph\": \"X\"")); at++) events++;
    assert_int_equal(depth, 0);
    assert_false(quoted);
    assert_int_equal(events, tp_profile_count(p));
    assert_non_null(strstr(text, "\"name\": \"a \\\"range\\\"\""));
    assert_non_null(strstr(text, "\"Input Dims\": [[3]"));
    assert_false(tp_profile_save_trace(p, NULL));
    assert_error("tp_profile_save_trace: argument 'path'");
    tp_profile_free(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_tables), TEST(test_tables), TEST(test_traces)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
