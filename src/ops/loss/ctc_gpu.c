/* Connectionist temporal classification on GPUs: a block per sequence goes through its steps, then a thread per label
 * and step collects what goes through its class, in the order of states, so that the bits are the same every time.
 * log_alpha is double where the device has that, as on the CPU. */
#include "ops/native_gpu.h"
#include "ops/loss/loss.h"

static const tpi_gpu_site forward_site = {"ctc_gpu_kernel.h", "forward"},
                          backward_site = {"ctc_gpu_kernel.h", "backward"},
                          gradient_site = {"ctc_gpu_kernel.h", "gradient"},
                          through_site = {"ctc_gpu_kernel.h", "through"};

typedef struct call {
    tp_device device;
    int64_t steps, batch, classes, width, blank;
    bool wide;
    int team;
    tp_tensor *x, *targets,
        *lengths; /* owned: contiguous, and each sequence's steps, labels and first label on the device */
} call;

static void drop(call *c) {
    tpi_release(c->x);
    tpi_release(c->targets);
    tpi_release(c->lengths);
}

static bool within(tp_ints lengths, int64_t batch, int64_t most) {
    bool fine = lengths.n == batch;
    for (int64_t i = 0; i < batch && fine; i++) fine = lengths.v[i] >= 0 && lengths.v[i] <= most;
    return fine;
}

/* The lengths, and where labels begin, in one tensor that travels to the device. */
static bool copy_lengths(call *c, const tp_tensor *targets, tp_ints input_lengths, tp_ints target_lengths) {
    int64_t total = 0, longest = 0, *at;
    tp_tensor *here = tpi_empty(TP_INTS(3, c->batch), TP_INT64, (tp_device){TP_CPU, 0});
    if (!here) return false;
    at = (int64_t *)here->data;
    for (int64_t n = 0; n < c->batch; n++) {
        at[n] = input_lengths.v[n];
        at[c->batch + n] = target_lengths.v[n];
        at[2 * c->batch + n] = targets->ndim == 2 ? n * targets->shape[1] : total;
        total += target_lengths.v[n];
        longest = target_lengths.v[n] > longest ? target_lengths.v[n] : longest;
    }
    c->width = 2 * longest + 1;
    if (targets->ndim == 1 && total != targets->numel) {
        tpi_release(here);
        return false;
    }
    c->lengths = tpi_moved_data(here, c->device);
    return c->lengths != NULL;
}

/* How many threads share a sequence: a warp where its states fit, else two, else a block. */
static int team_of(const tpi_gpu_caps *caps, int64_t width) {
    if (!tpi_gpu_sharing(caps)) return 1;
    if (width > 64) return tpi_gpu_block_size(caps);
    return width <= 32 ? 32 : 64;
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_tensor *log_probs, tp_tensor *targets, tp_ints input_lengths, tp_ints target_lengths,
                    int64_t blank) {
    *c = (call){.device = tpi_device(log_probs), .blank = blank, .wide = tpi_gpu_has_f64(tpi_device(log_probs))};
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(c->device);
    if (!caps || log_probs->ndim != 3 || !log_probs->numel || !tpi_gpu_floats(log_probs) ||
        !tpi_gpu_is_index(targets) || (targets->ndim != 1 && targets->ndim != 2))
        return false;
    c->steps = log_probs->shape[0];
    c->batch = log_probs->shape[1];
    c->classes = log_probs->shape[2];
    if (blank < 0 || blank >= c->classes || !within(input_lengths, c->batch, c->steps)) return false;
    if (!within(target_lengths, c->batch, targets->ndim == 2 ? targets->shape[1] : targets->numel) ||
        (targets->ndim == 2 && targets->shape[0] != c->batch))
        return false;
    if (!copy_lengths(c, targets, input_lengths, target_lengths)) return false;
    c->team = team_of(caps, c->width);
    c->x = tpi_contiguous_data(log_probs);
    c->targets = tpi_contiguous_data(targets);
    if (c->x && c->targets) return true;
    drop(c);
    return false;
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("TEAM", c->team), TPI_DEFINE_DTYPE("X", c->x->dtype),
                                      TPI_DEFINE_DTYPE("INDEX", c->targets->dtype)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 3, defines);
}

tpi_served tpi_gpu_ctc_loss_forward(tp_tensor *log_probs, tp_tensor *targets, tp_ints input_lengths,
                                    tp_ints target_lengths, int64_t blank, bool zero_infinity, tp_tensor **out) {
    call c;
    if (!prepare(&c, log_probs, targets, input_lengths, target_lengths, blank)) return tpi_not_served();
    tp_tensor *loss = tpi_empty(TP_INTS(c.batch), (tp_dtype)log_probs->dtype, c.device),
              *alpha = loss ? tpi_empty(TP_INTS(c.batch, c.steps, c.width), c.wide ? TP_FLOAT64 : TP_FLOAT32, c.device)
                            : NULL;
    tpi_gpu_function *kernel = alpha ? kernel_of(&c, &forward_site) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(c.device);
    int zero = zero_infinity;
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(tpi_gpu_data(loss)),
                                TPI_GPU_PTR(tpi_gpu_data(alpha)),
                                TPI_GPU_PTR(c.x->data),
                                TPI_GPU_PTR(c.targets->data),
                                TPI_GPU_PTR(c.lengths->data),
                                TPI_GPU_VAL(c.steps),
                                TPI_GPU_VAL(c.batch),
                                TPI_GPU_VAL(c.classes),
                                TPI_GPU_VAL(c.width),
                                TPI_GPU_VAL(blank),
                                TPI_GPU_VAL(zero)};
    bool ok = fault.word && kernel && tpi_gpu_launch(c.device, kernel, c.batch, c.team, 0, 13, args);
    if (ok) {
        out[0] = loss;
        out[1] = alpha;
    } else {
        tpi_release(loss);
        tpi_release(alpha);
    }
    drop(&c);
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_ctc_loss_backward(tp_tensor *grad_output, tp_tensor *log_probs, tp_tensor *targets,
                                     tp_ints input_lengths, tp_ints target_lengths, tp_tensor *log_alpha, int64_t blank,
                                     bool zero_infinity, tp_tensor **result) {
    call c;
    if (grad_output->dtype != log_probs->dtype ||
        !prepare(&c, log_probs, targets, input_lengths, target_lengths, blank))
        return tpi_not_served();
    bool fits = log_alpha->dtype == (c.wide ? TP_FLOAT64 : TP_FLOAT32) &&
                log_alpha->numel == c.batch * c.steps * c.width && grad_output->numel == c.batch;
    tp_tensor *g = fits ? tpi_contiguous_data(grad_output) : NULL, *alpha = g ? tpi_contiguous_data(log_alpha) : NULL;
    tp_tensor *beta = alpha ? tpi_empty(tpi_shape(alpha), (tp_dtype)alpha->dtype, c.device) : NULL,
              *out = beta ? tpi_empty(tpi_shape(log_probs), (tp_dtype)log_probs->dtype, c.device) : NULL;
    tpi_gpu_function *back = out ? kernel_of(&c, &backward_site) : NULL,
                     *plain = back ? kernel_of(&c, &gradient_site) : NULL,
                     *through = plain ? kernel_of(&c, &through_site) : NULL;
    int zero = zero_infinity;
    const tpi_gpu_arg shape[] = {TPI_GPU_PTR(c.x->data), TPI_GPU_PTR(c.targets->data), TPI_GPU_PTR(c.lengths->data),
                                 TPI_GPU_VAL(c.steps),   TPI_GPU_VAL(c.batch),         TPI_GPU_VAL(c.classes),
                                 TPI_GPU_VAL(c.width),   TPI_GPU_VAL(blank),           TPI_GPU_VAL(zero)};
    const tpi_gpu_arg first[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(g)),
                                 TPI_GPU_PTR(tpi_gpu_data(alpha)), TPI_GPU_PTR(tpi_gpu_data(beta))};
    tpi_gpu_arg args[13];
    bool ok = through != NULL;
    if (ok) {
        args[0] = first[3];
        memcpy(args + 1, shape, 8 * sizeof *args);
        ok = tpi_gpu_launch(c.device, back, c.batch, c.team, 0, 9, args);
    }
    if (ok) {
        memcpy(args, first, 3 * sizeof *args);
        memcpy(args + 3, shape, sizeof shape);
        ok = tpi_gpu_launch_each(c.device, plain, log_probs->numel, 12, args);
    }
    if (ok) {
        memcpy(args, first, sizeof first);
        memcpy(args + 4, shape, sizeof shape);
        ok = tpi_gpu_launch_each(c.device, through, c.steps * c.batch * (c.width / 2 + 1), 13, args);
    }
    tpi_release(g);
    tpi_release(alpha);
    tpi_release(beta);
    drop(&c);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}
