/* A libcuda.so.1 of two devices, for tests of what several need: memory is the host's, kernels do nothing, and a stream
 * does what it was given only when somebody waits for it, or for an event behind it. So what was not put in order comes
 * out wrong each time, and not once in a thousand.
 *
 * It is stricter than the driver is: memory belongs to the device whose context was current, and copies from and to the
 * host that go by another device's stream are errors, as are events recorded in one. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0,
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    PEERS_ALREADY = 704,
    NO_KERNELS = 801
};
enum { DEVICES = 2, BLOCKS = 256 };

typedef struct op {
    enum { COPY, SET, RECORD, WAIT } what;
    char *to;
    const char *from;
    size_t bytes;
    int byte;
    struct event *event;
    int time;     /* of the event's records, which one */
    void *staged; /* host memory, read when the call was made */
    struct op *next;
} op;

typedef struct stream {
    int device;
    op *first, *last;
} stream;

typedef struct event {
    int device, recorded, done;
    stream *where;
    struct event *next;
} event;
static event *events; /* all there ever were: operations may still name those that are gone */

static stream defaults[DEVICES] = {{.device = 0}, {.device = 1}};
static struct {
    char *address;
    size_t bytes;
    int device; /* -1: of the host, pinned */
} blocks[BLOCKS];
static int nblocks, peers[DEVICES][DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current = -1;
#define LOCKED(statement)            \
    do {                             \
        pthread_mutex_lock(&lock);   \
        statement;                   \
        pthread_mutex_unlock(&lock); \
    } while (0)

/* ---- What tests ask ---- */
int fake_cuda_peers(int from, int to) { return peers[from][to]; }
int fake_cuda_blocks(int device) {
    int n = 0;
    for (int i = 0; i < nblocks; i++) n += blocks[i].address && blocks[i].device == device;
    return n;
}

/* ---- Streams; the lock is held ---- */
static stream *stream_of(void *s) { return s ? s : &defaults[current]; }

static int put(stream *s, op what) {
    op *o = malloc(sizeof *o);
    *o = what;
    o->next = NULL;
    if (s->last)
        s->last->next = o;
    else
        s->first = o;
    s->last = o;
    return OK;
}

/* All that is there, or as much as an event needs. */
static void run(stream *s, const event *until, int time) {
    while (s->first && !(until && until->done >= time)) {
        op *o = s->first;
        if (o->what == WAIT && o->event->done < o->time) run(o->event->where, o->event, o->time);
        if (o->what == COPY) memmove(o->to, o->from, o->bytes);
        if (o->what == SET) memset(o->to, o->byte, o->bytes);
        if (o->what == RECORD) o->event->done = o->time;
        s->first = o->next;
        if (!s->first) s->last = NULL;
        free(o->staged);
        free(o);
    }
}

static int device_of(const void *address) { /* -1: the host's */
    for (int i = 0; i < nblocks; i++)
        if (blocks[i].address && (const char *)address >= blocks[i].address &&
            (const char *)address < blocks[i].address + blocks[i].bytes)
            return blocks[i].device;
    return -1;
}

static int add_block(void **block, size_t bytes, int device) {
    if (current < 0) return INVALID_CONTEXT;
    if (nblocks == BLOCKS) return 2;
    *block = malloc(bytes);
    memset(*block, 0xAA, bytes);
    blocks[nblocks].address = *block;
    blocks[nblocks].bytes = bytes;
    blocks[nblocks++].device = device;
    return OK;
}

static int drop_block(void *block) {
    if (current < 0) return INVALID_CONTEXT;
    for (int d = 0; d < DEVICES; d++) run(&defaults[d], NULL, 0);
    for (int i = 0; i < nblocks; i++)
        if (blocks[i].address == block) {
            blocks[i].address = NULL;
            free(block);
            return OK;
        }
    return INVALID_VALUE;
}

/* ---- Devices ---- */
int cuInit(unsigned flags) {
    (void)flags;
    return OK;
}
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}
int cuDeviceGetCount(int *n) {
    *n = DEVICES;
    return OK;
}
int cuDeviceGet(int *device, int index) {
    *device = index;
    return OK;
}
int cuDeviceGetName(char *name, int capacity, int device) {
    (void)device;
    strncpy(name, "Fake", (size_t)capacity);
    return OK;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 30;
    return OK;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 1                      ? 1024
             : attribute == 10                   ? 32
             : attribute == 39                   ? 2048
             : attribute == 75                   ? 9
             : attribute == 16                   ? 4
             : attribute == 8 || attribute == 97 ? 48 << 10
                                                 : 0;
    return OK;
}
int cuDeviceGetUuid(void *uuid, int device) {
    memset(uuid, device + 1, 16);
    return OK;
}
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer;
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &defaults[device];
    return OK;
}
int cuCtxSetCurrent(void *context) {
    current = context ? ((stream *)context)->device : -1;
    return OK;
}
int cuCtxGetCurrent(void **context) {
    *context = current < 0 ? NULL : &defaults[current];
    return OK;
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    (void)flags;
    if (current < 0) return INVALID_CONTEXT;
    return peers[current][((stream *)context)->device]++ ? PEERS_ALREADY : OK;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -3;
    return OK;
}
int cuCtxSynchronize(void) {
    if (current < 0) return INVALID_CONTEXT;
    LOCKED(run(&defaults[current], NULL, 0));
    return OK;
}
int cuGetErrorName(int error, const char **name) {
    (void)error;
    *name = "FAKE";
    return OK;
}
int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "a fake error";
    return OK;
}

/* ---- Memory ---- */
int cuMemAlloc_v2(void **block, size_t bytes) {
    int error;
    LOCKED(error = add_block(block, bytes, current));
    return error;
}
int cuMemFree_v2(void *block) {
    int error;
    LOCKED(error = drop_block(block));
    return error;
}
int cuMemHostAlloc(void **block, size_t bytes, unsigned flags) {
    int error = flags == 1 ? OK : INVALID_VALUE; /* pinned for every device */
    if (!error) LOCKED(error = add_block(block, bytes, -1));
    return error;
}
int cuMemFreeHost(void *block) { return cuMemFree_v2(block); }
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = *total = (size_t)1 << 30;
    return OK;
}

static int copy_host(void *to, const void *from, size_t bytes, void *s, int in) {
    if (current < 0) return INVALID_CONTEXT;
    if (device_of(in ? to : from) != stream_of(s)->device) return INVALID_VALUE;
    op copy = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    if (in) {
        copy.from = copy.staged = malloc(bytes);
        memcpy(copy.staged, from, bytes);
    }
    put(stream_of(s), copy);
    if (!in) run(stream_of(s), NULL, 0);
    return OK;
}
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *s) {
    int error;
    LOCKED(error = copy_host(to, from, bytes, s, 1));
    return error;
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *s) {
    int error;
    LOCKED(error = copy_host(to, from, bytes, s, 0));
    return error;
}
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *s) {
    if (current < 0) return INVALID_CONTEXT;
    LOCKED(put(stream_of(s), (op){.what = COPY, .to = to, .from = from, .bytes = bytes}));
    return OK;
}
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *s) {
    return cuMemcpyAsync(to, from, bytes, s);
}
int cuMemsetD8Async(void *to, unsigned char byte, size_t bytes, void *s) {
    if (current < 0) return INVALID_CONTEXT;
    LOCKED(put(stream_of(s), (op){.what = SET, .to = to, .byte = byte, .bytes = bytes}));
    return OK;
}

/* ---- Streams and events ---- */
int cuStreamCreateWithPriority(void **s, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    if (current < 0) return INVALID_CONTEXT;
    stream *made = calloc(1, sizeof *made);
    made->device = current;
    *s = made;
    return OK;
}
int cuStreamDestroy_v2(void *s) {
    (void)s;
    return OK;
}
int cuStreamSynchronize(void *s) {
    if (current < 0) return INVALID_CONTEXT;
    LOCKED(run(stream_of(s), NULL, 0));
    return OK;
}
int cuStreamQuery(void *s) { return stream_of(s)->first ? NOT_READY : OK; }
int cuStreamWaitEvent(void *s, void *e, unsigned flags) {
    event *of = e;
    (void)flags;
    if (current < 0) return INVALID_CONTEXT;
    if (of->recorded) LOCKED(put(stream_of(s), (op){.what = WAIT, .event = of, .time = of->recorded}));
    return OK;
}
int cuEventCreate(void **e, unsigned flags) {
    (void)flags;
    if (current < 0) return INVALID_CONTEXT;
    event *made = calloc(1, sizeof *made);
    made->device = current;
    *e = made;
    pthread_mutex_lock(&lock);
    made->next = events;
    events = made;
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuEventDestroy_v2(void *e) {
    (void)e;
    return OK;
}
int cuEventRecord(void *e, void *s) {
    event *of = e;
    if (current < 0 || of->device != stream_of(s)->device) return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    of->where = stream_of(s);
    of->recorded++;
    put(of->where, (op){.what = RECORD, .event = of, .time = of->recorded});
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuEventQuery(void *e) { return ((event *)e)->done < ((event *)e)->recorded ? NOT_READY : OK; }
int cuEventSynchronize(void *e) {
    event *of = e;
    if (of->recorded) LOCKED(run(of->where, of, of->recorded));
    return OK;
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    *milliseconds = 1;
    return ((event *)from)->device == ((event *)to)->device ? OK : INVALID_HANDLE;
}

/* ---- What is never called here ---- */
#define SUCCEEDS(name) \
    int name(void) { return NO_KERNELS; }
SUCCEEDS(cuModuleLoadData)
SUCCEEDS(cuModuleGetFunction)
SUCCEEDS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuStreamBeginCapture_v2)
SUCCEEDS(cuStreamEndCapture)
SUCCEEDS(cuGraphInstantiateWithFlags)
SUCCEEDS(cuGraphLaunch)
SUCCEEDS(cuGraphExecDestroy)
SUCCEEDS(cuGraphDestroy)
int cuStreamIsCapturing(void *s, int *status) {
    (void)s;
    *status = 0;
    return OK;
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
    (void)mode;
    return OK;
}
