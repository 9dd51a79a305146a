/* Kernels of natives: defines and texts put together, found again by their values; and the shapes of row kernels. */
#include "ops/native_gpu.h"
#include "device/gpu/map.h"
#include <stdio.h>
#include <string.h>

typedef struct source {
    const tpi_gpu_site *site;
    bool wide;
    int n;
    const tpi_gpu_define *defines;
    const tpi_neighbour *prologue;
    const tpi_neighbour *epilogue;
} source;

static bool put(tpi_text *t, const void *context) {
    const source *s = context;
    const char *m = s->wide ? "" : "f";
    char family[64];
    snprintf(family, sizeof family, "%.*s", (int)strcspn(s->site->file, "."), s->site->file);
    bool ok = tpi_gpu_put_entry(t, family, s->site->kernel);
    ok = ok && tpi_gpu_put_neighbour_program(t, s->prologue) && tpi_gpu_put_neighbour_program(t, s->epilogue);
    ok = ok && tpi_text_put(t, "#define KERNEL_%s 1\n#define A %s\n#define WIDE %d\n", s->site->kernel,
                            s->wide ? "double" : "float", s->wide);
    ok = ok && tpi_text_put(t,
                            "#if defined(__OPENCL_VERSION__)\n#define EXP exp\n#define LN log\n#define SQRT "
                            "sqrt\n#define RSQRT rsqrt\n#define FABS fabs\n#define POW pow\n#else\n"
                            "#define EXP exp%s\n#define LN log%s\n#define SQRT sqrt%s\n#define RSQRT rsqrt%s\n#define "
                            "FABS fabs%s\n#define POW pow%s\n#endif\n",
                            m, m, m, m, m, m);
    for (int i = 0; ok && i < s->n; i++) {
        const tpi_gpu_define *d = &s->defines[i];
        if (!d->dtype) {
            ok = tpi_text_put(t, "#define %s %lld\n", d->name, (long long)d->value);
            continue;
        }
        const char *type = tp_dtype_name((tp_dtype)d->value);
        ok = tpi_gpu_put_dtype(t, (tp_dtype)d->value) &&
             tpi_text_put(t, "#define T_%s s_%s\n#define GET_%s get_%s\n#define SET_%s set_%s\n", d->name, type,
                          d->name, type, d->name, type);
    }
    return ok && tpi_gpu_put_neighbour(t, s->prologue) && tpi_gpu_put_neighbour(t, s->epilogue) &&
           tpi_text_put(t, "#include \"%s\"\n", s->site->file);
}

tpi_gpu_function *tpi_gpu_site_kernel(tp_device device, const tpi_gpu_site *site, bool wide, int n,
                                      const tpi_gpu_define *defines) {
    return tpi_gpu_site_kernel_with(device, site, wide, n, defines, NULL, NULL);
}

tpi_gpu_function *tpi_gpu_site_kernel_with(tp_device device, const tpi_gpu_site *site, bool wide, int n,
                                           const tpi_gpu_define *defines, const tpi_neighbour *prologue,
                                           const tpi_neighbour *epilogue) {
    uint64_t form = wide ? 0x9e3779b97f4a7c15u
                         : 0xd1b54a32d192ed03u; /* far apart: neighbours would meet again under another dtype */
    for (int i = 0; i < n; i++) {
        form = (form ^ (uint64_t)defines[i].value) * 0xbf58476d1ce4e5b9u;
        form ^= form >> 29;
    }
    form ^= tpi_gpu_neighbour_form(epilogue) ^ tpi_gpu_neighbour_form(prologue);
    return tpi_gpu_kernel(device, site, form, put, &(source){site, wide, n, defines, prologue, epilogue});
}

/* Short rows share a block and warps; long ones take a block each, up to what registers hold. */
tpi_gpu_rows tpi_gpu_rows_for(tp_device device, int64_t n, int size, uintptr_t align, int heavy) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    int warp = caps && caps->warp >= 8 ? caps->warp : 8,
        most = caps && caps->max_threads < 1024 ? caps->max_threads : 1024;
    tpi_gpu_rows r = {.vector = 16 / size > 8 ? 8 : 16 / size};
    while (r.vector > 1 && (n % r.vector || align % (uintptr_t)(r.vector * size))) r.vector /= 2;
    int held = 32 / heavy; /* elements per thread that registers hold with ease */
    r.group = 1;
    while (r.group < warp && (int64_t)r.group * r.vector < n) r.group *= 2;
    while (r.group < most && (int64_t)r.group * held < n) r.group *= 2;
    int64_t need = tpi_ceil_div(n, (int64_t)r.group * r.vector) * r.vector;
    r.per = 1;
    while (r.per < need) r.per *= 2;
    if (r.per < r.vector) r.per = r.vector;
    if (r.per > held && device.type != TP_META) {
        r.is_long = true;
        r.per = r.vector;
        r.group = most;
    }
    r.groups = r.group >= 128 ? 1 : 128 / r.group;
    return r;
}

tp_tensor *tpi_gpu_laid_out(tp_tensor *t, tp_layout layout) {
    if (tp_is_contiguous_as(t, layout)) return tpi_retain(t);
    tp_tensor *copy = tpi_empty_layout(tpi_shape(t), (tp_dtype)t->dtype, tpi_device(t), layout);
    return copy && !tpi_copy_data(copy, t) ? tpi_release_then(copy, NULL) : copy;
}

bool tpi_gpu_floats(const tp_tensor *t) {
    if (t->dtype == TP_FLOAT16 || t->dtype == TP_BFLOAT16 || t->dtype == TP_FLOAT32) return true;
    return t->dtype == TP_FLOAT64 && tpi_gpu_has_f64(tpi_device(t));
}

bool tpi_gpu_has_f64(tp_device device) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    return caps && caps->f64;
}

bool tpi_gpu_has_dtype(const tp_tensor *t) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(t));
    return caps && (caps->f64 || (t->dtype != TP_FLOAT64 && t->dtype != TP_COMPLEX128));
}

bool tpi_gpu_launch_each(tp_device device, tpi_gpu_function *kernel, int64_t n, int nargs, const tpi_gpu_arg *args) {
    return kernel && tpi_gpu_launch(device, kernel, tpi_gpu_blocks(n), 256, 0, nargs, args);
}
