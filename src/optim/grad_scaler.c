/* The gradient scaler: one scale, and for each optimiser how far it is between two updates. */
#include "autograd/glue.h"
#include "optim/optimiser.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <taper/amp.h>
#include <taper/ops.h>
#include <taper/scaler.h>

typedef enum stage { READY, UNSCALED, STEPPED } stage;
typedef struct of_optimiser {
    const tp_optimiser *o;
    stage stage;
    bool found_inf;
} of_optimiser;

struct tp_scaler {
    tp_scaler_options opt;
    uint32_t alive; /* base/handle.h */
    float scale;
    int64_t tracker; /* steps without infinities */
    bool found_inf;  /* before the last update */
    of_optimiser *of;
    int64_t n;
};

tp_scaler *tp_scaler_new_with(const tp_scaler_options *options) {
    tp_scaler_options o = {sizeof o, 65536, 2, 0.5, 2000, true};
    if (options && !tpi_copy_options(&o, sizeof o, options, options->size)) return NULL;
    if (!(o.growth_factor > 1))
        return tpi_fail(TP_ERR_VALUE, "tp_scaler_new: option 'growth_factor': The growth factor must be > 1.0.");
    if (!(o.backoff_factor < 1))
        return tpi_fail(TP_ERR_VALUE, "tp_scaler_new: option 'backoff_factor': The backoff factor must be < 1.0.");
    if (!(o.init_scale > 0) || o.growth_interval < 1)
        return tpi_fail(TP_ERR_VALUE, "tp_scaler_new: option '%s': expected more than 0",
                        o.init_scale > 0 ? "growth_interval" : "init_scale");
    tp_scaler *s = tpi_new0(sizeof *s);
    if (!s) return NULL;
    s->opt = o;
    s->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(s, "scaler");
    s->scale = (float)o.init_scale;
    return s;
}
void tp_scaler_free(tp_scaler *scaler) {
    if (!scaler || !TPI_HANDLE_GIVEN(scaler, "a scaler")) return;
    tpi_mfree(scaler->of);
    scaler->alive = 0;
    tpi_handle_delete(scaler, sizeof *scaler);
}

static of_optimiser *state_of(tp_scaler *s, const tp_optimiser *o) {
    for (int64_t i = 0; i < s->n; i++)
        if (s->of[i].o == o) return &s->of[i];
    of_optimiser *more = tpi_realloc(s->of, sizeof *more * (size_t)(s->n + 1));
    if (!more) return NULL;
    s->of = more;
    more[s->n] = (of_optimiser){.o = o};
    return &more[s->n++];
}

tp_tensor *tp_scaler_scale(tp_scaler *scaler, tp_tensor *loss) {
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler") || !tpi_is_tensor(loss, "loss")) return NULL;
    return tp_mul(loss, scaler->opt.enabled ? (double)scaler->scale : 1.0);
}

static bool unscale(tp_scaler *s, tp_optimiser *o, of_optimiser *of) {
    int64_t n = 0, all = 0;
    for (int64_t g = 0; g < o->ngroups; g++) all += o->groups[g].n;
    tp_tensor **grads = tpi_malloc(sizeof *grads * (size_t)(all + 1));
    if (!grads) return false;
    for (int64_t g = 0; g < o->ngroups; g++)
        for (int64_t i = 0; i < o->groups[g].n; i++) grads[n++] = tp_grad(o->groups[g].params[i]);
    const float inverse = (float)(1 / (double)s->scale);
    bool fine = tp_unscale_gradients((tp_tensors){grads, n}, inverse, &of->found_inf);
    tpi_mfree(grads);
    if (fine) of->stage = UNSCALED;
    return fine;
}

bool tp_scaler_unscale(tp_scaler *scaler, tp_optimiser *o) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler") || !TPI_HANDLE_GIVEN(o, "an optimiser")) return false;
    if (!scaler->opt.enabled) return true;
    of_optimiser *of = state_of(scaler, o);
    if (!of) return false;
    if (of->stage != READY)
        return tpi_refuse(TP_ERR_RUNTIME, of->stage == UNSCALED
                                              ? "tp_scaler_unscale: it has already been called on this optimizer since "
                                                "the last tp_scaler_update"
                                              : "tp_scaler_unscale: it is being called after tp_scaler_step");
    return unscale(scaler, o, of);
}

bool tp_scaler_step(tp_scaler *scaler, tp_optimiser *o) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler") || !TPI_HANDLE_GIVEN(o, "an optimiser")) return false;
    if (!scaler->opt.enabled) return tp_step(o);
    of_optimiser *of = state_of(scaler, o);
    if (!of) return false;
    if (of->stage == STEPPED)
        return tpi_refuse(TP_ERR_RUNTIME, "tp_scaler_step: it has already been called since the last tp_scaler_update");
    if (of->stage == READY && !unscale(scaler, o, of)) return false;
    if (!of->found_inf && !tp_step(o)) return false;
    of->stage = STEPPED;
    return true;
}

bool tp_scaler_update(tp_scaler *scaler) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler")) return false;
    tp_scaler *s = scaler;
    if (!s->opt.enabled) return true;
    s->found_inf = false;
    bool any = false;
    for (int64_t i = 0; i < s->n; i++) {
        any |= s->of[i].stage != READY;
        s->found_inf |= s->of[i].found_inf;
    }
    if (!any) return tpi_refuse(TP_ERR_RUNTIME, "tp_scaler_update: No inf checks were recorded prior to update.");
    s->n = 0;
    if (s->found_inf) {
        s->scale = (float)((double)s->scale * s->opt.backoff_factor);
        s->tracker = 0;
    } else if (++s->tracker == s->opt.growth_interval) {
        const float grown = (float)((double)s->scale * s->opt.growth_factor);
        if (isfinite(grown)) s->scale = grown;
        s->tracker = 0;
    }
    return true;
}

double tp_scaler_get_scale(const tp_scaler *scaler) {
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler")) return NAN;
    return scaler->opt.enabled ? (double)scaler->scale : 1;
}
bool tp_scaler_found_inf(const tp_scaler *scaler) { return TPI_HANDLE_GIVEN(scaler, "a scaler") && scaler->found_inf; }

bool tp_scaler_get_state(const tp_scaler *scaler, tp_scaler_state *state) {
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler") || !TPI_GIVEN(state, "a place for it") ||
        !tpi_sound_size(state->size, "state"))
        return false;
    const tp_scaler_state all = {state->size,
                                 scaler->scale,
                                 scaler->opt.growth_factor,
                                 scaler->opt.backoff_factor,
                                 scaler->opt.growth_interval,
                                 scaler->tracker};
    tpi_copy_options(state, (size_t)state->size, &all, (int64_t)sizeof all);
    return true;
}
bool tp_scaler_set_state(tp_scaler *scaler, const tp_scaler_state *state) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(scaler, "a scaler") || !TPI_GIVEN(state, "a state") || !tpi_sound_size(state->size, "state"))
        return false;
    tp_scaler_state all = {0};
    tpi_copy_options(&all, sizeof all, state, state->size);
    if (!(all.scale > 0) || !(all.growth_factor > 1) || !(all.backoff_factor < 1) || all.growth_interval < 1 ||
        all.growth_tracker < 0)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_scaler_set_state: argument 'state': expected what tp_scaler_get_state gave");
    scaler->scale = (float)all.scale;
    scaler->opt.growth_factor = all.growth_factor;
    scaler->opt.backoff_factor = all.backoff_factor;
    scaler->opt.growth_interval = all.growth_interval;
    scaler->tracker = all.growth_tracker;
    return true;
}
