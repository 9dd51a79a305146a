/* Event and record files: what was logged is in the file in whole records with right checksums, in time, from any
 * thread, whatever happens on the way. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <taper/taper.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"
#include "io/events/crc32c.h"
#include "io/events/records.h"
#include "io/events/wire.h"
#include "tensor/tensor.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/taper_events_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    char path[512];
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    closedir(d);
    return rmdir(folder);
}

static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    assert_int_equal(tp_error_code(), code);
    tp_error_clear();
}

/* ---- A reader of our own: walks the bytes and checks everything ---- */
typedef struct tally {
    int records, scalars;
    double last;  /* the last scalar's value */
    int64_t step; /* and step; -1: none */
    char tag[64];
} tally;

static uint64_t number(const unsigned char *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void tally_value(const tpi_field *value, tally *t) {
    tpi_field f;
    for (size_t at = 0; tpi_wire_next(value->data, value->bytes, &at, &f);) {
        if (f.number == 1) snprintf(t->tag, sizeof t->tag, "%.*s", (int)f.bytes, (const char *)f.data);
        if (f.number == 2) {
            t->scalars++;
            t->last = tpi_field_double(&f);
        }
    }
}

static void tally_event(const unsigned char *data, size_t bytes, tally *t) {
    tpi_field f, value;
    size_t at = 0;
    t->step = -1;
    while (tpi_wire_next(data, bytes, &at, &f)) {
        if (f.number == 2) t->step = (int64_t)f.bits;
        if (f.number != 5) continue;
        for (size_t in = 0; tpi_wire_next(f.data, f.bytes, &in, &value);) tally_value(&value, t);
    }
    assert_int_equal(at, bytes);
}

static tally tally_file(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    tally t = {.step = -1};
    unsigned char head[TPI_RECORD_HEAD], *data;
    for (size_t n; (n = fread(head, 1, sizeof head, file));) {
        assert_int_equal(n, sizeof head);
        uint64_t bytes = number(head, 8);
        assert_int_equal(number(head + 8, 4), tpi_record_crc(head, 8));
        data = malloc(bytes + TPI_RECORD_TAIL);
        assert_int_equal(fread(data, 1, bytes + TPI_RECORD_TAIL, file), bytes + TPI_RECORD_TAIL);
        assert_int_equal(number(data + bytes, 4), tpi_record_crc(data, bytes));
        t.records++;
        tally_event(data, bytes, &t);
        free(data);
    }
    fclose(file);
    return t;
}

/* ---- The tests ---- */
static void checksums_are_castagnolis(void **state) {
    (void)state;
    assert_int_equal(tpi_crc32c(0, "123456789", 9), 0xe3069283u);
    char zeros[32] = {0};
    assert_int_equal(tpi_crc32c(0, zeros, 32), 0x8a9136aau);
    assert_int_equal(tpi_crc32c(tpi_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

static void scalars_are_in_the_file(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    assert_non_null(w);
    char path[512];
    snprintf(path, sizeof path, "%s", tp_events_path(w));
    assert_int_equal(tally_file(path).records, 1); /* the version, at once */
    for (int64_t i = 0; i < 9; i++) assert_true(tp_log_scalar(w, "loss", 1.0 / (double)(i + 1), i));
    assert_int_equal(tally_file(path).scalars, 0); /* nine wait */
    assert_true(tp_log_scalar(w, "loss", 0.5, 9));
    assert_int_equal(tally_file(path).scalars, 10); /* the tenth filled the queue */
    assert_true(tp_log_scalar(w, "accuracy", -2.25, 10));
    assert_true(tp_events_flush(w));
    tally t = tally_file(path);
    assert_int_equal(t.scalars, 11);
    assert_string_equal(t.tag, "accuracy");
    assert_true(t.last == -2.25);
    assert_true(t.step == 10);
    assert_true(tp_log_scalar(w, "accuracy", 3, TP_NONE));
    assert_true(tp_events_close(w));
    t = tally_file(path);
    assert_true(t.scalars == 12);
    assert_true(t.last == 3);
    assert_true(t.step == -1);
}

static void waiting_records_are_written_in_time(void **state) {
    (void)state;
    tp_events *w =
        tp_events_open_with(folder, &(tp_events_options){.size = sizeof(tp_events_options), .flush_secs = 0.05});
    assert_true(tp_log_scalar(w, "loss", 1, 1));
    int scalars = 0;
    for (int tries = 0; !scalars && tries < 500; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        scalars = tally_file(tp_events_path(w)).scalars;
    }
    assert_int_equal(scalars, 1);
    assert_true(tp_events_close(w));
}

static void *log_many(void *w) {
    for (int64_t i = 0; i < 500; i++)
        if (!tp_log_scalar(w, "x", (double)i, i)) return NULL;
    return w;
}
static void threads_log_at_once(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_many, w), 0);
    for (int i = 0; i < 4; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
    assert_true(tp_events_flush(w));
    assert_int_equal(tally_file(tp_events_path(w)).scalars, 2000);
    assert_true(tp_events_close(w));
}

/* A child neither writes what the parent has waiting a second time, nor loses what it logs itself, with or without
 * closing. */
static void forked_children_append(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    assert_true(tp_log_scalar(w, "parent", 1, 1));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tp_log_scalar(w, "child", 2, 2);
        _exit(tp_events_close(w) ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(tp_events_flush(w));
    tally t = tally_file(tp_events_path(w));
    assert_int_equal(t.scalars, 2);
    assert_string_equal(t.tag, "parent");
    assert_true(tp_events_close(w));
}

static void what_waits_is_written_at_exit(void **state) {
    (void)state;
    char path[512];
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tp_events *w = tp_events_open(folder);
        tp_log_scalar(w, "x", 7, 7);
        if (write(fds[1], tp_events_path(w), strlen(tp_events_path(w)) + 1) < 0) _exit(2);
        int null = open("/dev/null", O_WRONLY);
        /* cmocka's end of the process is not this test's */
        dup2(null, 1);
        dup2(null, 2);
        exit(0);
    }
    waitpid(child, &(int){0}, 0);
    assert_true(read(fds[0], path, sizeof path) > 0);
    assert_int_equal(tally_file(path).scalars, 1);
    close(fds[0]);
    close(fds[1]);
}

/* A disk that takes no more: an error that says so, a file that ends with a whole record, and nothing lost once there
 * is room. */
static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    struct rlimit before, small = {2000, 2000};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int64_t n = 0;
    while (n < 1000 && tp_log_scalar(w, "loss", 1, n)) n++;
    assert_true(n < 1000);
    assert_error(TP_ERR_IO, "could not write");
    assert_true(tally_file(tp_events_path(w)).scalars <= n);
    assert_false(tp_log_scalar(w, "loss", 2, n + 1));
    assert_error(TP_ERR_IO, "File too large");
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(tp_log_scalar(w, "loss", 3, n + 2));
    assert_true(tp_events_flush(w));
    assert_int_equal(tally_file(tp_events_path(w)).scalars, n + 3);
    assert_true(tp_events_close(w));
    signal(SIGXFSZ, SIG_DFL);
}

static void bad_calls_say_what_is_wrong(void **state) {
    (void)state;
    assert_null(tp_events_open("/dev/null/runs"));
    assert_error(TP_ERR_IO, "could not make the folder '/dev/null/runs'");
    assert_null(tp_events_open(NULL));
    assert_error(TP_ERR_VALUE, "argument 'folder'");
    tp_events *w = tp_events_open(folder);
    assert_false(tp_log_scalar(w, NULL, 1, 1));
    assert_error(TP_ERR_VALUE, "argument 'tag'");
    assert_true(tp_events_close(w));
    assert_null(tp_records_create("/dev/null/x"));
    assert_error(TP_ERR_IO, "could not create");
}

static void failing_allocations_leave_whole_records(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live();
    for (int64_t nth = 1;; nth++) {
        tpi_alloc_fail_at(nth, false);
        tp_events *w = tp_events_open(folder);
        bool ok = w && tp_log_scalar(w, "loss", 1, 1) && tp_log_scalar(w, "loss", 2, 2) && tp_events_flush(w);
        tpi_alloc_fail_at(0, false);
        if (w) {
            if (!ok) assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
            tp_error_clear();
            assert_true(tp_events_flush(w));
            tally t = tally_file(tp_events_path(w));
            assert_true(ok ? t.scalars == 2 : t.scalars < 2);
        }
        tp_error_clear();
        assert_true(tp_events_close(w));
        assert_int_equal(tpi_alloc_live(), live);
        if (ok) break;
    }
}

/* Every kind of summary, one after the other; false at the first that could not be made. */
static bool log_every_kind(tp_events *w, tp_tensor *x, tp_tensor *video) {
    static const tp_setting choices[] = {{TP_SETTING_NUMBER, 0.1, NULL}, {TP_SETTING_NUMBER, 0.2, NULL}};
    static const tp_hparam hparams[] = {{"lr", {TP_SETTING_NUMBER, 0.1, NULL}, 2, choices},
                                        {"optimiser", {TP_SETTING_TEXT, 0, "adam"}, 0, NULL},
                                        {"amp", {TP_SETTING_BOOL, 1, NULL}, 0, NULL}};
    static const char *const tags[] = {"a", "b", "c"};
    static const tp_chart charts[] = {
        {"one", "lines", false, 2, tags}, {"one", "margin", true, 3, tags}, {"two", "x", false, 1, tags}};
    const tp_graph_node nodes[] = {{"x", "Input", NULL, NULL, 0, NULL, 1, &(tp_ints){x->shape, x->ndim}},
                                   {"net/y", "add", "cpu", "alpha=1", 1, tags, 0, NULL}};
    tp_summary *graph = tp_graph_new();
    if (!graph || !tp_graph_add(graph, &nodes[0]) || !tp_graph_add(graph, &nodes[1])) {
        tp_summary_free(graph);
        return false;
    }
    tp_summary_histogram_options rule = {.size = sizeof rule, .rule = "stone"};
    return tp_log_graph(w, graph) && tp_log_text(w, "text", "words", 1) && tp_log_tensor(w, "tensor", x, 1) &&
           tp_log_histogram(w, "h", x, 1) && tp_events_log(w, tp_summary_histogram("rule", x, &rule), 1) &&
           tp_log_image(w, "image", x, 1) && tp_log_video(w, "video", video, 4, 1) &&
           tp_log_audio(w, "sound", tp_base(x) ? tp_base(x) : x, 8000, 1) && tp_log_pr_curve(w, "pr", x, x, 1) &&
           tp_events_log(w, tp_summary_mesh("mesh", x, NULL, NULL, NULL), 1) &&
           tp_log_hparams(w, 3, hparams, 1, tags) && tp_events_log(w, tp_summary_custom_scalars(3, charts), TP_NONE);
}

static void every_kind_survives_failing_allocations(void **state) {
    (void)state;
    tp_tensor *flat = tp_new(TP_INTS(3, 12), TP_FLOAT32), *video = tp_new(TP_INTS(1, 2, 3, 20, 20), TP_UINT8);
    for (int64_t i = 0; i < flat->numel; i++) ((float *)flat->data)[i] = (float)i / 36;
    for (int64_t i = 0; i < video->numel; i++)
        ((uint8_t *)video->data)[i] = (uint8_t)(i * 7919 >> 5); /* more than 256 colours */
    tp_tensor *x = tp_own(tp_view(flat, TP_INTS(3, 4, 3)));
    int64_t nth = 1, live = tpi_alloc_live();
    for (bool ok = false; !ok; nth++) {
        tp_events *w = tp_events_open(folder);
        tpi_alloc_fail_at(nth, false);
        ok = log_every_kind(w, x, video);
        tpi_alloc_fail_at(0, false);
        if (!ok) assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
        tp_error_clear();
        assert_true(tp_events_flush(w));
        int records = tally_file(tp_events_path(w)).records;
        if (ok) assert_int_equal(records, 1 + 10 + 3 + 1);
        assert_true(tp_events_close(w));
        assert_int_equal(tpi_alloc_live(), live);
        remove_folder(NULL);
        assert_int_equal(mkdir(folder, 0777), 0);
    }
    assert_true(nth > 50);
    tp_release(x);
    tp_release(flat);
    tp_release(video);
}

/* ---- Reading back ---- */
typedef struct seen {
    int points, purges;
    tp_point last;
    char tag[32];
} seen;

static void see(const tp_point *point, void *context) {
    seen *s = context;
    if (!point->tag) {
        s->purges++;
        return;
    }
    s->points++;
    s->last = *point;
    snprintf(s->tag, sizeof s->tag, "%.*s", (int)point->tag_bytes, point->tag);
}

static size_t bytes_of_file(const char *path, char *out, size_t capacity) {
    FILE *file = fopen(path, "rb");
    size_t n = fread(out, 1, capacity, file);
    fclose(file);
    return n;
}
static void write_file(const char *path, const char *data, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

static void a_growing_file_is_read_record_by_record(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    char path[512], grows[600], data[4096];
    snprintf(path, sizeof path, "%s", tp_events_path(w));
    snprintf(grows, sizeof grows, "%s/grows", folder);
    tp_events_log(w, tp_summary_scalar("plain", 1.5, NULL), 1);
    tp_events_log(
        w,
        tp_summary_scalar("float", 2.5,
                          &(tp_summary_scalar_options){.size = sizeof(tp_summary_scalar_options), .as_tensor = true}),
        2);
    tp_log_text(w, "text", "no scalar", 2);
    tp_events_purge(w, 2);
    tp_events_log_at(w,
                     tp_summary_scalar("double", 3.5,
                                       &(tp_summary_scalar_options){.size = sizeof(tp_summary_scalar_options),
                                                                    .as_tensor = true,
                                                                    .as_double = true}),
                     3, 99);
    assert_true(tp_events_close(w));
    size_t n = bytes_of_file(path, data, sizeof data);
    write_file(grows, data, 0);
    tp_event_file *f = tp_event_file_open(grows);
    seen s = {0};
    for (size_t i = 0; i <= n; i++) { /* a byte more at each look */
        write_file(grows, data, i);
        assert_true(tp_event_file_points(f, see, &s));
    }
    assert_int_equal(s.points, 3);
    assert_int_equal(s.purges, 1);
    assert_string_equal(s.tag, "double");
    assert_true(s.last.value == 3.5);
    assert_true(s.last.step == 3);
    assert_true(s.last.wall_time == 99);
    assert_int_equal(tp_event_file_damaged(f), 0);
    tp_event_file_close(f);
}

/* A flipped byte anywhere: no crash, no wrong value, and it is counted. */
static void damaged_records_are_skipped(void **state) {
    (void)state;
    tp_events *w = tp_events_open(folder);
    char path[512], data[4096];
    snprintf(path, sizeof path, "%s", tp_events_path(w));
    for (int i = 0; i < 4; i++) tp_log_scalar(w, "x", 7, i);
    assert_true(tp_events_close(w));
    size_t n = bytes_of_file(path, data, sizeof data);
    for (size_t i = 0; i < n; i++) {
        data[i] ^= 0x10;
        write_file(path, data, n);
        data[i] ^= 0x10;
        tp_event_file *f = tp_event_file_open(path);
        seen s = {0};
        assert_true(tp_event_file_points(f, see, &s));
        assert_int_equal(tp_event_file_damaged(f), 1);
        assert_true(s.points <= 4);
        assert_true((!s.points || s.last.value == 7));
        tp_event_file_close(f);
    }
    assert_null(tp_event_file_open("/dev/null/x"));
    assert_error(TP_ERR_IO, "could not open");
}

static void messages_read_as_written(void **state) {
    (void)state;
    tpi_wire w = {0};
    tpi_wire_int(&w, 1, -5);
    size_t inner = tpi_wire_open(&w, 300);
    tpi_wire_float(&w, 2, 1.5f);
    for (int i = 0; i < 100; i++) tpi_wire_double(&w, 3, i); /* its length takes two bytes */
    tpi_wire_close(&w, inner);
    tpi_wire_text(&w, 4, "end");
    assert_false(w.failed);
    tpi_field f, g;
    size_t at = 0, in = 0;
    assert_true(tpi_wire_next(w.data, w.n, &at, &f));
    assert_true(f.number == 1);
    assert_true((int64_t)f.bits == -5);
    assert_true(tpi_wire_next(w.data, w.n, &at, &f));
    assert_true(f.number == 300);
    assert_true(f.bytes == 5 + 900);
    assert_true(tpi_wire_next(f.data, f.bytes, &in, &g));
    assert_true(tpi_field_double(&g) == 1.5);
    for (int i = 0; i < 100; i++) assert_true(tpi_wire_next(f.data, f.bytes, &in, &g) && tpi_field_double(&g) == i);
    assert_false(tpi_wire_next(f.data, f.bytes, &in, &g));
    assert_true(tpi_wire_next(w.data, w.n, &at, &f));
    assert_true(f.number == 4);
    assert_true(f.bytes == 3);
    assert_true(!memcmp(f.data, "end", 3));
    assert_false(tpi_wire_next(w.data, w.n, &at, &f));
    assert_int_equal(at, w.n);
    for (size_t cut = 0; cut < w.n; cut++) /* no prefix reads beyond its end */
        for (at = 0; tpi_wire_next(w.data, cut, &at, &f);) assert_true(at <= cut);
    tpi_wire_free(&w);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnolis),
        cmocka_unit_test(messages_read_as_written),
        WITH_FOLDER(scalars_are_in_the_file),
        WITH_FOLDER(waiting_records_are_written_in_time),
        WITH_FOLDER(threads_log_at_once),
        WITH_FOLDER(forked_children_append),
        WITH_FOLDER(what_waits_is_written_at_exit),
        WITH_FOLDER(a_full_disk_loses_nothing),
        WITH_FOLDER(bad_calls_say_what_is_wrong),
        WITH_FOLDER(failing_allocations_leave_whole_records),
        WITH_FOLDER(every_kind_survives_failing_allocations),
        WITH_FOLDER(a_growing_file_is_read_record_by_record),
        WITH_FOLDER(damaged_records_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
