/* Ranks of a test: processes that are forked before the library has any thread, and meet through a file. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <taper/taper.h>

static char store_path[] = "/tmp/taper-ranks-XXXXXX";
#define CHECK(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition, tp_error() ? tp_error() : ""); \
            return false;                                                                                            \
        }                                                                                                            \
    } while (0)

static void run_ranks(int n, bool (*body)(int rank, int n)) {
    memcpy(store_path + strlen(store_path) - 6, "XXXXXX", 6);
    close(mkstemp(store_path));
    unlink(store_path);
    pid_t children[8];
    for (int rank = 0; rank < n; rank++) {
        children[rank] = fork();
        if (children[rank]) continue;
        tp_store *store = tp_store_file(store_path, n);
        bool ok = tp_dist_init(.backend = "tcp", .placed = true, .rank = rank, .world_size = n, .store = store,
                               .timeout = 300); /* what ranks wait for comes on the slowest machine */
        if (!ok) fprintf(stderr, "rank %d: %s\n", rank, tp_error());
        tp_store_release(store);
        TP_SCOPE {
            ok = ok && body(rank, n);
        }
        if (ok) tp_dist_end();
        _exit(ok ? 0 : 1);
    }
    for (int rank = 0; rank < n; rank++) {
        int status;
        assert_true(waitpid(children[rank], &status, 0) == children[rank] && WIFEXITED(status) &&
                    WEXITSTATUS(status) == 0);
    }
}
#endif
