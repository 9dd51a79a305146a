/* Strangers on the network: what a job's secret is made of, who is let in without it (nobody), and what those who are
 * let in, or are not, can cost the store. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <taper/taper.h>
#include "base/sha256.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include "dist/store/store_server.h"

#define SECRET "0123456789abcdef0123456789abcdef"

static void hex(const uint8_t *bytes, char text[2 * TPI_SHA256_BYTES + 1]) {
    for (int i = 0; i < TPI_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static void check_sha256(const char *data, size_t n, const char *expected) {
    tpi_sha256 s;
    uint8_t digest[TPI_SHA256_BYTES];
    char text[2 * TPI_SHA256_BYTES + 1];
    for (size_t step = 1; step <= n + 1; step += 13) { /* the same in pieces of any size */
        tpi_sha256_begin(&s);
        for (size_t at = 0; at < n; at += step) tpi_sha256_add(&s, data + at, step < n - at ? step : n - at);
        tpi_sha256_end(&s, digest);
        hex(digest, text);
        assert_string_equal(text, expected);
    }
}

static void sha256_of_the_standard(void **state) {
    (void)state;
    check_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void check_hmac(const char *key, size_t key_bytes, const char *data, size_t n, const char *expected) {
    tpi_hmac h;
    uint8_t digest[TPI_SHA256_BYTES];
    char text[2 * TPI_SHA256_BYTES + 1];
    tpi_hmac_begin(&h, key, key_bytes);
    tpi_hmac_add(&h, data, n / 2);
    tpi_hmac_add(&h, data + n / 2, n - n / 2);
    tpi_hmac_end(&h, digest);
    hex(digest, text);
    assert_string_equal(text, expected);
}

static void hmac_of_rfc_4231(void **state) {
    (void)state;
    char key[131], data[50];
    memset(key, 0x0b, 20);
    check_hmac(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    check_hmac(key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    check_hmac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_true(tpi_same_bytes("abc", "abc", 3));
    assert_false(tpi_same_bytes("abc", "abd", 3));
}

/* ---- A client that is written here, and can misbehave ---- */
static int connect_raw(int port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int let_in(int port) { /* with the secret of the environment */
    tpi_key key;
    int fd = connect_raw(port);
    assert_true(tpi_job_key(&key));
    assert_int_equal(tpi_prove(fd, TPI_FOR_STORE, &key, tpi_now() + 10), TPI_PROVEN);
    return fd;
}

static void ask_raw(int fd, enum tpi_store_op op, const char *key, uint64_t bytes) {
    tpi_store_request r = {.magic = TPI_STORE_MAGIC, .op = op, .key_bytes = (uint32_t)strlen(key), .bytes = bytes};
    assert_true(tpi_net_send(fd, &r, sizeof r, tpi_now() + 10));
    assert_true(tpi_net_send(fd, key, strlen(key), tpi_now() + 10));
}

static bool is_closed(int fd) { /* by the other side, whatever it said before */
    char sink[4096];
    for (double until = tpi_now() + 5; tpi_net_wait(fd, POLLIN, until);)
        if (recv(fd, sink, sizeof sink, 0) <= 0) return true;
    return false;
}

static long virtual_pages(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}

static tp_store *open_store(void) {
    tp_store *s = tp_store_tcp("127.0.0.1", 0, true, 20);
    assert_non_null(s);
    assert_true(tp_store_set(s, "a", "1", 1));
    return s;
}

/* ---- Who is let in ---- */
static void strangers_stay_outside(void **state) {
    (void)state;
    setenv("TAPER_JOB_SECRET", SECRET, 1);
    tp_store *s = open_store();
    int port = tp_store_port(s), silent = connect_raw(port), old = connect_raw(port), none = connect_raw(port),
        guess = connect_raw(port);
    tpi_key no_key = {0}, other = {.known = true, .bytes = {1}};
    assert_true(send(old, "\x54\x53\x50\x54\1\0\0\0", 8, MSG_NOSIGNAL) ==
                8); /* a request, as if no proof were asked for */
    assert_true(is_closed(old));
    assert_int_equal(tpi_prove(none, TPI_FOR_STORE, &no_key, tpi_now() + 10), TPI_NO_SECRET_HERE);
    assert_true(is_closed(none));
    assert_int_equal(tpi_prove(guess, TPI_FOR_STORE, &other, tpi_now() + 10), TPI_OTHER_SECRET);
    assert_true(tpi_net_send(guess, other.bytes, sizeof other.bytes, tpi_now() + 10)); /* a proof that is none */
    assert_true(is_closed(guess));
    close(guess);
    tp_store *friend = tp_store_tcp("127.0.0.1", port, false, 20);
    char *value = NULL;
    size_t n;
    assert_true(friend);
    assert_true(tp_store_get(friend, "a", &value, &n));
    assert_true(n == 1);
    assert_true(*value == '1');
    tp_store_free_data(value);
    assert_int_equal(tp_store_count(friend), 1);
    tp_store_release(friend);
    tp_store_release(s);
    close(silent);
    close(old);
    close(none);
    unsetenv("TAPER_JOB_SECRET");
}

/* What listens proves itself too: a client does not tell its keys to whoever took the port. It does not matter who of
 * the two has no secret, or another. */
static void the_cause_is_named(void **state) {
    (void)state;
    const char *const secrets[] = {NULL, SECRET, "fedcba9876543210fedcba9876543210"};
    const char *const causes[3][3] = {{NULL, "does not know the job's secret", "does not know the job's secret"},
                                      {"this process has none: set TAPER_JOB_SECRET", NULL, "another job secret"},
                                      {"this process has none: set TAPER_JOB_SECRET", "another job secret", NULL}};
    for (int here = 0; here < 3; here++) {
        if (secrets[here])
            setenv("TAPER_JOB_SECRET", secrets[here], 1);
        else
            unsetenv("TAPER_JOB_SECRET");
        tp_store *s = open_store();
        for (int there = 0; there < 3; there++) {
            if (secrets[there])
                setenv("TAPER_JOB_SECRET", secrets[there], 1);
            else
                unsetenv("TAPER_JOB_SECRET");
            tp_store *client = tp_store_tcp("127.0.0.1", tp_store_port(s), false, 0.3);
            if (!causes[here][there]) {
                assert_non_null(client);
            } else {
                assert_null(client);
                assert_non_null(strstr(tp_error(), causes[here][there]));
                tp_error_clear();
            }
            tp_store_release(client);
        }
        tp_store_release(s);
    }
    unsetenv("TAPER_JOB_SECRET");
}

typedef struct client_side {
    int fd;
    tpi_key key;
} client_side;

static void *prove_there(void *context) {
    client_side *side = context;
    assert_int_equal(tpi_prove(side->fd, TPI_FOR_STORE, &side->key, tpi_now() + 10), TPI_PROVEN);
    return NULL;
}

/* One that is seen to say something else than a proof made for this connection does not get in by saying it again. */
static void a_proof_serves_once(void **state) {
    (void)state;
    setenv("TAPER_JOB_SECRET", SECRET, 1);
    tp_store *s = open_store();
    uint8_t heard[160], answer[80];
    int pair[2], port = tp_store_port(s), fd = connect_raw(port);
    tpi_key key;
    assert_true(tpi_job_key(&key));
    /* The client's side of a true exchange, through a socket that listens in. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pthread_t thread;
    client_side side = {pair[0], key};
    assert_int_equal(pthread_create(&thread, NULL, prove_there, &side), 0);
    assert_true(tpi_net_recv(pair[1], heard, 48, tpi_now() + 10));
    assert_true(tpi_net_send(fd, heard, 48, tpi_now() + 10));
    assert_true(tpi_net_recv(fd, answer, 80, tpi_now() + 10));
    assert_true(tpi_net_send(pair[1], answer, 80, tpi_now() + 10));
    assert_true(tpi_net_recv(pair[1], heard + 48, 32, tpi_now() + 10));
    pthread_join(thread, NULL);
    assert_true(
        tpi_net_send(fd, heard + 48, 32,
                     tpi_now() + 10)); /* whoever sits between the two can pass everything on, as SECURITY.md says */
    ask_raw(fd, TPI_STORE_CHECK, "a", 0);
    tpi_store_reply reply;
    assert_true(tpi_net_recv(fd, &reply, sizeof reply, tpi_now() + 10));
    assert_true(reply.status == TPI_STORE_DONE);
    int again = connect_raw(port);
    assert_true(tpi_net_send(again, heard, 48, tpi_now() + 10));
    assert_true(tpi_net_recv(again, answer, 80, tpi_now() + 10));
    assert_true(tpi_net_send(again, heard + 48, 32, tpi_now() + 10));
    assert_true(is_closed(again));
    close(fd);
    close(again);
    close(pair[0]);
    close(pair[1]);
    tp_store_release(s);
    unsetenv("TAPER_JOB_SECRET");
}

static void secrets_that_are_none(void **state) {
    (void)state;
    char path[] = "/tmp/taper-secret-XXXXXX";
    tpi_key key, same;
    setenv("TAPER_JOB_SECRET", "short", 1);
    assert_false(tpi_job_key(&key));
    assert_non_null(strstr(tp_error(), "TAPER_JOB_SECRET: expected a secret of at least 16 characters, got 5"));
    tp_error_clear();
    setenv("TAPER_JOB_SECRET", SECRET, 1);
    assert_true(tpi_job_key(&same));
    assert_true(same.known);
    unsetenv("TAPER_JOB_SECRET");
    int fd = mkstemp(path);
    assert_int_equal(write(fd, SECRET "\n", sizeof SECRET), sizeof SECRET);
    setenv("TAPER_JOB_SECRET_FILE", path, 1);
    assert_true(tpi_job_key(&key));
    assert_true(key.known);
    assert_true(memcmp(&key, &same, sizeof key) == 0);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_false(tpi_job_key(&key));
    assert_true(strstr(tp_error(), "open to others"));
    assert_true(strstr(tp_error(), "mode 640"));
    tp_error_clear();
    close(fd);
    unlink(path);
    assert_false(tpi_job_key(&key));
    tp_error_clear();
    unsetenv("TAPER_JOB_SECRET_FILE");
    assert_true(tpi_job_key(&key));
    assert_true(!key.known);
    assert_true(tpi_key_from_file(path, &key));
    assert_true(tpi_key_from_file(path, &same));
    assert_true(memcmp(&key, &same, sizeof key) == 0); /* the first makes it */
    struct stat about;
    assert_true(stat(path, &about) == 0);
    assert_true((about.st_mode & 0777) == 0600);
    unlink(path);
}

/* ---- What it costs ---- */
static void a_client_that_does_not_read_stalls_nobody(void **state) {
    (void)state;
    tp_store *s = open_store();
    int port = tp_store_port(s), deaf = let_in(port);
    size_t n = 64 << 20;
    char *big = malloc(n), *value;
    memset(big, 'z', n);
    assert_true(tp_store_set(s, "big", big, n));
    ask_raw(deaf, TPI_STORE_GET, "big", 0); /* 64 MB that are not read now */
    assert_true(tpi_net_wait(deaf, POLLIN, tpi_now() + 60));
    tp_store *other = tp_store_tcp("127.0.0.1", port, false, 60);
    tp_store_set_timeout(other, 60);
    for (int i = 0; i < 50; i++) {
        assert_true(tp_store_get(other, "a", &value, &(size_t){0}));
        tp_store_free_data(value);
    }
    assert_true(tp_store_set(other, "big", "", 0)); /* what is on its way stays whole */
    assert_true(tp_store_get(s, "big", &value, &(size_t){1}));
    tp_store_free_data(value);
    tpi_store_reply reply;
    char *got = malloc(n);
    assert_true(tpi_net_recv(deaf, &reply, sizeof reply, tpi_now() + 60));
    assert_int_equal(reply.status, TPI_STORE_DONE);
    assert_int_equal(reply.bytes, n);
    assert_true(tpi_net_recv(deaf, got, n, tpi_now() + 30));
    assert_true(memcmp(got, big, n) == 0);
    ask_raw(deaf, TPI_STORE_CHECK, "a", 0); /* and is a client like others again */
    assert_true(tpi_net_recv(deaf, &reply, sizeof reply, tpi_now() + 10));
    assert_true(reply.status == TPI_STORE_DONE);
    free(big);
    free(got);
    close(deaf);
    tp_store_release(other);
    tp_store_release(s);
}

static void lengths_that_are_claimed_cost_nothing(void **state) {
    (void)state;
    enum { CLIENTS = 200 };
    tp_store *s = open_store();
    int fds[CLIENTS];
    fds[0] = let_in(tp_store_port(s));
    long before = virtual_pages();
    for (int i = 0; i < CLIENTS; i++) {
        if (i) fds[i] = let_in(tp_store_port(s));
        ask_raw(fds[i], TPI_STORE_SET, "claimed", 200 << 20);
        assert_true(tpi_net_send(fds[i], "x", 1, tpi_now() + 10));
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(tp_store_check(s, "claimed"), 0); /* the server has had turns enough to read them all */
    assert_true(virtual_pages() - before < (64 << 20) / sysconf(_SC_PAGESIZE));
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    tp_store_release(s);
}

static void a_quota(void **state) {
    (void)state;
    setenv("TAPER_STORE_BYTES", "1000000", 1);
    setenv("TAPER_STORE_VALUE_BYTES", "400000", 1);
    tp_store *s = open_store();
    unsetenv("TAPER_STORE_BYTES");
    unsetenv("TAPER_STORE_VALUE_BYTES");
    char *data = calloc(1, 500000), *value;
    size_t n;
    assert_false(tp_store_set(s, "a", data, 500000));
    assert_true(strstr(tp_error(), "500000 bytes is more than the 400000"));
    assert_true(strstr(tp_error(), "TAPER_STORE_VALUE_BYTES"));
    tp_error_clear();
    assert_true(tp_store_get(s, "a", &value, &n));
    assert_true(n == 1); /* nothing has changed, and the connection goes on */
    tp_store_free_data(value);
    assert_true(tp_store_set(s, "b", data, 400000));
    assert_true(tp_store_set(s, "c", data, 400000));
    assert_false(tp_store_set(s, "d", data, 400000));
    assert_true(strstr(tp_error(), "the store is full"));
    assert_true(strstr(tp_error(), "TAPER_STORE_BYTES"));
    tp_error_clear();
    assert_false(tp_store_append(s, "b", data, 100));
    tp_error_clear();
    assert_true(tp_store_set(s, "b", data, 399999));
    assert_true(tp_store_delete(s, "c") == 1);
    assert_true(tp_store_set(s, "d", data, 400000)); /* what goes makes room */
    free(data);
    tp_store_release(s);
}

/* More of them than the listener has room for, all silent: a rank still gets in. */
static void a_crowd_at_the_door(void **state) {
    (void)state;
    enum { CROWD = TPI_MOST_STRANGERS + 100 };
    setenv("TAPER_JOB_SECRET", SECRET, 1);
    tp_store *s = open_store();
    int fds[CROWD];
    for (int i = 0; i < CROWD; i++) fds[i] = connect_raw(tp_store_port(s));
    tp_store *rank = tp_store_tcp("127.0.0.1", tp_store_port(s), false, 30);
    assert_true(rank);
    assert_true(tp_store_check(rank, "a") == 1);
    assert_true(tp_store_check(s, "a") == 1);
    for (int i = 0; i < CROWD; i++) close(fds[i]);
    tp_store_release(rank);
    tp_store_release(s);
    unsetenv("TAPER_JOB_SECRET");
}

/* ---- Where it listens ---- */
static void where(const char *host, const char *expected) {
    char text[TPI_LISTEN_BYTES];
    tpi_listen_as(host, text);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
}

static void at_the_address_that_the_job_uses(void **state) {
    (void)state;
    char text[TPI_LISTEN_BYTES];
    where("localhost", "127.0.0.1");
    where("127.0.0.1", "127.0.0.1");
    where("192.0.2.77", "*"); /* an address that others translate to ours */
    tpi_listen_near("10.0.0.1", "10.0.0.2", text);
    assert_string_equal(text, "10.0.0.2");
    tpi_listen_near("127.0.0.1", "127.0.0.1", text);
    assert_int_equal(strncmp(text, "127.0.0.1", 9), 0);
    tpi_listen_near("node7", "127.0.1.1", text); /* a name that means loopback on this host alone */
    assert_string_equal(text, "*");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    tpi_listen_near("node7", "127.0.1.1", text); /* but all ranks are on it */
    assert_int_equal(strncmp(text, "127.0.0.1", 9), 0);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    where("localhost", "*"); /* ranks are elsewhere, and know this host by another name */
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_WORLD_SIZE");
    setenv("TAPER_SOCKET_IFNAME", "lo", 1);
    tpi_listen_near("10.0.0.1", "10.0.0.2", text);
    assert_int_equal(strncmp(text, "127.0.0.1", 9), 0);
    tp_store *everywhere = tp_store_tcp("192.0.2.77", 0, true, 10); /* what ranks exchange goes over the interface */
    assert_int_equal(strncmp(tp_store_listen(everywhere), "127.0.0.1", 9), 0);
    tp_store_release(everywhere);
    setenv("TAPER_LISTEN", "127.0.0.1,127.0.0.3", 1);
    where("10.0.0.1", "127.0.0.1 127.0.0.3");
    tp_store *s = tp_store_tcp("10.0.0.1", 0, true, 10);
    assert_non_null(s);
    unsetenv("TAPER_SOCKET_IFNAME");
    unsetenv("TAPER_LISTEN");
    tp_store *other = tp_store_tcp("127.0.0.3", tp_store_port(s), false, 10),
             *none = tp_store_tcp("127.0.0.2", tp_store_port(s), false, 0.2);
    assert_true(other);
    assert_true(!none);
    tp_error_clear();
    tp_store_release(other);
    tp_store_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sha256_of_the_standard),
                                       cmocka_unit_test(hmac_of_rfc_4231),
                                       cmocka_unit_test(secrets_that_are_none),
                                       cmocka_unit_test(strangers_stay_outside),
                                       cmocka_unit_test(the_cause_is_named),
                                       cmocka_unit_test(a_proof_serves_once),
                                       cmocka_unit_test(a_client_that_does_not_read_stalls_nobody),
                                       cmocka_unit_test(lengths_that_are_claimed_cost_nothing),
                                       cmocka_unit_test(a_quota),
                                       cmocka_unit_test(a_crowd_at_the_door),
                                       cmocka_unit_test(at_the_address_that_the_job_uses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
