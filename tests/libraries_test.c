/* What Taper says about the libraries it found, and how the environment keeps oneDNN out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <taper/taper.h>
#include <unistd.h>

/* In a child, because the library is looked for once: was it found with TAPER_ONEDNN set so? */
static bool found_with(const char *setting) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *version = NULL;
        if (setting)
            setenv("TAPER_ONEDNN", setting, 1);
        else
            unsetenv("TAPER_ONEDNN");
        _exit(tp_library_at(2, NULL, &version, NULL) && version ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_environment_keeps_the_library_out(void **state) {
    (void)state;
    assert_false(found_with("0"));
    assert_false(found_with("/nowhere/libdnnl.so.3"));
    assert_false(found_with("libm.so.6")); /* a library, but not that one */
    assert_int_equal(found_with("1"), found_with(NULL));
}

static void libraries_are_listed(void **state) {
    (void)state;
    static const char *const expected[] = {"BLAS", "LAPACK", "oneDNN", "zlib", "libpng", "libjpeg"};
    assert_int_equal(tp_library_count(), 6);
    for (int64_t i = 0; i < 6; i++) {
        const char *name = NULL, *version = NULL, *file = NULL;
        assert_true(tp_library_at(i, &name, &version, &file));
        assert_string_equal(name, expected[i]);
        if (i != 2) assert_true(version && file); /* oneDNN is opened where it is there */
        assert_true(!version == !file);
        if (version) assert_non_null(strpbrk(version, "123456789"));
        if (file) assert_int_equal(access(file, R_OK), 0);
        print_message("%s: %s, %s\n", name, version ? version : "not found", file ? file : "no file");
    }
    const char *version = NULL;
    assert_false(tp_library_at(6, NULL, &version, NULL));
    assert_int_equal(tp_error_code(), TP_ERR_INDEX);
    tp_error_clear();
    assert_false(tp_library_at(-1, NULL, &version, NULL));
    tp_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_environment_keeps_the_library_out),
                                       cmocka_unit_test(libraries_are_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
