/* Summaries that tell TensorBoard's pages what to show: hyperparameters with the metrics they are judged by, and the
 * charts of the custom scalars page. The numbers are the fields of tensorboard.hparams and tensorboard's Layout. */
#include "io/events/summary.h"
#include "tensor/check_arguments.h"
#include "base/error.h"
#include "base/memory.h"
#include <string.h>

/* ---- Hyperparameters ---- */
enum { EXPERIMENT = 2, SESSION_START = 3, SESSION_END = 4 };

static void write_setting(tpi_wire *w, int field, const tp_setting *v) { /* google.protobuf.Value */
    size_t value = tpi_wire_open(w, field);
    if (v->kind == TP_SETTING_NUMBER) tpi_wire_double(w, 2, v->number);
    if (v->kind == TP_SETTING_TEXT) tpi_wire_bytes(w, 3, v->text, strlen(v->text));
    if (v->kind == TP_SETTING_BOOL) tpi_wire_int(w, 4, v->number != 0);
    tpi_wire_close(w, value);
}

static bool check_settings(int64_t n, const tp_setting *values, const char *of) {
    for (int64_t i = 0; i < n; i++)
        if (values[i].kind < TP_SETTING_TEXT || values[i].kind > TP_SETTING_NUMBER ||
            (values[i].kind == TP_SETTING_TEXT && !values[i].text))
            return tpi_refuse(TP_ERR_VALUE,
                              "argument 'hparams': expected numbers, texts and truths, got something else for '%s'",
                              of);
    return true;
}

static bool check_hparams(int64_t n, const tp_hparam *hparams, int64_t nmetrics, const char *const *metrics) {
    if (!TPI_LIST_GIVEN(hparams, n) || !TPI_LIST_GIVEN(metrics, nmetrics)) return false;
    for (int64_t i = 0; i < n; i++) {
        const tp_hparam *h = &hparams[i];
        if (!h->name)
            return tpi_refuse(TP_ERR_VALUE, "argument 'hparams': expected a name, got none for number %lld",
                              (long long)i);
        if (!check_settings(1, &h->value, h->name) || !check_settings(h->nchoices, h->choices, h->name)) return false;
    }
    for (int64_t i = 0; i < nmetrics; i++)
        if (!metrics[i])
            return tpi_refuse(TP_ERR_VALUE, "argument 'metrics': expected a tag, got none for number %lld",
                              (long long)i);
    return true;
}

static void write_experiment(tpi_wire *w, int64_t n, const tp_hparam *hparams, int64_t nmetrics,
                             const char *const *metrics) {
    size_t experiment = tpi_wire_open(w, EXPERIMENT);
    for (int64_t i = 0; i < n; i++) {
        size_t info = tpi_wire_open(w, 4);
        tpi_wire_text(w, 1, hparams[i].name);
        tpi_wire_int(w, 4, hparams[i].value.kind);
        if (hparams[i].nchoices) {
            size_t choices = tpi_wire_open(w, 5);
            for (int64_t k = 0; k < hparams[i].nchoices; k++) write_setting(w, 1, &hparams[i].choices[k]);
            tpi_wire_close(w, choices);
        }
        tpi_wire_close(w, info);
    }
    for (int64_t i = 0; i < nmetrics; i++) {
        size_t info = tpi_wire_open(w, 5), name = tpi_wire_open(w, 1);
        tpi_wire_text(w, 2, metrics[i]);
        tpi_wire_close(w, name);
        tpi_wire_close(w, info);
    }
    tpi_wire_close(w, experiment);
}

static void write_session(tpi_wire *w, int64_t n, const tp_hparam *hparams) {
    size_t start = tpi_wire_open(w, SESSION_START);
    for (int64_t i = 0; i < n; i++) {
        size_t entry = tpi_wire_open(w, 1);
        tpi_wire_text(w, 1, hparams[i].name);
        write_setting(w, 2, &hparams[i].value);
        tpi_wire_close(w, entry);
    }
    tpi_wire_close(w, start);
}

tp_summary *tp_summary_hparams(tp_hparams_part part, int64_t n, const tp_hparam *hparams, int64_t nmetrics,
                               const char *const *metrics) {
    static const char *const tags[] = {"_hparams_/experiment", "_hparams_/session_start_info",
                                       "_hparams_/session_end_info"};
    if (part < TP_HPARAMS_EXPERIMENT || part > TP_HPARAMS_END)
        return tpi_fail(TP_ERR_VALUE, "argument 'part': expected a tp_hparams_part, got %d", part);
    if (!check_hparams(n, hparams, nmetrics, metrics)) return NULL;
    tpi_wire content = {0};
    if (part == TP_HPARAMS_EXPERIMENT)
        write_experiment(&content, n, hparams, nmetrics, metrics);
    else if (part == TP_HPARAMS_START)
        write_session(&content, n, hparams);
    else {
        size_t end = tpi_wire_open(&content, SESSION_END);
        tpi_wire_int(&content, 1, 1); /* success */
        tpi_wire_close(&content, end);
    }
    tp_summary *s = content.failed ? NULL : tpi_summary_new();
    size_t value;
    if (s && tpi_value_open(s, tags[part], &value)) {
        tpi_value_plugin(&s->wire, "hparams", content.data, content.n, NULL, NULL);
        tpi_wire_close(&s->wire, value);
    }
    tpi_wire_free(&content);
    return tpi_summary_done(s);
}

bool tp_log_hparams(tp_events *w, int64_t n, const tp_hparam *hparams, int64_t nmetrics, const char *const *metrics) {
    if (TPI_ENDED(w, "an event log")) return false;
    TPI_STOP_ON_ERROR(false);
    for (int part = TP_HPARAMS_EXPERIMENT; part <= TP_HPARAMS_END; part++)
        if (!tp_events_log(w, tp_summary_hparams((tp_hparams_part)part, n, hparams, nmetrics, metrics), TP_NONE))
            return false;
    return true;
}

/* ---- Custom scalars ---- */

static bool check_charts(int64_t n, const tp_chart *charts) {
    if (!TPI_LIST_GIVEN(charts, n)) return false;
    for (int64_t i = 0; i < n; i++) {
        const tp_chart *c = &charts[i];
        if (!c->category || !c->title)
            return tpi_refuse(TP_ERR_VALUE,
                              "argument 'charts': expected a category and a title, got none for number %lld",
                              (long long)i);
        if (c->margin && c->ntags != 3)
            return tpi_refuse(
                TP_ERR_VALUE,
                "argument 'charts': expected three tags (value, lower, upper) for the margin chart '%s', got %lld",
                c->title, (long long)c->ntags);
        for (int64_t k = 0; k < c->ntags; k++)
            if (!c->tags || !c->tags[k])
                return tpi_refuse(TP_ERR_VALUE, "argument 'charts': expected tags, got none in '%s'", c->title);
    }
    return true;
}

static void write_chart(tpi_wire *w, const tp_chart *c) {
    size_t chart = tpi_wire_open(w, 2);
    tpi_wire_text(w, 1, c->title);
    size_t content = tpi_wire_open(w, c->margin ? 3 : 2), series = c->margin ? tpi_wire_open(w, 1) : 0;
    for (int64_t k = 0; k < c->ntags; k++)
        tpi_wire_bytes(w, c->margin ? (int)k + 1 : 1, c->tags[k], strlen(c->tags[k]));
    if (c->margin) tpi_wire_close(w, series);
    tpi_wire_close(w, content);
    tpi_wire_close(w, chart);
}

tp_summary *tp_summary_custom_scalars(int64_t n, const tp_chart *charts) {
    if (!check_charts(n, charts)) return NULL;
    tpi_wire layout = {0};
    for (int64_t i = 0; i < n;) {
        size_t category = tpi_wire_open(&layout, 2);
        const char *title = charts[i].category;
        tpi_wire_text(&layout, 1, title);
        for (; i < n && !strcmp(charts[i].category, title); i++) write_chart(&layout, &charts[i]);
        tpi_wire_close(&layout, category);
    }
    tp_summary *s = layout.failed ? NULL : tpi_summary_new();
    if (s && !tpi_write_text(s, "custom_scalars__config__", "custom_scalars", layout.data, layout.n, 0)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_wire_free(&layout);
    return tpi_summary_done(s);
}

/* ---- Graphs ---- */

tp_summary *tp_graph_new(void) {
    tp_summary *graph = tpi_summary_new();
    if (!graph) return NULL;
    size_t versions = tpi_wire_open(&graph->wire, 4);
    tpi_wire_int(&graph->wire, 1, 22);
    tpi_wire_close(&graph->wire, versions);
    return tpi_summary_done(graph);
}

static void write_attribute(tpi_wire *w, const char *name, int field, const void *data, size_t bytes) {
    size_t entry = tpi_wire_open(w, 5);
    tpi_wire_text(w, 1, name);
    size_t value = tpi_wire_open(w, 2);
    tpi_wire_bytes(w, field, data, bytes);
    tpi_wire_close(w, value);
    tpi_wire_close(w, entry);
}

static void write_shapes(tpi_wire *w, int64_t n, const tp_ints *shapes) { /* _output_shapes: a list of shapes */
    tpi_wire list = {0};
    for (int64_t i = 0; i < n; i++) {
        size_t shape = tpi_wire_open(&list, 7);
        for (int64_t d = 0; d < shapes[i].n; d++) {
            size_t dim = tpi_wire_open(&list, 2);
            tpi_wire_int(&list, 1, shapes[i].v[d]);
            tpi_wire_close(&list, dim);
        }
        tpi_wire_close(&list, shape);
    }
    if (list.failed)
        w->failed = true;
    else
        write_attribute(w, "_output_shapes", 1, list.data, list.n);
    tpi_wire_free(&list);
}

bool tp_graph_add(tp_summary *graph, const tp_graph_node *node) {
    if (!TPI_GIVEN(graph, "a graph") || !TPI_GIVEN(node, "a node")) return false;
    if (!TPI_LIST_GIVEN(node->inputs, node->ninputs) || !TPI_LIST_GIVEN(node->shapes, node->nshapes)) return false;
    if (!node->name || !*node->name) return tpi_refuse(TP_ERR_VALUE, "argument 'node': expected a name, got none");
    tpi_wire *w = &graph->wire;
    size_t message = tpi_wire_open(w, 1);
    tpi_wire_text(w, 1, node->name);
    tpi_wire_text(w, 2, node->op);
    for (int64_t i = 0; i < node->ninputs; i++) tpi_wire_text(w, 3, node->inputs[i]);
    tpi_wire_text(w, 4, node->device);
    if (node->nshapes) write_shapes(w, node->nshapes, node->shapes);
    if (node->detail && *node->detail) write_attribute(w, "attr", 2, node->detail, strlen(node->detail));
    tpi_wire_close(w, message);
    return !w->failed;
}

bool tp_log_graph(tp_events *w, tp_summary *graph) {
    if (!TPI_GIVEN(graph, "a graph")) return false;
    bool ok =
        !graph->wire.failed && tp_events_log_bytes(w, TP_EVENT_GRAPH, graph->wire.data, graph->wire.n, TP_NONE, 0);
    tp_summary_free(graph);
    return ok;
}
