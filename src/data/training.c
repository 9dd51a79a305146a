/* A training in one file. Loading reads and checks everything before the first thing is changed. */
#include "data/training.h"
#include "autograd/glue.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/checkpoint/saved.h"
#include "nn/layer.h"
#include "optim/optimiser.h"
#include <stdio.h>
#include <string.h>

static tp_training taken(const tp_training *training) {
    tp_training t = {0};
    tpi_copy_options(&t, sizeof t, training, training->size);
    return t;
}

/* ---- saving ---- */
static bool put_model(tp_file *f, tp_module *m) {
    tp_state state = tp_module_state(m);
    tp_saved *dict = state.n >= 0 ? tp_put_dict(f, NULL, "model") : NULL;
    if (dict) dict->class_name = "collections.OrderedDict"; /* as state_dict() gives */
    bool fine = dict != NULL;
    for (int64_t i = 0; fine && i < state.n; i++) {
        tp_tensor *plain = tp_own(tp_detach(state.tensors[i]));
        fine = plain && tp_put_tensor(f, dict, state.names[i], plain);
        tp_release(plain);
    }
    if (state.n >= 0) tp_state_free(state);
    return fine;
}

static bool put_scaler(tp_file *f, const tp_scaler *scaler) {
    tp_scaler_state s = {.size = (int64_t)sizeof s};
    if (!tp_scaler_get_state(scaler, &s)) return false;
    tp_saved *dict = tp_put_dict(f, NULL, "scaler");
    return dict && tp_put_number(f, dict, "scale", tp_float(s.scale)) &&
           tp_put_number(f, dict, "growth_factor", tp_float(s.growth_factor)) &&
           tp_put_number(f, dict, "backoff_factor", tp_float(s.backoff_factor)) &&
           tp_put_number(f, dict, "growth_interval", tp_int(s.growth_interval)) &&
           tp_put_number(f, dict, "_growth_tracker", tp_int(s.growth_tracker));
}

static bool put_state(tp_file *f, const char *key, tp_tensor *state) {
    bool fine = state && tp_put_tensor(f, NULL, key, state);
    tp_release(state);
    return fine;
}

static void schedule_key(char *out, size_t capacity, int64_t i) {
    if (i < 0)
        snprintf(out, capacity, "lr_scheduler");
    else
        snprintf(out, capacity, "lr_scheduler_%lld", (long long)i);
}

static bool put_all(tp_file *f, const tp_training *t) {
    char key[40];
    bool fine = (!t->model || put_model(f, t->model)) &&
                (!t->optimiser || tp_put_optimiser(f, NULL, "optimizer", t->optimiser)) &&
                (!t->schedule || tp_put_schedule(f, NULL, "lr_scheduler", t->schedule)) &&
                (!t->scaler || put_scaler(f, t->scaler));
    for (int64_t i = 0; fine && i < t->nschedules; i++) {
        schedule_key(key, sizeof key, i);
        fine = tp_put_schedule(f, NULL, key, t->schedules[i]);
    }
    return fine && put_state(f, "rng_state", tp_own(tp_generator_get_state(tp_default_generator()))) &&
           (!t->generator || put_state(f, "generator", tp_own(tp_generator_get_state(t->generator)))) &&
           (!t->loader || put_state(f, "loader", tp_own(tp_loader_get_state(t->loader)))) &&
           tp_put_number(f, NULL, "epoch", tp_int(t->epoch)) && tp_put_number(f, NULL, "step", tp_int(t->step));
}

static bool given(const char *path, const tp_training *training, const char *function) {
    if (!tpi_given(path, function, "path", "a file's name") || !tpi_given(training, function, "training", "a training"))
        return false;
    const char *before = tpi_op_enter(function);
    const tp_training t = taken(training);
    tpi_op_leave(before);
    if (t.size <= 0) return false;
    if (t.nschedules < 0)
        return tpi_refuse(TP_ERR_VALUE, "%s: option 'nschedules': expected 0 or more, got %lld", function,
                          (long long)t.nschedules);
    return t.schedules || !t.nschedules ||
           tpi_refuse(TP_ERR_VALUE, "%s: option 'schedules': expected %lld schedules, got NULL", function,
                      (long long)t.nschedules);
}

bool tp_training_save(const char *path, const tp_training *training) {
    TPI_STOP_ON_ERROR(false);
    if (!given(path, training, __func__)) return false;
    const tp_training t = taken(training);
    const char *before = tpi_op_enter(__func__);
    tp_file *f = tp_new_file();
    bool fine = f && put_all(f, &t) && tp_save_file(f, path);
    tp_close_file(f);
    tpi_op_leave(before);
    return fine;
}

/* ---- loading ---- */
typedef struct loaded { /* what was read, before anything is changed */
    tp_optimiser *optimiser;
    double **schedules; /* the first, then the others */
    tp_scaler_state scaler;
    tp_tensor *rng, *generator, *loader;
    int64_t epoch, step;
} loaded;

static double number_at(const tp_saved *dict, const char *key) {
    return tp_scalar_to_double(tp_saved_number(tp_saved_get(dict, key)));
}
static bool read_scaler(const tp_saved *all, tp_scaler_state *s) {
    const tp_saved *dict = tp_saved_get(all, "scaler");
    *s = (tp_scaler_state){sizeof *s, 0, 0, 0, 0, 0};
    if (!dict) return false;
    s->scale = number_at(dict, "scale");
    s->growth_factor = number_at(dict, "growth_factor");
    s->backoff_factor = number_at(dict, "backoff_factor");
    s->growth_interval = tp_scalar_to_int(tp_saved_number(tp_saved_get(dict, "growth_interval")));
    s->growth_tracker = tp_scalar_to_int(tp_saved_number(tp_saved_get(dict, "_growth_tracker")));
    return tp_ok();
}
static bool read_schedules(const tp_saved *all, const tp_training *t, loaded *l) {
    l->schedules = tpi_malloc(sizeof *l->schedules * (size_t)(t->nschedules + 1));
    if (!l->schedules) return false;
    memset(l->schedules, 0, sizeof *l->schedules * (size_t)(t->nschedules + 1));
    bool fine = true;
    char key[40];
    for (int64_t i = t->schedule ? -1 : 0; fine && i < t->nschedules; i++) {
        schedule_key(key, sizeof key, i);
        const tp_saved *state = tp_saved_get(all, key);
        l->schedules[i + 1] = state ? tpi_loaded_schedule(state, i < 0 ? t->schedule : t->schedules[i]) : NULL;
        fine = l->schedules[i + 1] != NULL;
    }
    return fine;
}
static bool read_tensor(const tp_saved *all, const char *key, tp_tensor **out) {
    *out = tp_own(tp_saved_tensor(tp_saved_get(all, key)));
    return *out != NULL;
}

static bool read_all(const tp_saved *all, const tp_training *t, loaded *l) {
    if (t->optimiser) {
        const tp_saved *state = TPI_HANDLE_GIVEN(t->optimiser, "an optimiser") ? tp_saved_get(all, "optimizer") : NULL;
        if (!state || !(l->optimiser = tpi_loaded_optimiser(state, t->optimiser))) return false;
    }
    if (!read_schedules(all, t, l) || (t->scaler && !read_scaler(all, &l->scaler)) ||
        (t->generator && !read_tensor(all, "generator", &l->generator)) ||
        (t->loader && !read_tensor(all, "loader", &l->loader)))
        return false;
    if (tp_saved_has(all, "rng_state") && !read_tensor(all, "rng_state", &l->rng)) return false;
    l->epoch = tp_saved_has(all, "epoch") ? tp_scalar_to_int(tp_saved_number(tp_saved_get(all, "epoch"))) : t->epoch;
    l->step = tp_saved_has(all, "step") ? tp_scalar_to_int(tp_saved_number(tp_saved_get(all, "step"))) : t->step;
    return tp_ok();
}

static bool load_model(const tp_saved *all, tp_module *m) {
    const tp_saved *dict = tp_saved_get(all, "model");
    const int64_t n = tp_saved_count(dict);
    if (!dict) return false;
    const char **names = tpi_malloc(sizeof *names * (size_t)(n + 1));
    tp_tensor **tensors = names ? tpi_malloc(sizeof *tensors * (size_t)(n + 1)) : NULL;
    bool fine = tensors != NULL;
    int64_t read = 0;
    for (; fine && read < n; read++) {
        names[read] = tp_saved_text(tp_saved_key_at(dict, read));
        tensors[read] = names[read] ? tp_own(tp_saved_tensor(tp_saved_at(dict, read))) : NULL;
        fine = tensors[read] != NULL;
    }
    fine = fine && tp_module_load(m, n, names, tensors, true);
    for (int64_t i = 0; i < read; i++) tp_release(tensors[i]);
    tpi_mfree(names);
    tpi_mfree(tensors);
    return fine;
}

typedef struct before { /* what is set first, as it was */
    tp_scaler_state scaler;
    tp_tensor *loader, *generator, *rng; /* NULL: not set yet, or not there */
} before;

static void drop_before(before *b) {
    tp_release(b->loader);
    tp_release(b->generator);
    tp_release(b->rng);
}

/* Puts everything back where it was, and keeps the error. */
static void go_back(const tp_training *t, const before *was) {
    char message[512];
    const tp_code code = tp_error_code();
    snprintf(message, sizeof message, "%s", tp_error());
    tp_error_clear();
    if (t->scaler) tp_scaler_set_state(t->scaler, &was->scaler);
    if (was->loader) tp_loader_set_state(t->loader, was->loader);
    if (was->generator) tp_generator_set_state(t->generator, was->generator);
    if (was->rng) tp_generator_set_state(tp_default_generator(), was->rng);
    tp_error_clear();
    tpi_fail(code, "%s", message);
}

static bool set_generator(tp_generator *g, const tp_tensor *state, tp_tensor **was) {
    if (!state) return true;
    *was = tp_own(tp_generator_get_state(g));
    return *was && tp_generator_set_state(g, state);
}

static bool set_loader(tp_loader *l, const tp_tensor *state, tp_tensor **was) {
    if (!l) return true;
    *was = tp_own(tp_loader_get_state(l));
    return *was && tp_loader_set_state(l, state);
}

/* The scaler, the loader, the generators and the network check what they are given, in this order; the network changes
 * nothing if it refuses. */
static bool apply_loaded(const tp_saved *all, tp_training *t, loaded *l) {
    before was = {.scaler = {.size = (int64_t)sizeof was.scaler}};
    if (t->scaler && !tp_scaler_get_state(t->scaler, &was.scaler)) return false;
    bool fine = (!t->scaler || tp_scaler_set_state(t->scaler, &l->scaler)) &&
                set_loader(t->loader, l->loader, &was.loader) &&
                set_generator(t->generator, l->generator, &was.generator) &&
                set_generator(tp_default_generator(), l->rng, &was.rng) && (!t->model || load_model(all, t->model));
    if (!fine) go_back(t, &was);
    drop_before(&was);
    if (!fine) return false;
    if (l->optimiser) tpi_replace_optimiser(t->optimiser, l->optimiser);
    l->optimiser = NULL;
    for (int64_t i = t->schedule ? -1 : 0; i < t->nschedules; i++) {
        tpi_replace_schedule(i < 0 ? t->schedule : t->schedules[i], l->schedules[i + 1]);
        l->schedules[i + 1] = NULL;
    }
    return true;
}

bool tp_training_load(const char *path, tp_training *training) {
    TPI_STOP_ON_ERROR(false);
    if (!given(path, training, __func__)) return false;
    tp_training t = taken(training);
    const char *before = tpi_op_enter(__func__);
    tp_file *f = tp_open_file(path, NULL);
    const tp_saved *all = f ? tp_file_value(f) : NULL;
    loaded l = {.epoch = t.epoch, .step = t.step};
    bool fine = all && tpi_error_in_file(path, read_all(all, &t, &l) && apply_loaded(all, &t, &l));
    tpi_op_leave(before);
    if (fine) {
        t.epoch = l.epoch;
        t.step = l.step;
        const int64_t size = training->size;
        tpi_copy_options(training, size > 0 && size < (int64_t)sizeof t ? (size_t)size : sizeof t, &t, sizeof t);
        training->size = size;
    }
    if (l.optimiser) tp_optimiser_free(l.optimiser);
    for (int64_t i = 0; l.schedules && i <= t.nschedules; i++) tpi_mfree(l.schedules[i]);
    tpi_mfree(l.schedules);
    tp_release(l.rng);
    tp_release(l.generator);
    tp_release(l.loader);
    tp_close_file(f);
    return fine;
}
