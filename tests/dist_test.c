/* Process groups from C: stores, launchers' variables, reductions, and forked ranks that exchange tensors and train a
 * network together. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <taper/taper.h>
#include "dist/job/rank_environment.h"
#include "dist/collective/reduce.h"
#include "ranks.h"

enum { LONG = 300 }; /* seconds: for what comes on the slowest machine */

/* ---- Stores ---- */
static bool lists_key(const char *data, size_t n, const char *key) {
    for (size_t at = 0; at + sizeof(uint32_t) <= n;) {
        uint32_t length;
        memcpy(&length, data + at, sizeof length);
        if (length == strlen(key) && memcmp(data + at + sizeof length, key, length) == 0) return true;
        at += sizeof length + length;
    }
    return false;
}

static void use_store(tp_store *s) {
    char *data;
    size_t n;
    int64_t sum;
    assert_non_null(s);
    assert_true(tp_store_set(s, "a", "one", 3));
    assert_true(tp_store_get(s, "a", &data, &n));
    assert_true(n == 3);
    assert_true(memcmp(data, "one", 3) == 0);
    tp_store_free_data(data);
    assert_true(tp_store_add(s, "n", 5, &sum));
    assert_true(sum == 5);
    assert_true(tp_store_add(s, "n", -2, &sum));
    assert_true(sum == 3);
    assert_true(tp_store_get(s, "n", &data, &n));
    assert_true(n == 1);
    assert_true(data[0] == '3');
    tp_store_free_data(data);
    assert_true(tp_store_append(s, "a", "two", 3));
    assert_true(tp_store_compare_set(s, "a", "onetwo", 6, "three", 5, &data, &n));
    assert_true(n == 5);
    tp_store_free_data(data);
    assert_true(tp_store_compare_set(s, "a", "wrong", 5, "four", 4, &data, &n));
    assert_true(n == 5);
    assert_true(memcmp(data, "three", 5) == 0);
    tp_store_free_data(data);
    assert_int_equal(tp_store_check(s, "a"), 1);
    assert_int_equal(tp_store_check(s, "b"), 0);
    int64_t before = tp_store_count(s);
    assert_int_equal(tp_store_delete(s, "a"), 1);
    assert_int_equal(tp_store_delete(s, "a"), 0);
    assert_int_equal(tp_store_count(s), before - 1);
    assert_int_equal(tp_store_queue_length(s, "q"), 0);
    assert_true(tp_store_queue_push(s, "q", "first", 5));
    assert_true(tp_store_queue_push(s, "q", "", 0));
    assert_int_equal(tp_store_queue_length(s, "q"), 2);
    assert_int_equal(tp_store_check(s, "q"), 1);
    assert_true(tp_store_keys(s, &data, &n));
    assert_true(lists_key(data, n, "q"));
    assert_false(lists_key(data, n, "gone"));
    tp_store_free_data(data);
    assert_true(tp_store_queue_pop(s, "q", -1, &data, &n));
    assert_true(n == 5);
    assert_true(memcmp(data, "first", 5) == 0);
    tp_store_free_data(data);
    assert_true(tp_store_queue_pop(s, "q", -1, &data, &n));
    assert_true(n == 0);
    tp_store_free_data(data);
    assert_int_equal(tp_store_check(s, "q"), 0);
    assert_false(tp_store_queue_pop(s, "q", 0, &data, &n));
    tp_error_clear();
    assert_false(tp_store_wait(s, "never", 0.05));
    assert_non_null(strstr(tp_error(), "'never'"));
    tp_error_clear();
}

static void stores(void **state) {
    (void)state;
    char path[] = "/tmp/taper-store-XXXXXX";
    close(mkstemp(path));
    tp_store *hash = tp_store_hash(), *file = tp_store_file(path, 1), *tcp = tp_store_tcp("localhost", 0, true, LONG),
             *prefix = tp_store_prefix("p", hash);
    use_store(hash);
    use_store(prefix);
    use_store(file);
    use_store(tcp);
    assert_int_equal(tp_store_check(hash, "p/n"), 1);
    tp_store *other =
        tp_store_tcp("localhost", tp_store_port(tcp), false, LONG); /* another connection sees the same keys */
    assert_int_equal(tp_store_check(other, "n"), 1);
    tp_store_release(other);
    tp_store_release(prefix);
    tp_store_release(hash);
    tp_store_release(file);
    tp_store_release(tcp);
    assert_int_equal(access(path, F_OK), -1);              /* the last user removed it */
    assert_null(tp_store_tcp("localhost", 1, false, 0.2)); /* nobody listens there */
    assert_non_null(strstr(tp_error(), "port 1"));
    tp_error_clear();
}

/* ---- Launchers ---- */
static const char *const known[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMIX_SERVER_URI2",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID",
                                    "PMI_LOCAL_RANK",
                                    "PMI_LOCAL_SIZE",
                                    "PALS_RANKID",
                                    "PALS_SIZE",
                                    "PALS_LOCAL_RANKID",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_NODEID",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_ID",
                                    "SLURM_NODELIST",
                                    "PMIX_RANK",
                                    "PBS_NODEFILE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT"};

static void check_rank(const char *variables, const char *launcher, int rank, int size, int local_rank) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) unsetenv(known[i]);
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = 0;
        setenv(word, value, 1);
    }
    tp_dist_place p = {.size = sizeof p};
    assert_true(tp_dist_query(&p));
    assert_int_equal(p.rank, rank);
    assert_int_equal(p.world_size, size);
    assert_int_equal(p.local_rank, local_rank);
    if (launcher)
        assert_string_equal(p.launcher, launcher);
    else
        assert_null(p.launcher);
}

static int local_size(void) {
    tp_dist_place p = {.size = sizeof p};
    assert_true(tp_dist_query(&p));
    return p.local_size;
}

static void launchers(void **state) {
    (void)state;
    tpi_meeting m;
    check_rank("", NULL, -1, -1, -1);
    assert_false(tpi_meeting_point(&m));
    check_rank("RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "torchrun", 1, 4, 1);
    check_rank("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0", "openmpi", 2, 3, 0);
    check_rank("PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1", "mpich", 3, 8, 1);
    check_rank("PMI_RANK=3 PMI_SIZE=8 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4", "mpich", 3, 8, 1); /* Cray's PMI */
    assert_int_equal(local_size(), 4);
    check_rank("PMI_RANK=3 PMI_SIZE=8 PALS_RANKID=5 PALS_SIZE=12 PALS_LOCAL_RANKID=2", "pals", 5, 12, 2);
    /* PMI of a Slurm step: the place on the node is Slurm's word. */
    check_rank("PMI_RANK=3 PMI_SIZE=5 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_NODEID=1 "
               "SLURM_STEP_TASKS_PER_NODE=2(x2),1",
               "mpich", 3, 5, 1);
    assert_int_equal(local_size(), 2);
    setenv("SLURM_NODEID", "2", 1);
    assert_int_equal(local_size(), 1);
    setenv("SLURM_NODEID", "3", 1);
    assert_int_equal(local_size(), -1);
    check_rank("PMI_RANK=3 PMI_SIZE=5 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_ID=0", "mpich", 3, 5,
               -1);                                                /* mpiexec within a step of one task */
    check_rank("SLURM_PROCID=0 SLURM_NTASKS=4", NULL, -1, -1, -1); /* a batch script, not a step */
    check_rank("SLURM_PROCID=6 SLURM_NTASKS=16 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=2 SLURM_STEP_ID=0 SLURM_JOB_ID=77 "
               "SLURM_STEP_NODELIST=nid[001003-001005,7],gpu1",
               "slurm", 6, 8, 2);
    assert_true(tpi_meeting_point(&m));
    assert_true(strcmp(m.host, "nid001003") == 0);
    assert_true(m.n == TPI_MEETING_PORTS);
    assert_true(*m.word);
    for (int i = 0; i < m.n; i++) {
        assert_true(m.ports[i] >= 16384);
        assert_true(m.ports[i] < 32768);
        for (int k = 0; k < i; k++) assert_int_not_equal(m.ports[i], m.ports[k]);
    }
    check_rank("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
               "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_SERVER_URI2=7.0;tcp4://127.0.0.1:5",
               "openmpi", 1, 4, 1);
    assert_true(tpi_meeting_point(&m));
    assert_true(strcmp(m.host, "127.0.0.1") == 0);
    assert_true(strstr(m.word, "7.0;tcp4://127.0.0.1:5"));
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1); /* some are elsewhere: MPI has to tell where */
    assert_false(tpi_meeting_point(&m));
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    setenv("MASTER_PORT", "2345", 1);
    assert_true(tpi_meeting_point(&m));
    assert_true(strcmp(m.host, "10.0.0.1") == 0);
    assert_true(m.n == 1);
    assert_true(m.ports[0] == 2345);
    assert_true(!*m.word);
    check_rank("", NULL, -1, -1, -1);
}

/* ---- Meeting at ports of which some are taken ---- */
static void meeting(void **state) {
    (void)state;
    char word[64];
    snprintf(word, sizeof word, "%d.%ld", (int)getpid(), (long)time(NULL));
    setenv("SLURM_JOB_ID", word, 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NODELIST", "localhost", 1);
    tpi_meeting m, other;
    assert_true(tpi_meeting_point(&m));
    other = m;
    snprintf(other.word, sizeof other.word, "another");
    tp_store *strangers[TPI_MEETING_PORTS] = {NULL};
    int taken =
        TPI_MEETING_PORTS - 1; /* all but one, by stores of another job; a port that somebody else has serves as well */
    for (int i = 0; i < taken; i++)
        if (!(strangers[i] = tp_store_tcp("localhost", m.ports[i], true, LONG))) tp_error_clear();
    tp_store *zero = tpi_store_tcp_meet(&m, true, LONG), *one = tpi_store_tcp_meet(&m, false, LONG);
    assert_true(zero);
    assert_true(one);
    assert_true(tp_store_port(zero) == tp_store_port(one));
    assert_true(tp_store_port(one) == m.ports[taken]);
    assert_true(tp_store_set(zero, "there", "", 0));
    assert_true(tp_store_check(one, "there") == 1);
    assert_null(tpi_store_tcp_meet(&other, false, 0.5)); /* whose store listens at none of them */
    assert_non_null(strstr(tp_error(), "not the store of this job"));
    tp_error_clear();
    assert_null(tpi_store_tcp_meet(&m, true, 10)); /* now all are taken */
    assert_non_null(strstr(tp_error(), "MASTER_PORT"));
    tp_error_clear();
    tp_store_release(one);
    tp_store_release(zero);
    for (int i = 0; i < taken; i++) tp_store_release(strangers[i]);
    check_rank("", NULL, -1, -1, -1);
}

static void *end_later(void *store) {
    usleep(500000);
    tp_store_release(store);
    return NULL;
}

static void a_port_that_is_taken(void **state) {
    (void)state;
    tp_store *holder = tp_store_tcp("localhost", 0, true, LONG);
    tpi_meeting m = {.host = "localhost", .ports = {tp_store_port(holder)}, .n = 1};
    char wanted[32];
    snprintf(wanted, sizeof wanted, "port %d of host ", m.ports[0]);
    assert_null(tp_store_tcp("localhost", m.ports[0], true, 10)); /* at once */
    assert_true(strstr(tp_error(), wanted));
    assert_true(strstr(tp_error(), "MASTER_PORT"));
    tp_error_clear();
    pthread_t ends;
    assert_int_equal(pthread_create(&ends, NULL, end_later, holder), 0);
    tp_store *zero = tpi_store_tcp_meet(&m, true, LONG); /* waits for it */
    assert_non_null(zero);
    pthread_join(ends, NULL);
    tp_store_release(zero);
}

/* ---- Reductions ---- */
static void reductions(void **state) {
    (void)state;
    float a[3000], b[3000], c[3000], out[3000];
    for (int i = 0; i < 3000; i++) {
        a[i] = (float)i;
        b[i] = 1e8f;
        c[i] = -1e8f;
    }
    const void *rows[] = {a, b, c};
    tpi_reduce_rows(TP_FLOAT32, TP_REDUCE_SUM, out, rows, 3, 3000);
    for (int i = 0; i < 3000; i++) assert_true(out[i] == ((float)i + 1e8f) - 1e8f); /* in that order and no other */
    tpi_reduce_rows(TP_FLOAT32, TP_REDUCE_AVG, a, rows, 3, 3000);
    assert_true(a[2999] == out[2999] / 3);
    float nan_row[] = {NAN, 1}, plain_row[] = {2, NAN};
    const void *with_nan[] = {nan_row, plain_row};
    tpi_reduce_rows(TP_FLOAT32, TP_REDUCE_MAX, out, with_nan, 2, 2);
    assert_true(isnan(out[0]));
    assert_true(isnan(out[1]));
    int8_t x[] = {100, -7}, y[] = {100, 3};
    const void *bytes[] = {x, y};
    tpi_reduce_rows(TP_INT8, TP_REDUCE_SUM, x, bytes, 2, 2);
    assert_true(x[0] == (int8_t)200);
    assert_true(x[1] == -4);
    assert_false(tpi_check_reduce(TP_FLOAT32, TP_REDUCE_BAND));
    tp_error_clear();
}

/* ---- Ranks ---- */
static bool collectives(int rank, int n) {
    TP_SCOPE {
        tp_tensor *t = tp_full(TP_INTS(3, 5), tp_float(rank + 1)), *across = tp_transpose(t, 0, 1), *parts[8];
        CHECK(tp_dist_wait(tp_dist_all_reduce(NULL, across, TP_REDUCE_SUM)));
        CHECK(tp_item(tp_max(t)) == n * (n + 1) / 2);
        for (int i = 0; i < n; i++) parts[i] = tp_zeros(TP_INTS(i + 1));
        CHECK(tp_dist_wait(tp_dist_all_gather(NULL, tp_list(n, parts), tp_full(TP_INTS(rank + 1), tp_float(rank)))));
        for (int i = 0; i < n; i++) CHECK(tp_item(tp_sum(parts[i])) == i * (i + 1));
        for (int64_t size = 1 << 17; size <= 1 << 20;
             size *= 2) { /* parts that end with what a socket is read at a time */
            tp_tensor *large = tp_ones(TP_INTS(size));
            CHECK(tp_dist_wait(tp_dist_all_reduce(NULL, large, TP_REDUCE_SUM)) && tp_item(tp_min(large)) == n &&
                  tp_item(tp_max(large)) == n);
            CHECK(tp_dist_wait(tp_dist_broadcast(NULL, large, n - 1)));
        }
        tp_tensor *out = tp_zeros(TP_INTS(n));
        CHECK(tp_dist_wait(tp_dist_all_to_all_single(
            NULL, out, tp_add(tp_arange(tp_int(n), .dtype = TP_FLOAT32), 10 * rank), tp_no_ints(), tp_no_ints())));
        CHECK(tp_item(tp_sum(out)) == 10 * n * (n - 1) / 2 + n * rank);
        tp_group *pair = tp_group_new(TP_INTS(0, n - 1), 0, "ends");
        CHECK(pair && tp_group_rank(pair) == (rank == 0 ? 0 : rank == n - 1 ? 1 : -1));
        tp_tensor *one = tp_ones(TP_INTS(1));
        if (tp_group_rank(pair) >= 0) {
            CHECK(tp_dist_wait(tp_dist_all_reduce(pair, one, TP_REDUCE_SUM)) && tp_item(one) == 2);
        } else {
            CHECK(!tp_dist_all_reduce(pair, one, TP_REDUCE_SUM));
            tp_error_clear();
        }
        CHECK(tp_dist_wait(tp_dist_barrier(NULL)));
        if (rank == 0) CHECK(tp_dist_wait(tp_dist_send(NULL, one, 1, 7)));
        tp_tensor *got = tp_zeros(TP_INTS(1));
        if (rank == 1) CHECK(tp_dist_wait(tp_dist_recv(NULL, got, 0, 7)) && tp_item(got) == 2);
        CHECK(!tp_dist_wait(tp_dist_broadcast(NULL, tp_ones(TP_INTS(2 + (rank == 1))), 0))); /* another shape */
        CHECK(strstr(tp_error(), "ranks disagree about number") && strstr(tp_error(), "rank 1 (host ") &&
              strstr(tp_error(), "[3]"));
        tp_error_clear();
    }
    return true;
}

static void ranks_exchange(void **state) {
    (void)state;
    run_ranks(4, collectives);
}

/* Rank 1 comes when the others have given up; until then it can be told apart from those that wait. */
static bool late(int rank, int n) {
    char key[32];
    TP_SCOPE {
        CHECK(tp_dist_wait(tp_dist_barrier(NULL)));
        tp_group_set_timeout(NULL, 15); /* all but rank 1 come within that on any machine */
        for (int i = 0; rank == 1 && i < n; i++) {
            snprintf(key, sizeof key, "told/%d", i);
            if (i != 1 && !tp_store_wait(tp_dist_store(), key, LONG)) tp_error_clear();
        }
        CHECK(!tp_dist_wait(tp_dist_all_reduce(NULL, tp_ones(TP_INTS(3)), TP_REDUCE_SUM)));
        if (rank != 1)
            CHECK(strncmp(tp_error(),
                          "all_reduce(SUM) of float32 [3], number 2 of group 'default', timed out after 15.0 seconds. "
                          "Not there:\n  rank 1 (host ",
                          104) == 0);
        for (int i = 0; rank != 1 && i < n; i++) {
            snprintf(key, sizeof key, "rank %d (host", i);
            CHECK((strstr(tp_error(), key) != NULL) == (i == 1));
        }
        tp_error_clear();
        snprintf(key, sizeof key, "told/%d", rank);
        if (!tp_store_set(tp_dist_store(), key, "", 0)) tp_error_clear();
    }
    return true;
}

static void a_timeout_names_its_culprit(void **state) {
    (void)state;
    run_ranks(4, late);
}

/* ---- Training: the same weights as one process with the whole batch ---- */
enum { ROWS = 24, STEPS = 20 };
static float weights[3][64]; /* what each number of ranks came to */

static bool train(int rank, int n) {
    tp_manual_seed(1);
    tp_module *net = tp_nn_sequential(tp_nn_linear(4, 8), tp_nn_tanh(), tp_nn_linear(8, 1));
    tp_tensor *x = tp_own(tp_randn(TP_INTS(ROWS, 4))), *y = tp_own(tp_sum(x, .dim = TP_INTS(1), .keepdim = true));
    if (rank) tp_manual_seed(99); /* rank 0's parameters count */
    tp_module *other = rank ? tp_nn_sequential(tp_nn_linear(4, 8), tp_nn_tanh(), tp_nn_linear(8, 1)) : NULL,
              *mine = other ? other : net;
    tp_ddp *ddp = n > 1 ? tp_ddp_new(mine, .bucket_bytes = 64) : NULL;
    CHECK(n == 1 || ddp);
    tp_state p = tp_module_parameters(mine);
    tp_optimiser *sgd = tp_sgd(tp_list(p.n, p.tensors), .lr = 0.1, .momentum = 0.9);
    for (int step = 0; step < STEPS; step++)
        TP_SCOPE {
            const int64_t rows = ROWS;
            const int64_t many = rows / n;
            tp_tensor *loss =
                tp_mse_loss(tp_forward(mine, tp_narrow(x, 0, rank * many, many)), tp_narrow(y, 0, rank * many, many));
            CHECK(tp_optimiser_zero_grad(sgd) && tp_backward(loss) && (!ddp || tp_ddp_finish(ddp)) && tp_step(sgd));
        }
    char path[64];
    snprintf(path, sizeof path, "%s.%d.%d", store_path, n, rank);
    FILE *file = fopen(path, "w");
    for (int64_t i = 0; i < p.n; i++) fwrite(tp_data(p.tensors[i]), 4, (size_t)tp_numel(p.tensors[i]), file);
    fclose(file);
    tp_optimiser_free(sgd);
    tp_ddp_free(ddp);
    tp_state_free(p);
    tp_module_release(net);
    tp_module_release(other);
    tp_release(x);
    tp_release(y);
    return true;
}

static void read_weights(int n, int rank, float *into) {
    char path[64];
    snprintf(path, sizeof path, "%s.%d.%d", store_path, n, rank);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(into, 4, 49, file), 49);
    fclose(file);
    unlink(path);
}

static void ranks_train(void **state) {
    (void)state;
    const int sizes[] = {1, 2, 4};
    for (int s = 0; s < 3; s++) {
        run_ranks(sizes[s], train);
        read_weights(sizes[s], 0, weights[s]);
        float other[64];
        for (int rank = 1; rank < sizes[s]; rank++) {
            read_weights(sizes[s], rank, other);
            assert_memory_equal(weights[s], other, 49 * 4); /* all ranks have the same bits */
        }
        for (int i = 0; i < 49; i++) assert_true(fabsf(weights[s][i] - weights[0][i]) < 1e-6f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_exchange), cmocka_unit_test(a_timeout_names_its_culprit),
                                       cmocka_unit_test(ranks_train),    cmocka_unit_test(launchers),
                                       cmocka_unit_test(reductions),     cmocka_unit_test(stores),
                                       cmocka_unit_test(meeting),        cmocka_unit_test(a_port_that_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
