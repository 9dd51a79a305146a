/* The detour of a watched, recorded or cast call: opens the profile's event, casts the arguments, and undoes both
 * afterwards. */
#include "dispatch/detour.h"
#include <taper/call.h>
#include "dispatch/grad_mode.h"
#include "dispatch/conjugate_arguments.h"
#include "tensor/upcalls.h"

static void watch_inputs(int64_t event, const tpi_operator_entry *entry, void *const *args) {
    for (int i = 0; entry->args[i]; i++) {
        char kind = entry->args[i];
        if (kind == 'i')
            tpi_watch_numbers(event, (tp_ints){args[i], 1});
        else if (kind == 'n' || kind == 'B')
            tpi_watch_numbers(event, *(tp_ints *)args[i]);
        else
            tpi_watch_input(event,
                            kind == 't'   ? *(tp_tensor **)args[i]
                            : kind == 'o' ? ((tp_operand *)args[i])->tensor
                                          : NULL,
                            kind == 'l' ? args[i] : NULL);
    }
}

bool tpi_detour_begin(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args, tp_tensor **written) {
    tpi_cast rule = tpi_detours & TPI_AUTOCASTS ? tpi_autocast_rule(entry, args) : TPI_CAST_NOTHING;
    bool watched = tpi_detours & TPI_WATCHED, casts = rule != TPI_CAST_NOTHING;
    *detour = (tpi_detour){.event = -1, .before = tpi_detours, .entry = entry, .args = args};
    if (tpi_marks_alive() && !tpi_marks_resolve(detour, entry, args, written)) {
        tpi_marks_release(detour);
        return false;
    }
    if (watched) {
        detour->event =
            tpi_watch_begin(entry->name, TP_EVENT_OPERATOR, tpi_grad_off ? -1 : (int64_t)(tpi_nodes_made + 1));
        watch_inputs(detour->event, entry, args);
    }
    if (casts) {
        tpi_detours &= (uint8_t)~TPI_AUTOCASTS; /* what the operator is made of runs in the dtypes it was given */
        if (rule != TPI_CAST_OFF && !tpi_autocast_arguments(entry, rule, args, &detour->casts)) {
            tpi_detour_end(detour);
            return false;
        }
    }
    if ((tpi_detours & TPI_RECORDED) && entry->step) {
        detour->recorder = tpi_recording;
        tpi_recording = NULL;
        tpi_detours &= (uint8_t)~TPI_RECORDED;
    }
    return true;
}

/* Counts the products of a watched call, as the stanza's `cost` line has them. */
static void watch_products(const tpi_detour *detour, int64_t n, tp_tensor *const *results) {
    enum { MOST = 32 };
    tp_ints shapes[MOST];
    tp_value flags[MOST]; /* a cost line asks shapes and bools */
    if (!detour->entry->step || !tpi_watch_wants_shapes(detour->event)) return;
    const tp_operator *op = tp_find_operator(detour->entry->name);
    if (!op || !op->cost || op->nargs + n > MOST) return;
    for (int64_t i = 0; i < op->nargs; i++) {
        const char letter = detour->entry->args[i];
        const tp_tensor *t = letter == 't' ? *(tp_tensor **)detour->args[i] : NULL;
        shapes[i] = t ? tpi_shape(t) : (tp_ints){NULL, -1};
        flags[i] = letter == 'b' ? tp_value_bool(*(bool *)detour->args[i]) : tp_value_none();
    }
    for (int64_t i = 0; i < n; i++) shapes[op->nargs + i] = results[i] ? tpi_shape(results[i]) : (tp_ints){NULL, -1};
    const double count = op->cost(shapes, flags);
    if (count > 0 && count < 0x1p62) tpi_watch_multiply_adds(detour->event, count);
}

void tpi_detour_gave(tpi_detour *detour, bool fine, int64_t n, tp_tensor *const *results) {
    tpi_recorder *r = detour->recorder;
    if (fine && detour->event >= 0) watch_products(detour, n, results);
    for (int64_t i = 0; r && fine && i < n; i++)
        if (tpi_marked(results[i])) {
            r->marked(r);
            return;
        }
    if (r && fine) r->call(r, detour->entry->name, detour->entry->args, detour->args, n, results);
}

void tpi_detour_end(tpi_detour *detour) {
    bool records = detour->recorder && !detour->recorder->ended; /* again, since it was put aside */
    uint8_t as_is = detour->recorder ? TPI_WATCHED : TPI_WATCHED | TPI_RECORDED;
    uint8_t back = records ? TPI_AUTOCASTS | TPI_RECORDED : TPI_AUTOCASTS;
    tpi_detours = (uint8_t)((tpi_detours & as_is) | (detour->before & back));
    if (records) tpi_recording = detour->recorder;
    if (detour->casts) tpi_autocast_release(detour->casts);
    tpi_marks_release(detour);
    if (detour->event >= 0) tpi_watch_end(detour->event);
}

tp_tensor *tpi_detour_wrote(tpi_detour *detour, tp_tensor *given) {
    tp_tensor *written = detour->written, *copy = tpi_retain(detour->copy);
    tpi_detour_end(detour);
    if (copy && given && !tpi_above.write_back(written, copy)) given = NULL;
    tp_release(copy);
    return given && written ? written : given;
}
