/* Networks over several ranks against the same network on one: sharded parameters, pipelines, meshes. */
#include "ranks.h"
#include <math.h>

enum { WIDTH = 6, BATCH = 8, STEPS = 3 };

static tp_module *network(void) {
    tp_manual_seed(3);
    return tp_nn_sequential(tp_nn_linear(WIDTH, 5), tp_nn_tanh(),
                            tp_nn_sequential(tp_nn_linear(5, 7), tp_nn_relu(), tp_nn_linear(7, 4)), tp_nn_linear(4, 1));
}
static tp_tensor *batch(int64_t step) {
    tp_manual_seed((uint64_t)(100 + step));
    return tp_randn(TP_INTS(BATCH, WIDTH));
}
static tp_tensor *loss_of(tp_tensor *output, tp_tensor *target, void *context) {
    (void)context;
    return tp_mse_loss(output, target);
}
static tp_tensor *target_of(tp_tensor *x) { return tp_sum(x, .dim = TP_INTS(1), .keepdim = true); }

/* The network after some steps on whole batches. */
static tp_module *trained_alone(double *last) {
    tp_module *net = network();
    tp_state p = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(p.n, p.tensors), .lr = 0.05);
    for (int step = 0; step < STEPS; step++)
        TP_SCOPE {
            tp_tensor *x = batch(step), *loss = loss_of(tp_forward(net, x), target_of(x), NULL);
            tp_optimiser_zero_grad(adam);
            tp_backward(loss);
            tp_step(adam);
            *last = tp_item(loss);
        }
    tp_optimiser_free(adam);
    tp_state_free(p);
    return net;
}
static bool close_to(tp_tensor *a, tp_tensor *b) { return tp_item(tp_max(tp_abs(tp_sub(a, b)))) < 2e-5; }
static bool same_parameters(tp_module *a, tp_module *b) {
    tp_state p = tp_module_parameters(a), q = tp_module_parameters(b);
    bool same = p.n == q.n;
    for (int64_t i = 0; same && i < p.n; i++) same = close_to(tp_detach(p.tensors[i]), tp_detach(q.tensors[i]));
    tp_state_free(p);
    tp_state_free(q);
    return same && tp_ok();
}

/* ---- Sharded parameters ---- */
static double sharded_step(tp_module *net, tp_fsdp *f, tp_optimiser *adam, int step, int rank, int n) {
    double loss = 0;
    TP_SCOPE {
        tp_tensor *x = tp_narrow(batch(step), 0, rank * (BATCH / n), BATCH / n);
        tp_tensor *l = loss_of(tp_forward(net, x), target_of(x), NULL);
        tp_optimiser_zero_grad(adam);
        loss = tp_backward(l) && tp_fsdp_finish(f) && tp_step(adam) ? tp_item(l) : 0;
    }
    return loss;
}
static bool sharded(int rank, int n, bool keep) {
    double alone;
    tp_module *net = network(), *whole = trained_alone(&alone);
    tp_state p = tp_module_parameters(net);
    tp_module *unit = tp_module_child(net, "2");
    tp_fsdp *f = keep ? tp_fsdp_new(net, .units = &unit, .nunits = 1, .keep_after_forward = true) : tp_fsdp_new(net);
    CHECK(f);
    tp_tensors parts = tp_fsdp_parts(f);
    CHECK(parts.n == (keep ? 2 : 3));
    int64_t mine = 0, all = 0;
    for (int64_t i = 0; i < parts.n; i++) mine += tp_numel(parts.v[i]);
    for (int64_t i = 0; i < p.n; i++) {
        all += tp_numel(p.tensors[i]);
        CHECK(tp_item(tp_any(tp_isnan(tp_detach(p.tensors[i])))) != 0); /* nobody has it whole */
        CHECK(tp_storage_bytes(p.tensors[i]) <= 64);
    }
    CHECK(mine * n < all + parts.n * n);
    tp_optimiser *adam = tp_adam(parts, .lr = 0.05);
    for (int step = 0; step < STEPS; step++) CHECK(sharded_step(net, f, adam, step, rank, n) > 0);
    TP_NO_GRAD
        CHECK(tp_item(tp_any(tp_isnan(tp_forward(net, batch(0))))) == 0); /* without a tape, too */
    for (int64_t i = 0; i < p.n; i++) CHECK(tp_storage_bytes(p.tensors[i]) <= 64);
    CHECK(tp_fsdp_unshard(f) && same_parameters(net, whole));
    TP_NO_GRAD
        CHECK(tp_mul_(tp_detach(p.tensors[0]), 2));
    CHECK(tp_fsdp_reshard(f, true) && tp_fsdp_unshard(f));
    CHECK(close_to(tp_detach(p.tensors[0]), tp_mul(tp_detach(tp_module_tensor(whole, "0.weight")), 2)));
    CHECK(tp_fsdp_reshard(f, false));
    tp_fsdp_free(f);
    tp_optimiser_free(adam);
    tp_state_free(p);
    tp_module_release(net);
    tp_module_release(whole);
    return true;
}
static bool sharded_children(int rank, int n) { return sharded(rank, n, false); }
static bool sharded_by_choice(int rank, int n) { return sharded(rank, n, true); }

/* Two backwards that add up, one exchange; norms over all ranks; a unit that is used twice. */
static tp_tensor *twice(tp_module *self, tp_tensor *x) {
    tp_module *inner = tp_module_child(self, "inner");
    return tp_forward(inner, tp_forward(inner, x));
}
static bool sharded_pause(int rank, int n) {
    tp_manual_seed(5);
    tp_module *net = tp_module_new("Twice", twice), *other = tp_module_new("Twice", twice);
    tp_module_add(net, "inner", tp_nn_linear(WIDTH, WIDTH));
    tp_module_add(other, "inner", tp_module_clone(tp_module_child(net, "inner")));
    tp_fsdp *f = tp_fsdp_new(net);
    tp_tensors parts = tp_fsdp_parts(f);
    CHECK(f && parts.n == 1);
    for (int half = 0; half < 2; half++) {
        tp_fsdp_pause(f, !half);
        tp_tensor *x = tp_narrow(batch(half), 0, rank * (BATCH / n), BATCH / n);
        CHECK(tp_backward(tp_mean(tp_square(tp_forward(net, x)))) && tp_fsdp_finish(f));
        CHECK(tp_backward(tp_mean(tp_square(tp_forward(other, batch(half))))));
        CHECK(!half == !tp_grad(parts.v[0]));
    }
    tp_state q = tp_module_parameters(other);
    const double norm = tp_clip_grad_norm(q.n, q.tensors, 0.5), ours = tp_fsdp_clip_grad_norm(f, 0.5);
    CHECK(norm > 0.5 && fabs(norm - ours) < 1e-5 * norm);
    tp_tensor *flat = tp_zeros(TP_INTS(tp_numel(parts.v[0]) * n));
    CHECK(tp_dist_wait(tp_dist_all_gather_into(NULL, flat, tp_grad(parts.v[0]))));
    CHECK(close_to(tp_narrow(flat, 0, 0, WIDTH * WIDTH), tp_reshape(tp_grad(q.tensors[0]), TP_INTS(-1))));
    tp_state_free(q);
    tp_fsdp_free(f);
    tp_module_release(net);
    tp_module_release(other);
    return true;
}

/* ---- Pipelines ---- */
static bool piped(int rank, int n, tp_pipeline_schedule schedule, int64_t parts, int64_t each) {
    double alone, loss = 0;
    tp_module *net = network(), *whole = trained_alone(&alone), *stages[4] = {NULL};
    for (int64_t i = 0; i < each; i++) { /* the network's four children, over the stages */
        const int64_t stage = i * n + rank, wide = 4 / (n * each);
        tp_module *inside[4];
        for (int64_t k = 0; k < wide; k++)
            inside[k] = tp_module_retain(tp_module_child_at(net, stage * wide + k, NULL));
        stages[i] = tp_nn_sequential_of(wide, inside);
    }
    tp_pipeline *l = tp_pipeline_new(stages[0], .parts = parts, .schedule = schedule, .loss = loss_of,
                                     .nmore = each - 1, .more = stages + 1);
    CHECK(l && tp_pipeline_is_first(l) == (rank == 0) && tp_pipeline_is_last(l) == (rank == n - 1));
    tp_state p = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(p.n, p.tensors), .lr = 0.05);
    tp_tensor *said = NULL;
    for (int step = 0; step < STEPS; step++) {
        tp_tensor *x = batch(step);
        tp_optimiser_zero_grad(adam);
        CHECK(tp_pipeline_step(l, rank ? NULL : x, rank == n - 1 ? target_of(x) : NULL, &loss, &said));
        CHECK(tp_step(adam));
    }
    CHECK((said != NULL) == (rank == n - 1));
    CHECK(rank < n - 1 || (tp_size(said, 0) == BATCH && fabs(loss - alone) < 1e-5));
    for (int64_t i = 0; i < each; i++) /* this rank's stages are what they became on one rank */
        for (int64_t k = 0; k < 4 / (n * each); k++) {
            const int64_t child = (i * n + rank) * (4 / (n * each)) + k;
            CHECK(same_parameters(tp_module_child_at(net, child, NULL), tp_module_child_at(whole, child, NULL)));
        }
    tp_pipeline_free(l);
    tp_optimiser_free(adam);
    tp_state_free(p);
    for (int64_t i = 0; i < each; i++) tp_module_release(stages[i]);
    tp_module_release(net);
    tp_module_release(whole);
    return true;
}
static bool pipelines(int rank, int n) {
    CHECK(piped(rank, n, TP_PIPELINE_1F1B, 4, 1));
    CHECK(piped(rank, n, TP_PIPELINE_1F1B, 1, 1));
    CHECK(piped(rank, n, TP_PIPELINE_GPIPE, 2, 1));
    CHECK(piped(rank, n, TP_PIPELINE_1F1B, 4, 2));
    CHECK(piped(rank, n, TP_PIPELINE_GPIPE, 8, 2));
    return true;
}
static bool long_pipeline(int rank, int n) { return piped(rank, n, TP_PIPELINE_1F1B, 8, 1); }
static bool refused_pipelines(int rank, int n) {
    tp_module *net = network();
    CHECK(!tp_pipeline_new(net, .parts = -1) && strstr(tp_error(), "option 'parts'"));
    tp_error_clear();
    tp_pipeline *l = tp_pipeline_new(net, .parts = 100);
    CHECK(l);
    if (!rank) CHECK(!tp_pipeline_step(l, batch(0), NULL, NULL, NULL) && strstr(tp_error(), "cannot be cut into 100"));
    tp_error_clear();
    tp_pipeline_free(l);
    tp_module_release(net);
    return n > 0;
}

/* ---- Meshes ---- */
static bool meshes(int rank, int n) {
    CHECK(!tp_mesh_new(TP_INTS(3, 2)) && strstr(tp_error(), "whose product is 4"));
    tp_error_clear();
    tp_mesh *mesh = tp_mesh_new(TP_INTS(2, 2));
    CHECK(mesh && tp_mesh_dims(mesh) == 2 && tp_mesh_size(mesh, 1) == 2);
    CHECK(tp_mesh_place(mesh, 0) == rank / 2 && tp_mesh_place(mesh, 1) == rank % 2);
    for (int64_t dim = 0; dim < 2; dim++) {
        tp_tensor *t = tp_full(TP_INTS(1), rank);
        tp_group *g = tp_mesh_group(mesh, dim);
        CHECK(tp_dist_wait(tp_dist_all_reduce(g, t, TP_REDUCE_SUM)));
        CHECK((int)tp_item(t) == (dim ? 4 * (rank / 2) + 1 : 2 * (rank % 2) + 2));
    }
    CHECK(!tp_mesh_group(mesh, 2) && strstr(tp_error(), "expected 0 to 1, got 2"));
    tp_error_clear();
    tp_mesh_free(mesh);
    CHECK(!tp_group_new_subgroups(3, 0) && strstr(tp_error(), "3 does not divide 4 ranks"));
    tp_error_clear();
    tp_group *pair = tp_group_new_subgroups(2, 0);
    CHECK(pair && tp_group_size(pair) == 2 && tp_group_global_rank(pair, 0) == rank / 2 * 2);
    tp_group_free(pair);
    return n == 4;
}

static void test_sharded(void **state) {
    (void)state;
    run_ranks(2, sharded_children);
    run_ranks(4, sharded_by_choice);
    run_ranks(2, sharded_pause);
}
static void test_pipelines(void **state) {
    (void)state;
    run_ranks(2, pipelines);
    run_ranks(4, long_pipeline);
    run_ranks(2, refused_pipelines);
}
static void test_meshes(void **state) {
    (void)state;
    run_ranks(4, meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sharded), cmocka_unit_test(test_pipelines),
                                       cmocka_unit_test(test_meshes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
