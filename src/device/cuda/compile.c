/* Kernel text to what the driver loads: NVRTC for NVIDIA, hiprtc for AMD. Both work without a GPU, and have one
 * interface under two names.
 *
 * No fast-math: divisions, roots and denormals are as IEEE says. Multiply-adds may be fused, which is more accurate. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cuda/driver_api.h"
#include "base/signals.h"

typedef struct compiler {
    bool (*open)(struct compiler *c);
    const char *name;
    bool there;
    char version_text[64];
    int (*create)(void **program, const char *source, const char *name, int nheaders, const char *const *headers,
                  const char *const *names);
    int (*compile)(void *program, int noptions, const char *const *options);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *log);
    int (*code_size)(void *program, size_t *bytes);
    int (*code)(void *program, char *code);
    int (*ptx_size)(void *program, size_t *bytes); /* NVRTC alone, as are the next three */
    int (*ptx)(void *program, char *code);
    int (*narchs)(int *n);
    int (*archs)(int *archs);
    int (*destroy)(void **program);
    const char *(*error_text)(int error);
    int (*version)(int *major, int *minor);
    int most; /* NVRTC: the newest architecture it knows, 90 for sm_90 */
    int known[64], nknown;
} compiler;

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* for opening; the compilers themselves may run in several threads */

static bool open_nvrtc(compiler *c) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};
    void *library = tpi_cuda_library(names);
    const tpi_symbol symbols[] = {{"nvrtcCreateProgram", &c->create},
                                  {"nvrtcCompileProgram", &c->compile},
                                  {"nvrtcGetProgramLogSize", &c->log_size},
                                  {"nvrtcGetProgramLog", &c->log},
                                  {"nvrtcGetCUBINSize", &c->code_size},
                                  {"nvrtcGetCUBIN", &c->code},
                                  {"nvrtcGetPTXSize", &c->ptx_size},
                                  {"nvrtcGetPTX", &c->ptx},
                                  {"nvrtcGetNumSupportedArchs", &c->narchs},
                                  {"nvrtcGetSupportedArchs", &c->archs},
                                  {"nvrtcDestroyProgram", &c->destroy},
                                  {"nvrtcGetErrorString", &c->error_text},
                                  {"nvrtcVersion", &c->version}};
    if (!library || !tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols))) return false;
    int n = 0;
    if (c->narchs(&n) != 0 || n <= 0 || n > 64 || c->archs(c->known) != 0) return false;
    c->nknown = n;
    for (int i = 0; i < n; i++) c->most = c->known[i] > c->most ? c->known[i] : c->most;
    return true;
}

static bool open_hiprtc(compiler *c) {
    static const char *const names[] = {"libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5", "libhiprtc.so",
                                        "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL};
    void *library = tpi_cuda_library(names);
    const tpi_symbol symbols[] = {{"hiprtcCreateProgram", &c->create},
                                  {"hiprtcCompileProgram", &c->compile},
                                  {"hiprtcGetProgramLogSize", &c->log_size},
                                  {"hiprtcGetProgramLog", &c->log},
                                  {"hiprtcGetCodeSize", &c->code_size},
                                  {"hiprtcGetCode", &c->code},
                                  {"hiprtcDestroyProgram", &c->destroy},
                                  {"hiprtcGetErrorString", &c->error_text},
                                  {"hiprtcVersion", &c->version}};
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

static compiler nvrtc = {.open = open_nvrtc, .name = "NVRTC"}, hiprtc = {.open = open_hiprtc, .name = "hiprtc"};

static bool is_there(compiler *c) {
    pthread_mutex_lock(&lock);
    if (c->open) {
        int major = 0, minor = 0;
        c->there = c->open(c) && c->version(&major, &minor) == 0;
        snprintf(c->version_text, sizeof c->version_text, "%s %d.%d", c->name, major, minor);
        c->open = NULL;
    }
    pthread_mutex_unlock(&lock);
    return c->there;
}

const char *tpi_nvrtc_compiler(void) { return is_there(&nvrtc) ? nvrtc.version_text : NULL; }
const char *tpi_hiprtc_compiler(void) { return is_there(&hiprtc) ? hiprtc.version_text : NULL; }

/* ---- Compiling ---- */
static void fail_with_log(const compiler *c, void *program, int error, const char *name, const char *arch) {
    size_t bytes = 0;
    char *log = c->log_size(program, &bytes) == 0 && bytes > 1 ? tpi_malloc(bytes + 1) : NULL;
    if (log && c->log(program, log) != 0) {
        tpi_mfree(log);
        log = NULL;
    }
    if (log) log[bytes] = 0;
    tpi_fail(TP_ERR_RUNTIME, "%s could not compile the program '%s' for %s: %s\n%s", c->version_text, name, arch,
             c->error_text(error), log ? log : "");
    tpi_mfree(log);
}

static void *code_of(const compiler *c, void *program, bool ptx, size_t *bytes) {
    int (*size)(void *, size_t *) = ptx ? c->ptx_size : c->code_size;
    int (*get)(void *, char *) = ptx ? c->ptx : c->code;
    if (size(program, bytes) != 0 || *bytes == 0) return tpi_fail(TP_ERR_RUNTIME, "%s made no code", c->version_text);
    char *code = tpi_malloc(*bytes);
    if (!code) return NULL;
    if (get(program, code) == 0) return code;
    tpi_mfree(code);
    return tpi_fail(TP_ERR_RUNTIME, "%s did not hand its code out", c->version_text);
}

static void *compile_with(const compiler *c, const char *source, const char *name, const char *arch,
                          const char *const *options, int noptions, bool ptx, size_t *bytes) {
    void *program = NULL;
    int error = c->create(&program, source, name, 0, NULL, NULL);
    if (error)
        return tpi_fail(TP_ERR_RUNTIME, "%s could not begin the program '%s': %s", c->version_text, name,
                        c->error_text(error));
    tpi_signals handlers;
    tpi_signals_keep(&handlers);
    error = c->compile(program, noptions, options);
    tpi_signals_put_back(&handlers);
    if (error) fail_with_log(c, program, error, name, arch);
    void *code = error ? NULL : code_of(c, program, ptx, bytes);
    c->destroy(&program);
    return code;
}

static bool knows(int arch) {
    for (int i = 0; i < nvrtc.nknown; i++)
        if (nvrtc.known[i] == arch) return true;
    return false;
}

/* arch: "sm_90" gives code for that chip, or, where this NVRTC is older than the chip, PTX that the driver translates;
 * "compute_90" gives PTX. */
void *tpi_nvrtc_compile(const char *source, const char *name, const char *arch, size_t *bytes) {
    if (!is_there(&nvrtc))
        return tpi_fail(TP_ERR_MISSING, "libnvrtc was not found: kernels for NVIDIA GPUs cannot be compiled here");
    bool ptx = strncmp(arch, "compute_", 8) == 0;
    const char *digits = strchr(arch, '_');
    int number = digits ? atoi(digits + 1) : 0;
    if (number == 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'arch': expected sm_ or compute_ and a number, got '%s'", arch);
    if (!knows(number)) {
        if (number < nvrtc.most)
            return tpi_fail(TP_ERR_MISSING, "%s does not compile for %s any more", nvrtc.version_text, arch);
        number = nvrtc.most;
        ptx = true;
    }
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s_%d", ptx ? "compute" : "sm", number);
    const char *options[] = {option, "--std=c++14", "-default-device", "-w", "--fmad=false"};
    bool rounds = strstr(source, "#define ROUNDS_EACH_OPERATION") != NULL; /* gpu/kernels/rounding.h */
    return compile_with(&nvrtc, source, name, arch, options, rounds ? 5 : 4, ptx, bytes);
}

void *tpi_hiprtc_compile(const char *source, const char *name, const char *arch, size_t *bytes) {
    if (!is_there(&hiprtc))
        return tpi_fail(TP_ERR_MISSING, "libhiprtc was not found: kernels for AMD GPUs cannot be compiled here");
    char option[96];
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    const char *options[] = {option, "-O3", "-w"};
    return compile_with(&hiprtc, source, name, arch, options, 3, false, bytes);
}
