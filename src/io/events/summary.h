/* Summaries under construction: what the files that make them share. A summary is a protocol buffer in the making
 * (io/events/wire.h). */
#ifndef TPI_SUMMARY_H
#define TPI_SUMMARY_H
#include <taper/events.h>
#include "io/events/wire.h"

struct tp_summary {
    tpi_wire wire;
};

tp_summary *tpi_summary_new(void);
tp_summary *tpi_summary_done(tp_summary *s); /* s, or NULL if memory ran out on the way; NULL stays NULL */

/* A value's start: its tag is written; NULL is an error. End with tpi_wire_close(&s->wire, value). */
bool tpi_value_open(tp_summary *s, const char *tag, size_t *value);
/* Which plugin shows the value (NULL: the one for its kind), and what the plugin is told. */
void tpi_value_plugin(tpi_wire *w, const char *plugin, const void *content, size_t bytes, const char *display_name,
                      const char *description);

/* A tensor's value that is one text, of no dims or of one. */
bool tpi_write_text(tp_summary *s, const char *tag, const char *plugin, const void *text, size_t bytes, int ndim);

/* The elements in row-major order on the CPU, in another dtype; owned. */
tp_tensor *tpi_plain_of(const tp_tensor *t, tp_dtype dtype);
tp_tensor *tpi_doubles_of(const tp_tensor *t);
#endif
