/* The work whose programs are compiled ahead: every operator of the tables on contiguous tensors in the usual dtypes,
 * reductions along the usual dims, conversions, and training steps of small networks of the usual kinds. What a call
 * computes means nothing here, and a call that fails for that (an index that is not in range, a branch that values
 * decide) is passed over. */
#include <taper/taper.h>
#include "ops/kernels.h"
#include "kernels.h"

static const tp_device cuda = {TP_CUDA, 0};
static const tp_dtype floats[] = {TP_FLOAT32, TP_BFLOAT16, TP_FLOAT16};

static tp_tensor *block(tp_ints shape, tp_dtype dtype) { return tpi_empty(shape, dtype, cuda); }
static void drop(tp_tensor *t) {
    if (t) tpi_release(t);
    tp_error_clear();
}

/* ---- Operators of the tables ---- */
enum { CONTIGUOUS, WITH_A_NUMBER, WITH_A_ROW, WAYS };

static tp_dtype operand_dtype(const tpi_map_op *op, int i, tp_dtype dtype) {
    switch (op->in_type[i]) {
    case TPI_B8: return TP_BOOL;
    case TPI_I32: return TP_INT32;
    case TPI_I64: return TP_INT64;
    case TPI_F32: return TP_FLOAT32;
    case TPI_F64: return TP_FLOAT64;
    default: return dtype;
    }
}

static void run_map(const tpi_map_op *op, tp_dtype dtype, int way) {
    tp_operand in[8];
    tp_tensor *made[8] = {NULL};
    tp_scalar params[8];
    if (way != CONTIGUOUS && op->nin != 2) return;
    for (int i = 0; i < 8; i++) params[i] = tp_float(1);
    for (int i = 0; i < op->nin; i++) {
        if (i == 1 && way == WITH_A_NUMBER) {
            in[i] = tp_operand_double(2);
            continue;
        }
        made[i] = block(i == 1 && way == WITH_A_ROW ? TP_INTS(64) : TP_INTS(32, 64), operand_dtype(op, i, dtype));
        in[i] = tp_operand_tensor(made[i]);
    }
    drop(tpi_run_map(op, NULL, in, params));
    for (int i = 0; i < op->nin; i++) drop(made[i]);
}

static void run_fold(const tpi_fold_op *op, tp_dtype dtype, size_t ndims) {
    static const struct {
        int64_t dim[3];
        int n;
    } dims[] = {{{0, 1, 2}, 3}, {{2}, 1}, {{0}, 1}, {{1}, 1}, {{0, 2}, 2}}; /* the usual ones first */
    tp_scalar params[4] = {tp_float(1), tp_float(1), tp_float(1), tp_float(1)};
    for (size_t d = 0; d < ndims; d++) {
        tp_tensor *x = block(TP_INTS(48, 40, 1000), dtype), *outs[4] = {NULL};
        if (tpi_run_fold(op, outs, x, tp_ints_view(dims[d].dim, dims[d].n), false, TP_NO_DTYPE, params))
            for (int i = 0; i < op->nout; i++) drop(outs[i]);
        drop(x);
    }
}

static void run_scan(const tpi_scan_op *op, tp_dtype dtype) {
    tp_scalar params[4] = {tp_float(1), tp_float(1), tp_float(1), tp_float(1)};
    static const int64_t shapes[][2] = {{64, 5000}, {1, 1 << 22}};
    for (int64_t s = 0; s < 2; s++)
        for (int64_t dim = 0; dim < 2; dim++) {
            tp_tensor *x = block(tp_ints_view(shapes[s], 2), dtype), *outs[4] = {NULL};
            if (tpi_run_scan(op, outs, x, dim, TP_NO_DTYPE, params))
                for (int i = 0; i < op->nout; i++) drop(outs[i]);
            drop(x);
        }
}

static void run_tables(void) {
    for (const tpi_family *f = tpi_families; f->maps; f++) {
        for (const tpi_map_op *const *op = f->maps; *op; op++) {
            for (int d = 0; d < 3; d++)
                for (int way = 0; way < WAYS - d; way++) run_map(*op, floats[d], way);
            if ((*op)->types & TPI_CAT_INT && (*op)->rule == TPI_RULE_PROMOTE)
                for (int way = 0; way < 2; way++) run_map(*op, TP_INT64, way);
            if ((*op)->has_b8) run_map(*op, TP_BOOL, CONTIGUOUS);
        }
        for (const tpi_fold_op *const *op = f->folds; *op; op++) {
            for (int d = 0; d < 3; d++) run_fold(*op, floats[d], d ? 3 : 5);
            run_fold(*op, TP_INT64, 2);
            run_fold(*op, TP_BOOL, 2);
        }
        for (const tpi_scan_op *const *op = f->scans; *op; op++) {
            for (int d = 0; d < 3; d++) run_scan(*op, floats[d]);
            run_scan(*op, TP_INT64);
        }
    }
}

/* ---- Copies ---- */
static void run_copies(void) {
    static const tp_dtype all[] = {TP_FLOAT32, TP_BFLOAT16, TP_FLOAT16, TP_FLOAT64,
                                   TP_INT64,   TP_INT32,    TP_BOOL,    TP_UINT8};
    for (int from = 0; from < 8; from++) {
        tp_tensor *x = block(TP_INTS(64, 64), all[from]);
        for (int to = 0; to < 8; to++) {
            tp_tensor *y = block(TP_INTS(64, 64), all[to]);
            if (x && y) tpi_copy_data(y, x);
            drop(y);
        }
        if (x) tpi_fill_data(x, tp_float(1));
        for (int dims = 2; dims <= 4; dims++) { /* transposed, the last two dims swapped, and channels to the end */
            const int64_t strides[3][4] = {{1, 64}, {4096, 1, 64}, {262144, 1, 4096, 64}}, shape[4] = {64, 64, 64, 64};
            tp_tensor *wide = dims > 2 ? block(tp_ints_view(shape, dims), all[from]) : NULL,
                      *y = block(tp_ints_view(shape, dims), all[from]);
            tp_tensor *of = wide ? wide : x;
            tp_tensor *view = of && y ? tpi_alias(of, dims, shape, strides[dims - 2], 0) : NULL;
            if (view) tpi_copy_data(y, view);
            drop(view);
            drop(y);
            drop(wide);
        }
        drop(x);
    }
}

/* ---- Training steps ---- */
static tp_optimiser *optimiser_of(int which, tp_tensors params) {
    switch (which) {
    case 0: return tp_adamw(params, .lr = 1e-3);
    case 1: return tp_sgd(params, .lr = 1e-3, .momentum = 0.9, .weight_decay = 1e-4);
    case 2: return tp_sgd(params, .lr = 1e-3);
    case 3: return tp_adam(params, .lr = 1e-3);
    default: return tp_rmsprop(params, .lr = 1e-3);
    }
}

static void train(tp_module *net, tp_dtype dtype, tp_tensor *x, int classes) {
    if (!net || !tp_module_to(net, dtype)) return tp_error_clear();
    tp_state all = tp_module_parameters(net);
    for (int which = 0; which < 5; which++)
        TP_SCOPE {
            tp_optimiser *optimiser = optimiser_of(which, tp_list(all.n, all.tensors));
            tp_tensor *y = tp_forward(net, x),
                      *labels = y ? tp_zeros(tp_ints_view(tpi_shape(y).v, y->ndim - 1), .dtype = TP_INT64) : NULL;
            if (optimiser) tp_optimiser_zero_grad(optimiser);
            if (labels && y->shape[y->ndim - 1] == classes &&
                tp_backward(tp_cross_entropy(tp_reshape(y, TP_INTS(-1, classes)), tp_reshape(labels, TP_INTS(-1)))) &&
                optimiser) {
                tp_clip_grad_norm(all.n, all.tensors, 1.0);
                tp_step(optimiser);
            }
            tp_optimiser_free(optimiser);
            tp_error_clear();
        }
    tp_state_free(all);
}

static void run_networks(tp_dtype dtype) {
    TP_SCOPE {
        tp_module *mlp = tp_nn_sequential(tp_nn_linear(64, 64), tp_nn_relu(), tp_nn_linear(64, 64), tp_nn_gelu(),
                                          tp_nn_linear(64, 64), tp_nn_tanh(), tp_nn_dropout(), tp_nn_linear(64, 16));
        train(mlp, dtype, tp_zeros(TP_INTS(32, 64), .dtype = dtype), 16);
        tp_module *cnn =
            tp_nn_sequential(tp_nn_conv2d(3, 16, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_batch_norm2d(16),
                             tp_nn_relu(), tp_nn_max_pool2d(TP_INTS(2)), tp_nn_conv2d(16, 32, TP_INTS(3)), tp_nn_relu(),
                             tp_nn_avg_pool2d(TP_INTS(2)), tp_nn_flatten(), tp_nn_linear(32 * 7 * 7, 16));
        train(cnn, dtype, tp_zeros(TP_INTS(8, 3, 32, 32), .dtype = dtype), 16);
        tp_module *encoder = tp_nn_sequential(tp_nn_transformer_encoder_layer(64, 4, .batch_first = true),
                                              tp_nn_layer_norm(TP_INTS(64)), tp_nn_linear(64, 16));
        train(encoder, dtype, tp_zeros(TP_INTS(4, 32, 64), .dtype = dtype), 16);
        tp_module *words = tp_nn_sequential(tp_nn_embedding(100, 64), tp_nn_rms_norm(TP_INTS(64)), tp_nn_silu(),
                                            tp_nn_linear(64, 100));
        train(words, dtype, tp_zeros(TP_INTS(4, 32), .dtype = TP_INT64), 100);
    }
    tp_error_clear();
}

/* What is more than an expression, forward and where it has one backward. */
static void run_natives(tp_dtype dtype) {
    TP_SCOPE {
        tp_tensor *x = tp_zeros(TP_INTS(8, 128), .dtype = dtype), *index = tp_zeros(TP_INTS(8, 128), .dtype = TP_INT64),
                  *few = tp_zeros(TP_INTS(4), .dtype = TP_INT64);
        tp_set_requires_grad(x, true);
        tp_tensor *results[] = {tp_softmax(x, -1),
                                tp_log_softmax(x, -1),
                                tp_gather(x, 1, index),
                                tp_index_select(x, 0, few),
                                tp_cat(tp_list(2, (tp_tensor *[]){x, x}), .dim = 1),
                                tp_sort(x).values,
                                tp_topk(x, 5).values,
                                tp_cumsum(x, 1),
                                tp_masked_fill(x, tp_gt(x, 0), 0),
                                tp_where(tp_gt(x, 0), x, 0),
                                tp_flip(x, TP_INTS(1)),
                                tp_roll(x, TP_INTS(1)),
                                tp_dropout(x, .p = 0.1, .training = true),
                                tp_std(x),
                                tp_var(x, .dim = TP_INTS(1)),
                                tp_scatter_add(x, 1, index, x)};
        for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
            tp_error_clear();
            if (results[i] && results[i]->requires_grad) tp_backward(tp_sum(results[i]));
        }
        tp_error_clear();
        tp_argmax(x, .dim = 1);
        tp_error_clear();
        tp_nonzero(x);
        tp_error_clear();
        tp_tensor *heads = tp_zeros(TP_INTS(2, 4, 64, 32), .dtype = dtype);
        tp_set_requires_grad(heads, true);
        tp_tensor *o = tp_scaled_dot_product_attention(heads, heads, heads, .is_causal = true);
        if (o) tp_backward(tp_sum(o));
        tp_error_clear();
    }
}

static void go_back(tp_tensor *result) {
    if (result && result->requires_grad) tp_backward(tp_sum(result));
    tp_error_clear();
}

/* What images go through. */
static void run_images(tp_dtype dtype) {
    TP_SCOPE {
        tp_tensor *x = tp_zeros(TP_INTS(2, 8, 16, 16), .dtype = dtype), *weight = tp_zeros(TP_INTS(8), .dtype = dtype),
                  *classes = tp_zeros(TP_INTS(2, 16, 16), .dtype = TP_INT64);
        tp_set_requires_grad(x, true);
        tp_set_requires_grad(weight, true);
        static const char *const modes[] = {"nearest", "bilinear", "bicubic"}, *const pads[] = {"reflect", "replicate",
                                                                                                "circular"};
        for (int i = 0; i < 3; i++) {
            go_back(tp_interpolate(x, .scale_factor = TP_FLOATS(2, 2), .mode = modes[i]));
            go_back(tp_interpolate(tp_contiguous(x, .memory_format = TP_CHANNELS_LAST), .scale_factor = TP_FLOATS(2, 2),
                                   .mode = modes[i]));
            if (i) {
                go_back(tp_interpolate(x, .size_ = TP_INTS(8, 8), .mode = modes[i], .antialias = true));
                go_back(tp_interpolate(x, .size_ = TP_INTS(24, 24), .mode = modes[i], .align_corners = 1));
            }
            go_back(tp_pad(x, TP_INTS(1, 1, 1, 1), .mode = pads[i]));
        }
        tp_tensor *grid = tp_zeros(TP_INTS(2, 4, 4, 2), .dtype = dtype);
        tp_set_requires_grad(grid, true);
        go_back(tp_grid_sample(x, grid));
        go_back(tp_grid_sample(x, grid, .align_corners = 1));
        go_back(tp_im2col(x, TP_INTS(3, 3)));
        go_back(tp_cdist(tp_reshape(x, TP_INTS(32, -1)), tp_reshape(x, TP_INTS(32, -1))));
        tp_tensor *square = tp_zeros(TP_INTS(16, 16), .dtype = dtype);
        tp_linalg_solve_triangular(square, square, false);
        tp_linalg_solve_triangular(square, square, true);
        tp_error_clear();
        go_back(tp_adaptive_max_pool2d(x, TP_INTS(4, 4)));
        go_back(tp_group_norm(x, 4, .weight = weight, .bias = weight));
        go_back(tp_group_norm(x, 4));
        go_back(tp_nll_loss(x, classes));
        go_back(tp_cross_entropy(x, classes, .weight = tp_detach(weight)));
    }
}

static void pass(tp_tensor *result) {
    (void)result;
    tp_error_clear();
}

/* Orders, counts, samples and places. */
static void run_indexing(tp_dtype dtype) {
    TP_SCOPE {
        tp_tensor *x = tp_zeros(TP_INTS(8, 128), .dtype = dtype), *index = tp_zeros(TP_INTS(8, 128), .dtype = TP_INT64),
                  *line = tp_zeros(TP_INTS(64), .dtype = TP_INT64);
        static const char *const ways[] = {"sum", "prod", "mean", "amax", "amin"};
        for (int i = 0; i < 10; i++) pass(tp_scatter_reduce(x, 1, index, x, ways[i / 2], .include_self = i % 2 == 0));
        pass(tp_median(x));
        pass(tp_median_dim(x, 1).values);
        pass(tp_mode(x).values);
        pass(tp_kthvalue(x, 3).values);
        pass(tp_unique(x).output);
        pass(tp_unique_dim(x, 0).output);
        pass(tp_unique(line).output);
        pass(tp_unique_consecutive(line).output);
        pass(tp_one_hot(line, .num_classes = 10));
        pass(tp_bincount(line));
        pass(tp_bincount(line, .minlength = 4000));
        for (int right = 0; right < 2; right++) {
            tp_tensor *edges = tp_zeros(TP_INTS(16), .dtype = dtype);
            pass(tp_searchsorted(edges, x, .right = right));
            pass(tp_bucketize(x, edges, .right = right));
            pass(tp_bucketize(x, edges, .right = right, .out_int32 = true));
            pass(tp_bucketize(line, line, .right = right));
            pass(tp_isin(line, line, .invert = right));
            pass(tp_isin(x, edges, .invert = right));
        }
        pass(tp_histc(x, .bins = 10, .min = tp_float(0), .max = tp_float(1)));
        pass(tp_histogram(x, .bins = 10, .range = TP_FLOATS(0, 1)).hist);
        pass(tp_histogram_bins_tensor(x, tp_zeros(TP_INTS(5), .dtype = dtype)).hist);
        pass(tp_bernoulli(x));
        pass(tp_multinomial(x, 1));
        pass(tp_multinomial(x, 3));
        pass(tp_multinomial(x, 3, .replacement = true));
        pass(tp_randperm(64));
        pass(tp_poisson(x));
        pass(tp_binomial(x, x));
        pass(tp__standard_gamma(x));
        pass(tp__sample_dirichlet(x));
        pass(tp_normal_Tensor_Tensor(x, x));
        pass(tp_randint_like(line, 5));
        pass(tp_rrelu(x, .training = true));
        tp_tensor *few = tp_zeros(TP_INTS(4), .dtype = TP_INT64), *several[] = {line, line, NULL, line},
                  *cube = tp_zeros(TP_INTS(16, 16, 128), .dtype = dtype);
        tp_set_requires_grad(cube, true);
        go_back(tp_index(cube, tp_list(2, several)));
        go_back(tp_index(cube, tp_list(1, several)));
        go_back(tp_index(cube, tp_list(2, several + 2)));
        go_back(tp_index(cube, tp_list(3, several + 1)));
        pass(tp_index_put(x, tp_list(2, several), tp_zeros(TP_INTS(64), .dtype = dtype)));
        pass(tp_index_put(x, tp_list(1, several), tp_zeros(TP_INTS(64, 128), .dtype = dtype)));
        pass(tp_index_add(x, 0, few, tp_zeros(TP_INTS(4, 128), .dtype = dtype)));
        pass(tp_index_add(x, 1, few, tp_zeros(TP_INTS(8, 4), .dtype = dtype)));
        for (int64_t n = 16; n <= 4096; n *= 4) {
            tp_tensor *row = tp_zeros(TP_INTS(4, n), .dtype = dtype), *to = tp_zeros(TP_INTS(4, n), .dtype = TP_INT64);
            pass(tp_sort(row).values);
            pass(tp_sort(row, .descending = true).values);
            pass(tp_topk(row, 4).values);
            pass(tp_sort(to).values);
            pass(tp_scatter_add(row, 1, to, row));
            pass(tp_kthvalue(row, 3).values);
            pass(tp_median_dim(row, 1).values);
            pass(tp_nanmedian_dim(row, 1).values);
            pass(
                tp_index_add(row, 0, tp_zeros(TP_INTS(n), .dtype = TP_INT64), tp_zeros(TP_INTS(n, n), .dtype = dtype)));
        }
        pass(tp_take(x, line));
        pass(tp_put(x, line, tp_zeros(TP_INTS(64), .dtype = dtype)));
        pass(tp_put(x, line, tp_zeros(TP_INTS(64), .dtype = dtype), .accumulate = true));
        pass(tp_masked_scatter(x, tp_gt(x, 0), x));
        pass(tp_nonzero_static(x, 8));
        pass(tp_repeat_interleave_Tensor(line));
        pass(tp_frexp(x).mantissa);
        pass(tp_flip(x, TP_INTS(0)));
        pass(tp_flip(x, TP_INTS(0, 1)));
        pass(tp_flip(tp_zeros(TP_INTS(2, 3, 8, 8), .dtype = dtype), TP_INTS(2)));
        pass(tp_flip(line, TP_INTS(0)));
        for (int i = 0; i < 3; i++)
            pass(tp_embedding_bag(line, x, .offsets = tp_zeros(TP_INTS(4), .dtype = TP_INT64),
                                  .mode = (const char *[]){"sum", "mean", "max"}[i]));
        pass(tp_embedding(line, x, .max_norm = 1));
    }
}

/* Matrices, windows, and sequences of labels. */
static void run_matrices(tp_dtype dtype) {
    for (int batch = 1; batch <= 65; batch += 64)
        TP_SCOPE { /* one for the library, and many for kernels of ours */
            tp_tensor *a = tp_zeros(TP_INTS(batch, 16, 16), .dtype = dtype),
                      *tall = tp_zeros(TP_INTS(batch, 96, 80), .dtype = dtype),
                      *square = tp_zeros(TP_INTS(batch, 80, 80), .dtype = dtype);
            for (int large = 0; large < 2; large++) {
                tp_tensor *x = large ? square : a;
                pass(tp_linalg_det(x));
                pass(tp_linalg_lu(x).P);
                pass(tp_linalg_slogdet(x).sign);
                pass(tp_linalg_inv(x));
                pass(tp_linalg_cholesky(x));
                pass(tp_linalg_qr(x).Q);
                pass(tp_linalg_pinv(x));
                pass(tp_linalg_matrix_exp(x));
                pass(tp_linalg_svdvals(x));
                pass(tp_linalg_matrix_rank(x));
                pass(tp_linalg_lstsq(x, x).solution);
            }
            pass(tp_linalg_qr(tall).Q);
            pass(tp_linalg_pinv(tall));
            pass(tp_linalg_lstsq(tall, tall).solution);
        }
    tp_error_clear();
}

static void run_sequences(tp_dtype dtype) {
    TP_SCOPE {
        const int64_t steps[] = {20, 20}, lengths[3] = {5, 20, 40};
        for (int i = 0; i < 3; i++) {
            tp_tensor *x = tp_zeros(TP_INTS(20, 2, 30), .dtype = dtype),
                      *labels = tp_ones(TP_INTS(2, lengths[i]), .dtype = TP_INT64);
            tp_set_requires_grad(x, true);
            go_back(tp_ctc_loss_IntList(x, labels, tp_ints_view(steps, 2), TP_INTS(lengths[i], lengths[i])));
        }
        pass(tp_hann_window(16, .dtype = dtype));
        pass(tp_hamming_window(16, .dtype = dtype));
        pass(tp_kaiser_window(16, .dtype = dtype));
        pass(tp_bartlett_window(16, .dtype = dtype));
        pass(tp_fft_fftfreq(16, .dtype = dtype));
        pass(tp_affine_grid(tp_zeros(TP_INTS(2, 2, 3), .dtype = dtype), TP_INTS(2, 1, 8, 8)));
        tp_tensor *x = tp_ones(TP_INTS(8, 16), .dtype = dtype);
        tp_set_requires_grad(x, true);
        go_back(tp_cumprod(x, 1));
    }
    tp_error_clear();
}

void run_cases(void) {
    if (!tp_set_default_device(cuda)) return;
    run_tables();
    run_copies();
    for (int served = 1; served >= 0; served--) {
        serve_libraries(served);
        for (int d = 0; d < 3; d++) {
            run_networks(floats[d]);
            run_natives(floats[d]);
            run_images(floats[d]);
            run_indexing(floats[d]);
            run_sequences(floats[d]);
        }
        run_matrices(TP_FLOAT32);
        run_matrices(TP_FLOAT64);
        run_matrices(TP_COMPLEX64);
    }
    tp_error_clear();
}
