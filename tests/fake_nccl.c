/* A library with NCCL's interface, for tests of what uses it: ranks are processes of one machine that exchange bytes
 * through shared memory. Sums are taken by rank, and everything happens on the host.
 *
 * Alone it works on memory of an xpu device (through libtaper, which the process has loaded) and a call returns when
 * the exchange is done. A program whose device is host memory calls fake_nccl_streams first, with a function that runs
 * something in a stream: calls then return at once, as NCCL's do. FAKE_NCCL_FAIL=N makes the Nth operation of each rank
 * fail, and FAKE_NCCL_BREAK=N makes it break after it has begun (an asynchronous error). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <taper/taper.h>
#include <taper/dlpack.h>

enum { OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { MOST_RANKS = 8, CHUNK = 64 << 10, MOST_OPS = 256 };
enum { SUM, PROD, MAX, MIN, AVG };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
static const int type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

typedef struct mailbox { /* from one rank to another: one chunk at a time */
    atomic_int full;
    char data[CHUNK];
} mailbox;

typedef struct meeting { /* shared by the ranks of a communicator */
    atomic_int joined, left;
    mailbox box[MOST_RANKS][MOST_RANKS];
} meeting;

typedef struct comm {
    meeting *meeting;
    int n, rank;
    atomic_bool aborted;
    atomic_int broken, refs;
} comm;

typedef struct op {
    int what, type, op, peer; /* peer: or the root */
    const void *in;
    void *out;
    size_t n;
    comm *comm;
    void *stream;
} op;

typedef struct {
    char bytes[128];
} unique_id;

static _Thread_local int depth, nqueued;
static _Thread_local op queued[MOST_OPS];
static _Thread_local char last_error[128];
static atomic_int operations;
static void (*in_stream)(void *stream, void (*run)(void *context), void *context);

void fake_nccl_streams(void (*run_in)(void *stream, void (*run)(void *context), void *context)) { in_stream = run_in; }

int fake_nccl_operations(void) { return atomic_load(&operations); } /* that this process has begun */

static int fails(int code, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return code;
}

/* ---- Memory of the device ---- */
static struct {
    struct tp_tensor *(*from_dlpack)(DLManagedTensor *managed);
    struct tp_tensor *(*over)(void *data, tp_dtype dtype, tp_ints shape, tp_ints strides, void (*release)(void *),
                              void *context);
    tp_tensor *(*copy)(tp_tensor *to, tp_tensor *from, const tp_copy_options *options);
    void (*release)(tp_tensor *t);
} taper;

static bool find_taper(void) {
    void *library = taper.copy ? NULL : dlopen("libtaper.so.0", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return taper.copy;
    *(void **)&taper.from_dlpack = dlsym(library, "tp_from_dlpack");
    *(void **)&taper.over = dlsym(library, "tp_over_data");
    *(void **)&taper.release = dlsym(library, "tp_release");
    *(void **)&taper.copy = dlsym(library, "tp_copy__with");
    return taper.from_dlpack && taper.over && taper.release && taper.copy;
}

static void kept(DLManagedTensor *managed) { (void)managed; }

/* In the order of the thread's current stream, which is the one that the caller names. */
static bool copy(void *host, void *device, size_t bytes, bool to_host) {
    if (!bytes) return true;
    if (in_stream) {
        memcpy(to_host ? host : device, to_host ? device : host, bytes);
        return true;
    }
    int64_t n = (int64_t)bytes;
    DLManagedTensor there = {
        .deleter = kept,
        .dl_tensor = {.data = device, .device = {kDLOneAPI, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = &n}};
    if (!find_taper()) return false;
    tp_tensor *d = taper.from_dlpack(&there),
              *h = taper.over(host, TP_UINT8, (tp_ints){&n, 1}, (tp_ints){0}, NULL, NULL);
    bool ok = d && h && taper.copy(to_host ? h : d, to_host ? d : h, NULL);
    taper.release(d);
    taper.release(h);
    return ok;
}

/* ---- Exchanging ---- */
typedef struct leg {
    comm *c;
    bool sends;
    int peer;
    char *data;
    size_t bytes, at;
} leg;

static bool step(leg *l) { /* did something move? */
    mailbox *box = l->sends ? &l->c->meeting->box[l->c->rank][l->peer] : &l->c->meeting->box[l->peer][l->c->rank];
    size_t some = l->bytes - l->at < CHUNK ? l->bytes - l->at : CHUNK;
    if (!some || atomic_load(&box->full) == (l->sends ? 1 : 0)) return false;
    memcpy(l->sends ? box->data : l->data + l->at, l->sends ? l->data + l->at : box->data, some);
    atomic_store(&box->full, l->sends);
    l->at += some;
    return true;
}

static bool exchange(leg *legs, int n) {
    for (int idle = 0;;) {
        bool moved = false, left = false;
        for (int i = 0; i < n; i++) {
            bool behind = false; /* of one mailbox, one at a time */
            for (int k = 0; k < i; k++)
                behind = behind || (legs[k].c == legs[i].c && legs[k].sends == legs[i].sends &&
                                    legs[k].peer == legs[i].peer && legs[k].at < legs[k].bytes);
            moved = (!behind && step(&legs[i])) || moved;
            left = left || legs[i].at < legs[i].bytes;
            if (atomic_load(&legs[i].c->aborted)) return false;
        }
        if (!left) return true;
        if (moved)
            idle = 0;
        else if (++idle < 50)
            sched_yield();
        else
            usleep(50);
    }
}

/* ---- Combining ---- */
static float half_to_float(uint16_t h) { /* enough for the tests' numbers */
    int exponent = h >> 10 & 31;
    float m = (float)(h & 1023) / 1024;
    float v = exponent
                  ? (1 + m) * (exponent >= 15 ? (float)(1 << (exponent - 15)) : 1.0f / (float)(1 << (15 - exponent)))
                  : m / 16384;
    return h >> 15 ? -v : v;
}
static uint16_t float_to_half(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    int exponent = (int)(b >> 23 & 255) - 112;
    return exponent <= 0 ? (uint16_t)(b >> 16 & 0x8000)
                         : (uint16_t)((b >> 16 & 0x8000) | (uint32_t)exponent << 10 | (b >> 13 & 1023));
}
static double value(const char *p, int type) {
    uint16_t h;
    uint32_t w = 0;
    float f;
    memcpy(&h, p, type_bytes[type] >= 2 ? 2 : 1);
    switch (type) {
    case 0: return *(const int8_t *)p;
    case 1: return *(const uint8_t *)p;
    case 2: return *(const int32_t *)p;
    case 3: return *(const uint32_t *)p;
    case 4: return (double)*(const int64_t *)p;
    case 5: return (double)*(const uint64_t *)p;
    case 6: return half_to_float(h);
    case 7: return *(const float *)p;
    case 8: return *(const double *)p;
    default:
        w = (uint32_t)h << 16;
        memcpy(&f, &w, 4);
        return f;
    }
}
static void put(char *p, int type, double v) {
    float f = (float)v;
    uint32_t w;
    memcpy(&w, &f, 4);
    uint16_t h = type == 6 ? float_to_half(f) : (uint16_t)(w >> 16);
    switch (type) {
    case 0: *(int8_t *)p = (int8_t)(int64_t)v; return;
    case 1: *(uint8_t *)p = (uint8_t)(int64_t)v; return;
    case 2: *(int32_t *)p = (int32_t)(int64_t)v; return;
    case 3: *(uint32_t *)p = (uint32_t)(int64_t)v; return;
    case 4: *(int64_t *)p = (int64_t)v; return;
    case 5: *(uint64_t *)p = (uint64_t)v; return;
    case 7: *(float *)p = f; return;
    case 8: *(double *)p = v; return;
    default: memcpy(p, &h, 2);
    }
}

static double reduced(int how, double v, double w) {
    switch (how) {
    case PROD: return v * w;
    case MAX: return w > v ? w : v;
    case MIN: return w < v ? w : v;
    default: return v + w;
    }
}

static void combine(char *out, char *const *rows, int n_rows, size_t n, int type, int how) {
    for (size_t i = 0; i < n; i++) {
        size_t at = i * (size_t)type_bytes[type];
        double v = value(rows[0] + at, type);
        for (int r = 1; r < n_rows; r++) {
            double w = value(rows[r] + at, type);
            if (type == 7 && how != MAX && how != MIN)
                v = how == PROD ? (float)v * (float)w : (float)v + (float)w;
            else
                v = reduced(how, v, w);
        }
        put(out + at, type, how == AVG ? v / n_rows : v);
    }
}

/* ---- Operations ---- */
static bool run_one(const op *o) {
    comm *c = o->comm;
    int n = c->n, nlegs = 0;
    size_t item = (size_t)type_bytes[o->type], bytes = o->n * item,
           in_bytes = o->what == REDUCE_SCATTER ? bytes * (size_t)n : bytes;
    char *in = malloc(in_bytes + 1), *rows[MOST_RANKS], *all = malloc(bytes * (size_t)n + 1),
         *out = malloc(bytes * (size_t)n + 1);
    bool reads = o->what != BROADCAST || c->rank == o->peer,
         to_all = o->what == ALL_REDUCE || o->what == ALL_GATHER || o->what == REDUCE_SCATTER;
    leg legs[2 * MOST_RANKS];
    bool ok = in && all && out && (!reads || copy(in, (void *)o->in, in_bytes, true));
    for (int i = 0; i < n; i++) {
        rows[i] = all + (size_t)i * bytes;
        bool gives = to_all || (o->what == REDUCE ? i == o->peer : c->rank == o->peer),
             takes = to_all || (o->what == REDUCE ? c->rank == o->peer : i == o->peer);
        if (i == c->rank) continue;
        if (gives) legs[nlegs++] = (leg){c, true, i, o->what == REDUCE_SCATTER ? in + (size_t)i * bytes : in, bytes, 0};
        if (takes) legs[nlegs++] = (leg){c, false, i, rows[i], bytes, 0};
    }
    ok = ok && exchange(legs, nlegs);
    if (ok && reads) memcpy(rows[c->rank], o->what == REDUCE_SCATTER ? in + (size_t)c->rank * bytes : in, bytes);
    if (ok && (o->what == ALL_REDUCE || o->what == REDUCE_SCATTER || (o->what == REDUCE && c->rank == o->peer))) {
        combine(out, rows, n, o->n, o->type, o->op);
        ok = copy(out, o->out, bytes, false);
    } else if (ok && o->what == BROADCAST)
        ok = copy(rows[o->peer], o->out, bytes, false);
    else if (ok && o->what == ALL_GATHER)
        ok = copy(all, o->out, bytes * (size_t)n, false);
    free(in);
    free(all);
    free(out);
    return ok;
}

static bool run_messages(const op *ops, int n) {
    leg *legs = calloc((size_t)n, sizeof *legs);
    bool ok = legs;
    for (int i = 0; ok && i < n; i++) {
        size_t bytes = ops[i].n * (size_t)type_bytes[ops[i].type];
        legs[i] = (leg){ops[i].comm, ops[i].what == SEND, ops[i].peer, malloc(bytes + 1), bytes, 0};
        ok = legs[i].data && (ops[i].what == RECV || copy(legs[i].data, (void *)ops[i].in, bytes, true));
    }
    ok = ok && exchange(legs, n);
    for (int i = 0; legs && i < n; i++) {
        if (ok && ops[i].what == RECV) ok = copy(legs[i].data, ops[i].out, legs[i].bytes, false);
        free(legs[i].data);
    }
    free(legs);
    return ok;
}

typedef struct batch {
    int n;
    op ops[];
} batch;

static void comm_release(comm *c) {
    if (atomic_fetch_sub(&c->refs, 1) != 1) return;
    munmap(c->meeting, sizeof *c->meeting);
    free(c);
}

static int run_batch(const batch *b) {
    bool ok = true;
    for (int i = 0, same; ok && i < b->n; i += same) {
        for (same = 1; i + same < b->n && b->ops[i].what >= SEND && b->ops[i + same].what >= SEND;) same++;
        ok = b->ops[i].what >= SEND ? run_messages(&b->ops[i], same) : run_one(&b->ops[i]);
    }
    return ok ? OK : fails(SYSTEM_ERROR, "the exchange was given up");
}

static void run_later(void *context) {
    batch *b = context;
    run_batch(b);
    for (int i = 0; i < b->n; i++) comm_release(b->ops[i].comm);
    free(b);
}

static bool number_is(const char *variable, int number) {
    const char *wish = getenv(variable);
    return wish && atoi(wish) == number;
}

static int begin(const op *ops, int n) {
    if (!n) return OK;
    int number = atomic_fetch_add(&operations, 1) + 1;
    if (number_is("FAKE_NCCL_FAIL", number)) return fails(SYSTEM_ERROR, "a failure that was asked for");
    if (number_is("FAKE_NCCL_BREAK", number)) {
        atomic_store(&ops[0].comm->broken, SYSTEM_ERROR);
        fails(OK, "a break that was asked for");
    }
    batch *b = malloc(sizeof *b + sizeof *ops * (size_t)n);
    if (!b) return SYSTEM_ERROR;
    b->n = n;
    memcpy(b->ops, ops, sizeof *ops * (size_t)n);
    if (in_stream) {
        for (int i = 0; i < n; i++) atomic_fetch_add(&ops[i].comm->refs, 1);
        in_stream(ops[0].stream, run_later, b);
        return OK;
    }
    int result = run_batch(b);
    free(b);
    return result;
}

static int add(op o) {
    if (!o.comm || o.type < 0 || o.type > 9 ||
        ((o.what < BROADCAST || o.what == REDUCE_SCATTER) && (o.op < 0 || o.op > AVG)))
        return fails(INVALID_ARGUMENT, "an argument is not right");
    if (!depth) return begin(&o, 1);
    if (nqueued == MOST_OPS) return fails(INVALID_USAGE, "too many operations in a group");
    queued[nqueued++] = o;
    return OK;
}

/* ---- NCCL's names ---- */
int ncclGetVersion(int *version) {
    *version = 22703;
    return OK;
}
const char *ncclGetErrorString(int error) {
    return error == SYSTEM_ERROR    ? "unhandled system error"
           : error == INVALID_USAGE ? "invalid usage"
                                    : "invalid argument";
}
const char *ncclGetLastError(comm *c) {
    (void)c;
    return last_error;
}

int ncclGetUniqueId(unique_id *id) {
    memset(id, 0, sizeof *id);
    static atomic_int made;
    snprintf(id->bytes, sizeof id->bytes, "/fake-nccl-%d-%d", (int)getpid(), atomic_fetch_add(&made, 1));
    int fd = shm_open(id->bytes, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(meeting))) return fails(SYSTEM_ERROR, "no shared memory");
    close(fd);
    return OK;
}

int ncclCommInitRank(comm **made, int n, unique_id id, int rank) {
    int fd = shm_open(id.bytes, O_RDWR, 0600);
    comm *c = calloc(1, sizeof *c);
    if (n > MOST_RANKS || fd < 0 || !c) {
        free(c);
        return fails(SYSTEM_ERROR, "cannot join");
    }
    *c = (comm){.meeting = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
                .n = n,
                .rank = rank,
                .refs = 1};
    close(fd);
    if (c->meeting == MAP_FAILED) {
        free(c);
        return fails(SYSTEM_ERROR, "cannot map");
    }
    atomic_fetch_add(&c->meeting->joined, 1);
    while (atomic_load(&c->meeting->joined) < n) usleep(100);
    if (rank == 0) shm_unlink(id.bytes);
    *made = c;
    return OK;
}

int ncclCommDestroy(comm *c) {
    comm_release(c);
    return OK;
}
int ncclCommAbort(comm *c) {
    atomic_store(&c->aborted, true);
    comm_release(c);
    return OK;
}
int ncclCommGetAsyncError(comm *c, int *error) {
    *error = atomic_load(&c->broken);
    return OK;
}
int ncclGroupStart(void) {
    depth++;
    return OK;
}
int ncclGroupEnd(void) {
    if (--depth) return OK;
    int n = nqueued;
    nqueued = 0;
    return begin(queued, n);
}

int ncclAllReduce(const void *in, void *out, size_t n, int type, int how, comm *c, void *stream) {
    return add((op){ALL_REDUCE, type, how, 0, in, out, n, c, stream});
}
int ncclReduce(const void *in, void *out, size_t n, int type, int how, int root, comm *c, void *stream) {
    return add((op){REDUCE, type, how, root, in, out, n, c, stream});
}
int ncclBroadcast(const void *in, void *out, size_t n, int type, int root, comm *c, void *stream) {
    return add((op){BROADCAST, type, 0, root, in, out, n, c, stream});
}
int ncclAllGather(const void *in, void *out, size_t n, int type, comm *c, void *stream) {
    return add((op){ALL_GATHER, type, 0, 0, in, out, n, c, stream});
}
int ncclReduceScatter(const void *in, void *out, size_t n, int type, int how, comm *c, void *stream) {
    return add((op){REDUCE_SCATTER, type, how, 0, in, out, n, c, stream});
}
int ncclSend(const void *in, size_t n, int type, int peer, comm *c, void *stream) {
    return add((op){SEND, type, 0, peer, in, NULL, n, c, stream});
}
int ncclRecv(void *out, size_t n, int type, int peer, comm *c, void *stream) {
    return add((op){RECV, type, 0, peer, NULL, out, n, c, stream});
}
