/* Where the job's secret comes from, and the proof of it. */
#define _GNU_SOURCE /* O_CLOEXEC and getrandom */
#include "dist/job/secret.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <taper/dist.h>
#include "base/error.h"
#include "dist/engine/net.h"
#include "dist/job/rank_environment.h"

/* ---- Where it comes from ---- */
static struct {
    pthread_mutex_t lock;
    tpi_key key;
} exchanged = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool tpi_random_bytes(void *bytes, size_t n) {
    for (char *at = bytes; n;) {
        ssize_t got = getrandom(at, n, 0);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        } else if (got == 0 || errno != EINTR)
            return tpi_refuse(TP_ERR_RUNTIME, "the system gave no random bytes: %s", strerror(errno));
    }
    return true;
}

uint64_t tpi_random_number(void) {
    uint64_t number = 0;
    return tpi_random_bytes(&number, sizeof number) ? number : 0;
}

static void key_of(const void *secret, size_t n, tpi_key *key) {
    static const char label[] = "taper job secret";
    tpi_hmac h;
    tpi_hmac_begin(&h, secret, n);
    tpi_hmac_add(&h, label, sizeof label);
    tpi_hmac_end(&h, key->bytes);
    key->known = true;
}

bool tpi_key_new(tpi_key *key) {
    uint8_t secret[TPI_SECRET_BYTES];
    if (!tpi_random_bytes(secret, sizeof secret)) return false;
    key_of(secret, sizeof secret, key);
    return true;
}

void tpi_job_key_set(const tpi_key *key) {
    pthread_mutex_lock(&exchanged.lock);
    exchanged.key = key ? *key : (tpi_key){0};
    pthread_mutex_unlock(&exchanged.lock);
}

static bool key_of_text(const char *text, const char *where, tpi_key *key) {
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    if (n < TPI_LEAST_SECRET)
        return tpi_refuse(TP_ERR_VALUE, "%s: expected a secret of at least %d characters, got %zu", where,
                          TPI_LEAST_SECRET, n);
    key_of(text, n, key);
    return true;
}

/* The file's text, if nobody but the owner (this user, or root) can read or change it. */
static bool read_private(const char *path, char *text, size_t capacity) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return tpi_refuse(TP_ERR_IO, "the job's secret cannot be read from '%s': %s", path, strerror(errno));
    ssize_t n = fstat(fd, &about) == 0 ? read(fd, text, capacity - 1) : -1;
    int error = errno;
    close(fd);
    if (n < 0) return tpi_refuse(TP_ERR_IO, "the job's secret cannot be read from '%s': %s", path, strerror(error));
    text[n] = 0;
    if (!S_ISREG(about.st_mode) || (about.st_uid != geteuid() && about.st_uid != 0) || about.st_mode & 077)
        return tpi_refuse(TP_ERR_VALUE,
                          "the file '%s' is to hold the job's secret, but is open to others (mode %03o, owner %d): "
                          "chmod 600 it, as the user who runs the job",
                          path, (unsigned)(about.st_mode & 0777), (int)about.st_uid);
    return true;
}

/* The ranks of one machine that a PMIx server (OpenMPI's mpirun, srun --mpi=pmix) has started share its session's
 * folder, which is this user's alone. False: there is none such. */
static bool session_file(char *path, size_t capacity) {
    const char *folder = getenv("PMIX_SERVER_TMPDIR"), *name = getenv("PMIX_NAMESPACE");
    struct stat about;
    if (!folder || !name || strchr(name, '/') || tpi_one_machine() != 1) return false;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) return false;
    if (about.st_uid != geteuid() || about.st_mode & 077) return false;
    return snprintf(path, capacity, "%s/taper-%s.secret", folder, name) < (int)capacity;
}

bool tpi_job_key(tpi_key *key) {
    const char *text = getenv("TAPER_JOB_SECRET"), *path = getenv("TAPER_JOB_SECRET_FILE");
    char read[4096];
    pthread_mutex_lock(&exchanged.lock);
    *key = exchanged.key;
    pthread_mutex_unlock(&exchanged.lock);
    if (key->known) return true;
    if (text && *text) return key_of_text(text, "TAPER_JOB_SECRET", key);
    if (path && *path) return read_private(path, read, sizeof read) && key_of_text(read, path, key);
    return !session_file(read, sizeof read) || tpi_key_from_file(read, key);
}

/* A whole file appears under its name at once, by a link: whoever finds it can read it. */
static bool make_private(const char *path) {
    char own[4096], text[2 * TPI_SECRET_BYTES + 1];
    uint8_t secret[TPI_SECRET_BYTES];
    if (!tpi_random_bytes(secret, sizeof secret)) return false;
    for (int i = 0; i < TPI_SECRET_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", secret[i]);
    snprintf(own, sizeof own, "%.4000s.%d.%llx", path, (int)getpid(), (unsigned long long)tpi_random_number());
    int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1) && fsync(fd) == 0;
    ok = ok && (link(own, path) == 0 || errno == EEXIST);
    int error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(own);
    }
    return ok || tpi_refuse(TP_ERR_IO, "the job's secret cannot be kept in '%s': %s", path, strerror(error));
}

bool tpi_key_from_file(const char *path, tpi_key *key) {
    char text[2 * TPI_SECRET_BYTES + 2];
    if (access(path, F_OK) != 0 && !make_private(path)) return false;
    return read_private(path, text, sizeof text) && key_of_text(text, path, key);
}

/* ---- The proof ---- */
enum { NONCE = 32, KNOWS_SECRET = 1 };
static const char magic[8] = {'T', 'A', 'P', 'E', 'R', '-', '0', '1'};

typedef struct hello {
    char magic[8];
    uint32_t purpose, flags;
    uint8_t nonce[NONCE];
} hello;

typedef struct challenge {
    char magic[8];
    uint32_t purpose, flags;
    uint8_t nonce[NONCE], proof[TPI_SHA256_BYTES];
} challenge;

_Static_assert(sizeof(hello) <= sizeof((tpi_proof *)0)->in, "a HELLO fits");

const char *tpi_proof_why(tpi_proof_result result) {
    switch (result) {
    case TPI_PROVEN: return "it knows the job's secret";
    case TPI_UNFINISHED: return "it has not said anything yet";
    case TPI_NO_PEER: return "what listens there is not of a Taper job, or did not answer";
    case TPI_OTHER_SECRET:
        return "what listens there has another job secret than this process: give all ranks the same TAPER_JOB_SECRET";
    case TPI_NO_SECRET_HERE:
        return "what listens there asks for the job's secret, and this process has none: set TAPER_JOB_SECRET (or "
               "TAPER_JOB_SECRET_FILE) to that of the others";
    case TPI_NO_SECRET_THERE:
        return "what listens there does not know the job's secret, which this process has: give all ranks the same "
               "TAPER_JOB_SECRET";
    }
    return "";
}

static void sign(const tpi_key *key, const char *who, tpi_purpose purpose, const uint8_t *client, const uint8_t *server,
                 uint8_t *proof) {
    uint32_t what = purpose;
    tpi_hmac h;
    tpi_hmac_begin(&h, key->bytes, sizeof key->bytes);
    tpi_hmac_add(&h, magic, sizeof magic);
    tpi_hmac_add(&h, who, 6);
    tpi_hmac_add(&h, &what, sizeof what);
    tpi_hmac_add(&h, client, NONCE);
    tpi_hmac_add(&h, server, NONCE);
    tpi_hmac_end(&h, proof);
}

/* Answers the HELLO that was received. A new connection has room for the answer: one that does not take it is not one
 * of ours. */
static tpi_proof_result answer_hello(tpi_proof *p, int fd) {
    hello h;
    memcpy(&h, p->in, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.purpose != (uint32_t)p->purpose) return TPI_NO_PEER;
    challenge c = {.purpose = h.purpose, .flags = p->key.known ? KNOWS_SECRET : 0};
    memcpy(c.magic, magic, sizeof magic);
    if (!tpi_random_bytes(c.nonce, sizeof c.nonce)) {
        tp_error_clear();
        return TPI_NO_PEER;
    }
    if (p->key.known) {
        sign(&p->key, "server", p->purpose, h.nonce, c.nonce, c.proof);
        sign(&p->key, "client", p->purpose, h.nonce, c.nonce, p->expected);
    }
    if (send(fd, &c, sizeof c, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof c) return TPI_NO_PEER;
    p->challenged = true;
    p->have = 0;
    if (p->key.known && !(h.flags & KNOWS_SECRET)) return TPI_NO_SECRET_THERE;
    if (!p->key.known) return h.flags & KNOWS_SECRET ? TPI_NO_SECRET_HERE : TPI_PROVEN;
    return TPI_UNFINISHED;
}

tpi_proof_result tpi_proof_step(tpi_proof *p, int fd) {
    for (;;) {
        size_t want = p->challenged ? TPI_SHA256_BYTES : sizeof(hello);
        ssize_t n = recv(fd, p->in + p->have, want - p->have, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return TPI_UNFINISHED;
        if (n <= 0) return TPI_NO_PEER;
        p->have += (size_t)n;
        if (!p->challenged && memcmp(p->in, magic, p->have < sizeof magic ? p->have : sizeof magic) != 0)
            return TPI_NO_PEER; /* without waiting for the rest */
        if (p->have < want) continue;
        if (p->challenged)
            return tpi_same_bytes(p->in, p->expected, sizeof p->expected) ? TPI_PROVEN : TPI_OTHER_SECRET;
        tpi_proof_result r = answer_hello(p, fd);
        if (r != TPI_UNFINISHED) return r;
    }
}

tpi_proof_result tpi_prove_as_server(int fd, tpi_purpose purpose, const tpi_key *key, double deadline) {
    tpi_proof p = {.key = *key, .purpose = purpose};
    for (;;) {
        tpi_proof_result r = tpi_proof_step(&p, fd);
        if (r != TPI_UNFINISHED) return r;
        if (!tpi_net_wait(fd, POLLIN, deadline)) return TPI_NO_PEER;
    }
}

tpi_proof_result tpi_prove(int fd, tpi_purpose purpose, const tpi_key *key, double deadline) {
    hello h = {.purpose = purpose, .flags = key->known ? KNOWS_SECRET : 0};
    challenge c;
    uint8_t proof[TPI_SHA256_BYTES];
    memcpy(h.magic, magic, sizeof magic);
    if (!tpi_random_bytes(h.nonce, sizeof h.nonce)) {
        tp_error_clear();
        return TPI_NO_PEER;
    }
    if (!tpi_net_send(fd, &h, sizeof h, deadline) || !tpi_net_recv(fd, &c, sizeof c, deadline)) return TPI_NO_PEER;
    if (memcmp(c.magic, magic, sizeof magic) != 0 || c.purpose != (uint32_t)purpose) return TPI_NO_PEER;
    if (!key->known) return c.flags & KNOWS_SECRET ? TPI_NO_SECRET_HERE : TPI_PROVEN;
    if (!(c.flags & KNOWS_SECRET)) return TPI_NO_SECRET_THERE;
    sign(key, "server", purpose, h.nonce, c.nonce, proof);
    if (!tpi_same_bytes(proof, c.proof, sizeof proof)) return TPI_OTHER_SECRET;
    sign(key, "client", purpose, h.nonce, c.nonce, proof);
    return tpi_net_send(fd, proof, sizeof proof, deadline) ? TPI_PROVEN : TPI_NO_PEER;
}

bool tp_dist_prove(int fd, bool serves, double seconds) {
    tpi_key key;
    if (!tpi_job_key(&key)) return false;
    tpi_proof_result r = (serves ? tpi_prove_as_server : tpi_prove)(fd, TPI_FOR_RPC, &key, tpi_now() + seconds);
    return r == TPI_PROVEN || tpi_refuse(TP_ERR_IO, "%s", tpi_proof_why(r));
}
