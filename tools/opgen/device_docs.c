/* docs/devices.md: how every operator runs on devices other than the CPU, family by family. */
#include "opgen.h"
#include <string.h>

const char *runs_by(const op *o) {
    if (o->kind == K_MAP || o->kind == K_FOLD || o->kind == K_SCAN || o->gpu) return "kernels";
    return o->anywhere || (o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE) ? "anywhere" : "host";
}

static int count(const char *family, const char *way) {
    int n = 0;
    for (int i = 0; i < nops; i++)
        n += !ops[i]->hidden && (!family || !strcmp(ops[i]->family, family)) && !strcmp(runs_by(ops[i]), way);
    return n;
}

static bool is_first_of_family(int at) {
    for (int j = 0; j < at; j++)
        if (!strcmp(ops[j]->family, ops[at]->family) && !ops[j]->hidden) return false;
    return !ops[at]->hidden;
}

static void put_row(text *t, const char *name, const char *family) {
    put(t, "| %s | %d | %d | %d |\n", name, count(family, "kernels"), count(family, "anywhere"), count(family, "host"));
}

text write_device_docs(void) {
    text t = {0};
    put(&t, "# Operators on devices\n\n"
            "Written by opgen from tables/operators. On every device but the CPU (`cuda`: NVIDIA through CUDA, AMD "
            "through HIP; `xpu`: OpenCL) an operator runs in one\n"
            "of three ways:\n\n"
            "- **kernels**: a map, fold or scan of the tables, or a native with a `gpu` line, runs on the device: as "
            "text that the device's compiler made a kernel of, or by\n"
            "  the vendor's library where one is found (products, convolutions, attention, transforms, "
            "factorisations). What the `gpu` function does not serve, a dtype\n"
            "  or a form, goes by way of the host.\n"
            "- **anywhere**: it is made of other operators, or touches no element itself.\n"
            "- **host**: its arguments travel to the CPU and its results back. That is right, and slow, as the host "
            "waits for the device. `tp_host_detours()` counts such\n"
            "  calls; `TAPER_HOST_DETOURS=error` makes them errors that name the operator.\n\n"
            "`make test-device DEVICE=cuda` (or `xpu`, or `test`) compares every operator's samples on the device with "
            "the CPU, forward and backward.\n\n"
            "| family | kernels | anywhere | host |\n|---|---|---|---|\n");
    for (int i = 0; i < nops; i++)
        if (is_first_of_family(i)) put_row(&t, ops[i]->family, ops[i]->family);
    put_row(&t, "**all**", NULL);
    put(&t, "\n## By way of the host\n\n");
    for (int i = 0; i < nops; i++)
        if (!ops[i]->hidden && !strcmp(runs_by(ops[i]), "host"))
            put(&t, "- `%s` (%s)%s%s\n", ops[i]->name, ops[i]->family, ops[i]->host ? ": " : "",
                ops[i]->host ? ops[i]->host : "");
    put(&t, "\n## Natives with kernels\n\n");
    for (int i = 0; i < nops; i++) {
        if (!is_first_of_family(i)) continue;
        bool any = false;
        for (int k = 0; k < nops; k++) {
            if (ops[k]->hidden || !ops[k]->gpu || strcmp(ops[k]->family, ops[i]->family)) continue;
            put(&t, any ? " `%s`" : "- %s: `%s`", any ? ops[k]->name : ops[i]->family, ops[k]->name);
            any = true;
        }
        if (any) put(&t, "\n");
    }
    return t;
}
