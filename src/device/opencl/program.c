/* OpenCL programs: source compiled to a device's binary, binaries loaded, kernels launched. A kernel object remembers
 * its arguments, so two threads that launch the same one take turns. PoCL keeps what it compiled itself, and compiles
 * every kernel once more for a binary that it is asked for: it is given the source each time (caps.keeps). A pointer
 * argument is two of the kernel's: the buffer and a byte offset (kernels/dialect.h). */
#include "device/gpu/program.h"
#include "base/signals.h"
#include "device/opencl/cl.h"
#include <stdio.h>

struct tpi_gpu_module {
    cl_program program;
};

/* A driver that runs on the host compiles a kernel when it is first launched in blocks of a size, in a thread of its
 * own. Should the program end meanwhile, the compiler is taken down under it. So such a launch is waited for. */
enum { FORMS = 16, WIDE_GRID = 0xffff /* PoCL compiles for smaller and for larger ones */ };
typedef struct form {
    unsigned block[3];
    bool wide;
} form;

struct tpi_gpu_function {
    cl_kernel kernel;
    form forms[FORMS]; /* in which it was launched */
    int nforms;
    pthread_mutex_t lock; /* from the first argument to the launch */
    char name[96];
};

/* The error that a failed build leaves: what was compiled, and the first lines of the compiler's log. */
static bool build_failed(tpi_cl_device *d, cl_program program, const char *name, cl_int code) {
    size_t bytes = 0;
    char *log = NULL;
    if (!tpi_cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) && bytes &&
        (log = tpi_malloc(bytes + 1))) {
        if (tpi_cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL)) bytes = 0;
        log[bytes] = 0;
    }
    tpi_fail(TP_ERR_RUNTIME, "OpenCL could not build %s for %s (error %d): %.1500s", name, d->caps.name, code,
             log ? log : "no log");
    if (log) tpi_mfree(log);
    return false;
}

static void *binary_of(cl_program program, size_t *bytes) {
    size_t size = 0;
    if (!tpi_cl_ok(tpi_cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL), "GetProgramInfo"))
        return NULL;
    if (size == 0) return tpi_fail(TP_ERR_RUNTIME, "OpenCL gave no binary of a program");
    unsigned char *binary = tpi_malloc(size);
    if (!binary) return NULL;
    if (tpi_cl_ok(tpi_cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL),
                  "GetProgramInfo")) {
        *bytes = size;
        return binary;
    }
    tpi_mfree(binary);
    return NULL;
}

static cl_int build(tpi_cl_device *d, cl_program program, const char *options) {
    tpi_signals handlers;
    tpi_signals_keep(&handlers);
    cl_int code = tpi_cl.BuildProgram(program, 1, &d->id, options, NULL, NULL);
    tpi_signals_put_back(&handlers);
    return code;
}

/* Source to a program, under the device's options and some more; NULL if it does not compile, with an error if it has a
 * name. */
static cl_program build_text(tpi_cl_device *d, const char *source, const char *more, const char *name) {
    const char *texts[] = {tpi_kernel_text_of("builtins.h"), source};
    char options[sizeof d->options + 64];
    cl_int code;
    cl_program program = tpi_cl.CreateProgramWithSource(d->context, 2, texts, NULL, &code);
    if (!program) {
        if (name) tpi_cl_ok(code ? code : -6, "CreateProgramWithSource");
        return NULL;
    }
    snprintf(options, sizeof options, "%s%s", d->options, more);
    code = build(d, program, options);
    if (code == 0 || (name && build_failed(d, program, name, code))) return program;
    tpi_cl.ReleaseProgram(program);
    return NULL;
}

/* With PoCL's declarations kept out, where that works, in whose place come those of kernels/builtins.h. Should
 * something be missing there, and only then, never again. */
static cl_program program_of(tpi_cl_device *d, const char *source, const char *name) {
    cl_program program = NULL;
    bool declares = atomic_load_explicit(&d->declares, memory_order_relaxed);
    if (declares && (program = build_text(d, source, " -DTAPER_DECLARES -D_OPENCL_H_", NULL))) return program;
    program = build_text(d, source, "", name);
    if (program) atomic_store_explicit(&d->declares, false, memory_order_relaxed);
    return program;
}

void *tpi_cl_compile(const char *source, const char *name, const char *arch, size_t *bytes) {
    tpi_cl_device *d = tpi_cl_by_arch(arch);
    cl_program program = d ? program_of(d, source, name) : NULL;
    if (!program) return NULL;
    void *binary = binary_of(program, bytes);
    tpi_cl.ReleaseProgram(program);
    return binary;
}

/* The compiler is the device's driver, whose version is part of caps.arch. */
const char *tpi_cl_compiler(void) { return tpi_cl_count() ? "OpenCL C 1.2" : NULL; }

static cl_program program_from(tpi_cl_device *d, const void *binary, size_t bytes) {
    cl_int code, status = 0;
    cl_program program =
        tpi_cl.CreateProgramWithBinary(d->context, 1, &d->id, &bytes, (const unsigned char **)&binary, &status, &code);
    if (!program) {
        tpi_cl_ok(code ? code : status, "CreateProgramWithBinary");
        return NULL;
    }
    code = build(d, program, d->options);
    if (code == 0 || build_failed(d, program, "a binary", code)) return program;
    tpi_cl.ReleaseProgram(program);
    return NULL;
}

static bool module_of(cl_program program, tpi_gpu_module **module) { /* takes the program */
    tpi_gpu_module *made = program ? tpi_malloc(sizeof *made) : NULL;
    if (made) {
        *made = (tpi_gpu_module){program};
        *module = made;
    } else if (program)
        tpi_cl.ReleaseProgram(program);
    return made != NULL;
}

bool tpi_cl_load(int index, const void *binary, size_t bytes, tpi_gpu_module **module) {
    tpi_cl_device *d = tpi_cl_device_at(index);
    return d && module_of(program_from(d, binary, bytes), module);
}

bool tpi_cl_build(int index, const char *source, const char *name, tpi_gpu_module **module) {
    tpi_cl_device *d = tpi_cl_device_at(index);
    return d && module_of(program_of(d, source, name), module);
}

bool tpi_cl_function(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **function) {
    (void)index;
    cl_int code;
    cl_kernel kernel = tpi_cl.CreateKernel(module->program, name, &code);
    if (!kernel) return tpi_refuse(TP_ERR_RUNTIME, "OpenCL found no kernel '%s' in a program (error %d)", name, code);
    tpi_gpu_function *made = tpi_malloc(sizeof *made);
    if (!made) {
        tpi_cl.ReleaseKernel(kernel);
        return false;
    }
    made->kernel = kernel;
    made->nforms = 0;
    pthread_mutex_init(&made->lock, NULL);
    snprintf(made->name, sizeof made->name, "%s", name);
    *function = made;
    return true;
}

static bool set_arguments(tpi_gpu_function *f, int nargs, const tpi_gpu_arg *args) {
    cl_uint at = 0;
    for (int i = 0; i < nargs; i++) {
        cl_int code;
        if (args[i].kind == TPI_GPU_VALUE) {
            code = tpi_cl.SetKernelArg(f->kernel, at++, args[i].bytes, args[i].value);
        } else {
            cl_mem buffer;
            size_t offset;
            if (!tpi_cl_find(args[i].value, &buffer, &offset)) return false;
            cl_ulong bytes = offset;
            code = tpi_cl.SetKernelArg(f->kernel, at++, sizeof buffer, &buffer);
            if (code == 0) code = tpi_cl.SetKernelArg(f->kernel, at++, sizeof bytes, &bytes);
        }
        if (code)
            return tpi_refuse(TP_ERR_RUNTIME, "OpenCL error %d: kernel %s refused argument %d of %d", code, f->name,
                              i + 1, nargs);
    }
    return true;
}

static bool is_new_form(tpi_gpu_function *f, const size_t all[3], const unsigned block[3]) { /* its lock is held */
    form now = {.wide = false};
    for (int d = 0; d < 3; d++) {
        now.block[d] = block[d];
        now.wide |= all[d] / block[d] > WIDE_GRID;
    }
    for (int i = 0; i < f->nforms; i++)
        if (f->forms[i].wide == now.wide && !memcmp(f->forms[i].block, now.block, sizeof now.block)) return false;
    if (f->nforms == FORMS) return false;
    f->forms[f->nforms++] = now;
    return true;
}

bool tpi_cl_launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *f, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args) {
    enum { FLUSH_EVERY = 16 };
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    if (!s) return false;
    if (shared)
        return tpi_refuse(TP_ERR_RUNTIME, "kernel %s asks for shared memory at launch, which OpenCL does not have",
                          f->name);
    size_t all[3], group[3];
    for (int d = 0; d < 3; d++) {
        group[d] = block[d];
        all[d] = (size_t)grid[d] * block[d];
    }
    pthread_mutex_lock(&f->lock);
    bool set = set_arguments(f, nargs, args);
    cl_int code = set ? tpi_cl.EnqueueNDRangeKernel(s->queue, f->kernel, 3, NULL, all, group, 0, NULL, NULL) : 0;
    const bool compiles = set && tpi_cl_peek(index)->caps.host_memory && is_new_form(f, all, block);
    pthread_mutex_unlock(&f->lock);
    if (code)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "OpenCL error %d: kernel %s could not be launched with %ux%ux%u blocks of %ux%ux%u threads",
                          code, f->name, grid[0], grid[1], grid[2], block[0], block[1], block[2]);
    if (set && atomic_fetch_add_explicit(&s->work, 1, memory_order_relaxed) % FLUSH_EVERY == 0) tpi_cl.Flush(s->queue);
    return set && (!compiles || tpi_cl_ok(tpi_cl.Finish(s->queue), "Finish"));
}
