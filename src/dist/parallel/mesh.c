/* Meshes and subgroups: groups of ranks at regular distances. Every rank makes all groups of a dim, in one order, and
 * keeps the one that it is in. */
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "tensor/check_arguments.h"
#include <stdio.h>
#include <taper/mesh.h>

struct tp_mesh {
    int64_t n, shape[TP_MAX_DIMS], coordinate[TP_MAX_DIMS];
    tp_group *groups[TP_MAX_DIMS];
};

/* The groups of `count` ranks that are `step` apart, for all ranks of the job; this rank's own. */
static tp_group *spread(int64_t world, int64_t count, int64_t step, double timeout) {
    int64_t *ranks = tpi_malloc(sizeof *ranks * (size_t)count);
    tp_group *own = NULL;
    bool ok = ranks != NULL;
    for (int64_t first = 0; ok && first < world; first++) {
        if (first / step % count) continue; /* not the first of its group */
        for (int64_t i = 0; i < count; i++) ranks[i] = first + i * step;
        tp_group *g = tp_group_new(tp_ints_view(ranks, count), timeout, NULL);
        ok = g != NULL;
        if (!ok) break;
        if (tp_group_rank(g) >= 0)
            own = g;
        else
            tp_group_free(g);
    }
    tpi_mfree(ranks);
    if (!ok) tp_group_free(own);
    return ok ? own : NULL;
}

static int64_t world_size(const char *function) {
    if (!tp_dist_world()) {
        tpi_fail(TP_ERR_RUNTIME, "%s: there is no job: tp_dist_init comes first", function);
        return -1;
    }
    return tp_group_size(NULL);
}

tp_group *tp_group_new_subgroups(int64_t size, double timeout) {
    const int64_t world = world_size(__func__);
    if (world < 0) return NULL;
    if (size < 1 || world % size)
        return tpi_fail(TP_ERR_VALUE, "tp_group_new_subgroups: argument 'size': %lld does not divide %lld ranks",
                        (long long)size, (long long)world);
    return spread(world, size, 1, timeout);
}

tp_mesh *tp_mesh_new(tp_ints shape) {
    if (!TPI_LIST_GIVEN(shape.v, shape.n)) return NULL;
    const int64_t world = world_size(__func__);
    if (world < 0) return NULL;
    int64_t ranks = 1;
    for (int64_t i = 0; i < shape.n && i < TP_MAX_DIMS; i++)
        if (shape.v[i] < 1 || __builtin_mul_overflow(ranks, shape.v[i], &ranks)) ranks = -1;
    if (shape.n < 1 || shape.n > TP_MAX_DIMS || ranks != world)
        return tpi_fail(TP_ERR_VALUE, "tp_mesh_new: argument 'shape': expected sizes whose product is %lld, got %s",
                        (long long)world, tpi_shape_text(shape));
    tp_mesh *m = tpi_malloc(sizeof *m);
    if (!m) return NULL;
    *m = (tp_mesh){.n = shape.n};
    tpi_handle_made(m, "mesh");
    int64_t step = world;
    for (int64_t i = 0; i < shape.n; i++) {
        m->shape[i] = shape.v[i];
        step /= shape.v[i];
        m->coordinate[i] = tp_group_rank(NULL) / step % shape.v[i];
        m->groups[i] = spread(world, shape.v[i], step, 0);
        if (m->groups[i]) continue;
        tp_mesh_free(m);
        return NULL;
    }
    return m;
}

void tp_mesh_free(tp_mesh *m) {
    if (!TPI_ENDS(m, "mesh", "a mesh")) return;
    for (int64_t i = 0; i < m->n; i++) tp_group_free(m->groups[i]);
    tpi_handle_mfree(m);
}

static bool has_dim(const tp_mesh *m, int64_t dim, const char *function) {
    if (!tpi_given(m, function, "mesh", "a mesh")) return false;
    return (dim >= 0 && dim < m->n) || tpi_refuse(TP_ERR_INDEX, "%s: argument 'dim': expected 0 to %lld, got %lld",
                                                  function, (long long)m->n - 1, (long long)dim);
}
int64_t tp_mesh_dims(const tp_mesh *m) { return tpi_given(m, __func__, "mesh", "a mesh") ? m->n : -1; }
int64_t tp_mesh_size(const tp_mesh *m, int64_t dim) { return has_dim(m, dim, __func__) ? m->shape[dim] : -1; }
int64_t tp_mesh_place(const tp_mesh *m, int64_t dim) { return has_dim(m, dim, __func__) ? m->coordinate[dim] : -1; }
tp_group *tp_mesh_group(const tp_mesh *m, int64_t dim) { return has_dim(m, dim, __func__) ? m->groups[dim] : NULL; }
