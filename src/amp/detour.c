/* The detour of a watched or cast call: opens the profile's event, casts the arguments, and undoes both afterwards. */
#include "amp/detour.h"
#include "autograd/node.h"

static TPI_THREAD_LOCAL const tpi_entry
    *straight_on; /* the entry whose next call is the one in the middle of a detour */

static void watch_inputs(int64_t event, const tpi_entry *entry, void *const *args) {
    for (int i = 0; entry->args[i]; i++) {
        char kind = entry->args[i];
        if (kind == 'i')
            tpi_watch_numbers(event, (tp_ints){args[i], 1});
        else if (kind == 'n')
            tpi_watch_numbers(event, *(tp_ints *)args[i]);
        else
            tpi_watch_input(event,
                            kind == 't'   ? *(tp_tensor **)args[i]
                            : kind == 'o' ? ((tp_operand *)args[i])->tensor
                                          : NULL,
                            kind == 'l' ? args[i] : NULL);
    }
}

int tpi_detour_begin(tpi_detour *detour, const tpi_entry *entry, void *const *args) {
    if (straight_on == entry) {
        straight_on = NULL;
        return 0;
    }
    tpi_cast rule = tpi_detours & TPI_AUTOCASTS ? tpi_autocast_rule(entry, args) : TPI_CAST_NOTHING;
    bool watched = tpi_detours & TPI_WATCHED, casts = rule != TPI_CAST_NOTHING;
    *detour = (tpi_detour){.event = -1, .before = tpi_detours};
    if (watched) {
        detour->event =
            tpi_watch_begin(entry->name, TP_EVENT_OPERATOR, tpi_grad_off ? -1 : (int64_t)tpi_next_sequence());
        watch_inputs(detour->event, entry, args);
    }
    if (casts) {
        tpi_detours &= (uint8_t)~TPI_AUTOCASTS; /* what the operator is made of runs in the dtypes it was given */
        if (rule != TPI_CAST_OFF && !tpi_autocast_arguments(entry, rule, args, &detour->casts)) {
            tpi_detour_end(detour);
            return -1;
        }
    }
    if ((tpi_detours & TPI_RECORDED) && entry->step) {
        detour->recorder = tpi_recording, detour->entry = entry, detour->args = args;
        tpi_recording = NULL;
        tpi_detours &= (uint8_t)~TPI_RECORDED;
    } else if (!watched && !casts) {
        return 0;
    }
    straight_on = watched ? entry : NULL; /* not watched, the call in the middle has no reason to come here again */
    return 1;
}

void tpi_detour_gave(tpi_detour *detour, bool fine, int64_t n, tp_tensor *const *results) {
    tpi_recorder *r = detour->recorder;
    if (r && fine) r->call(r, detour->entry->name, detour->entry->args, detour->args, n, results);
}

void tpi_detour_end(tpi_detour *detour) {
    uint8_t back = detour->recorder && detour->recorder->ended ? TPI_AUTOCASTS : TPI_AUTOCASTS | TPI_RECORDED;
    tpi_detours = (uint8_t)((tpi_detours & TPI_WATCHED) | (detour->before & back));
    if (detour->recorder && !detour->recorder->ended) tpi_recording = detour->recorder;
    if (detour->casts) tpi_autocast_release(detour->casts);
    if (detour->event >= 0) tpi_watch_end(detour->event);
}
