/* What a summary is, and the plainest of them: scalars. The numbers are the fields of tensorflow.Summary and its kin.
 */
#include "autograd/glue.h"
#include "base/handle.h"
#include "io/events/summary.h"
#include "base/error.h"
#include "base/memory.h"
#include <string.h>

tp_summary *tpi_summary_new(void) { return tpi_new0(sizeof(tp_summary)); }

void tp_summary_free(tp_summary *summary) {
    if (TPI_ENDED(summary, "a summary")) return;
    if (!summary) return;
    tpi_wire_free(&summary->wire);
    tpi_handle_delete(summary, sizeof *summary);
}

tp_summary *tpi_summary_done(tp_summary *s) {
    if (!s || !s->wire.failed) return s;
    tp_summary_free(s);
    return NULL;
}

const void *tp_summary_bytes(const tp_summary *summary, size_t *bytes) {
    if (TPI_ENDED(summary, "a summary")) return NULL;
    if (!TPI_GIVEN(bytes, "a place for the length")) return NULL;
    *bytes = summary ? summary->wire.n : 0;
    return summary ? summary->wire.data : NULL;
}

bool tpi_value_open(tp_summary *s, const char *tag, size_t *value) {
    if (!tag) return tpi_refuse(TP_ERR_VALUE, "argument 'tag': expected a text, got none");
    *value = tpi_wire_open(&s->wire, 1);
    tpi_wire_text(&s->wire, 1, tag);
    return true;
}

void tpi_value_plugin(tpi_wire *w, const char *plugin, const void *content, size_t bytes, const char *display_name,
                      const char *description) {
    size_t metadata = tpi_wire_open(w, 9);
    if (plugin) {
        size_t data = tpi_wire_open(w, 1);
        tpi_wire_text(w, 1, plugin);
        if (bytes) tpi_wire_bytes(w, 2, content, bytes);
        tpi_wire_close(w, data);
    }
    tpi_wire_text(w, 2, display_name);
    tpi_wire_text(w, 3, description);
    tpi_wire_close(w, metadata);
}

/* ---- Scalars ---- */
enum { DT_FLOAT = 1, DT_DOUBLE = 2 };

tp_summary *tp_summary_scalar(const char *tag, double value, const tp_summary_scalar_options *options) {
    tp_summary_scalar_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    tp_summary *s = tpi_summary_new();
    size_t opened;
    if (!s || !tpi_value_open(s, tag, &opened)) {
        tp_summary_free(s);
        return NULL;
    }
    tpi_wire *w = &s->wire;
    if (o.as_tensor) {
        size_t tensor = tpi_wire_open(w, 8);
        tpi_wire_int(w, 1, o.as_double ? DT_DOUBLE : DT_FLOAT);
        if (o.as_double)
            tpi_wire_doubles(w, 6, &value, 1);
        else
            tpi_wire_floats(w, 5, &(float){(float)value}, 1);
        tpi_wire_close(w, tensor);
        tpi_value_plugin(w, "scalars", NULL, 0, o.display_name, o.description);
    } else {
        tpi_wire_float(w, 2, (float)value);
        if ((o.display_name && *o.display_name) || (o.description && *o.description))
            tpi_value_plugin(w, NULL, NULL, 0, o.display_name, o.description);
    }
    tpi_wire_close(w, opened);
    return tpi_summary_done(s);
}
