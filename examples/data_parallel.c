/* Data parallel training under MPI, or any other launcher: every rank has the network and a part of the data; gradients
 * are averaged while the backward still runs.
 *     mpirun -n 4 data_parallel [EPOCHS]     or torchrun, srun; alone it is one rank */
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>

enum { ITEMS = 512, BATCH = 16 };

/* Points in the plane, and whether they lie within the circle of radius 1: the same on all ranks. */
static tp_dataset *make_data(void) {
    tp_dataset *data = NULL;
    tp_generator *same = tp_generator_new(7);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(ITEMS, 2), .generator = same);
        tp_tensor *inside = tp_lt(tp_sum(tp_square(x), .dim = TP_INTS(1), .keepdim = true), 1);
        data = tp_dataset_of_tensors(TP_LIST(x, tp_to(inside, .dtype = TP_FLOAT32)));
    }
    tp_generator_free(same);
    return data;
}

static double train_step(tp_module *net, tp_ddp *ddp, tp_optimiser *adam, tp_loader *loader) {
    double loss = 0;
    TP_SCOPE {
        tp_tensor *said = tp_forward(net, tp_loader_field(loader, 0));
        tp_tensor *error = tp_binary_cross_entropy_with_logits(said, tp_loader_field(loader, 1));
        tp_optimiser_zero_grad(adam);
        tp_backward(error);
        tp_ddp_finish(ddp); /* the gradients are averages now */
        tp_step(adam);
        loss = error ? tp_item(error) : 0;
    }
    return loss;
}

/* The mean of a number over all ranks. */
static double average(double mine) {
    double all = mine;
    TP_SCOPE {
        tp_tensor *t = tp_full(TP_INTS(1), mine);
        if (tp_dist_wait(tp_dist_all_reduce(NULL, t, TP_REDUCE_AVG))) all = tp_item(t);
    }
    return all;
}

int main(int argc, char **argv) {
    const int epochs = argc > 1 ? atoi(argv[1]) : 10;
    tp_dist_place place = {.size = sizeof place};
    tp_dist_query(&place);
    const bool alone = place.world_size < 1;
    if (!tp_dist_init(.placed = alone, .world_size = 1, .store = alone ? tp_store_hash() : NULL)) {
        fprintf(stderr, "data_parallel: %s\n", tp_error());
        return 1;
    }
    const int rank = tp_group_rank(NULL), ranks = tp_group_size(NULL);
    tp_manual_seed((uint64_t)rank); /* ranks may begin apart: the network becomes rank 0's */
    tp_module *net = tp_nn_sequential(tp_nn_linear(2, 32), tp_nn_relu(), tp_nn_linear(32, 1));
    tp_ddp *ddp = tp_ddp_new(net);
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 0.02);
    tp_dataset *data = make_data();
    tp_sampler *sampler = tp_sampler_distributed(ITEMS, ranks, rank, true, 0, false);
    tp_loader *loader = tp_loader_new(data, .batch = BATCH, .sampler = sampler);
    double loss = 0;
    for (int epoch = 0; epoch < epochs && tp_ok(); epoch++) {
        tp_sampler_set_epoch(sampler, epoch);
        while (tp_loader_next(loader)) loss = train_step(net, ddp, adam, loader);
        loss = average(loss);
        if (rank == 0 && tp_ok()) printf("epoch %2d: loss %.3f on %d ranks\n", epoch, loss, ranks);
    }
    double sum = 0, mine = 0;
    for (int64_t i = 0; i < parameters.n && tp_ok(); i++)
        TP_SCOPE
            mine += tp_item(tp_sum(parameters.tensors[i]));
    sum = tp_ok() ? average(mine) : 0;
    if (tp_ok() && rank == 0) printf("all ranks have the same weights: %s\n", sum == average(mine) ? "yes" : "no");
    if (tp_ok() && rank != 0) average(mine);
    if (!tp_ok()) fprintf(stderr, "data_parallel: rank %d: %s\n", rank, tp_error());
    const int code = tp_ok() ? 0 : 1;
    tp_loader_free(loader);
    tp_sampler_free(sampler);
    tp_dataset_release(data);
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_ddp_free(ddp);
    tp_module_release(net);
    tp_dist_end();
    return code;
}
