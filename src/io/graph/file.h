/* What reads graphs from files shares with what reads their sizes. */
#ifndef TPI_GRAPH_FILE_H
#define TPI_GRAPH_FILE_H
#include <taper/io.h>
#include "graph/graph.h"

bool tpi_graph_broken(const char *what); /* an error: the file is damaged */
/* A number from `low` to `high`, and how many items a list or tuple of at most so many has; *ok becomes false where it
 * is none. */
int64_t tpi_graph_number(const tp_saved *v, int64_t low, int64_t high, bool *ok);
int64_t tpi_graph_list(const tp_saved *v, int64_t most, bool *ok);
/* The graph in a file; its tensors are those of `base`, a graph of the same file, if that is not NULL. NULL and an
 * error. */
tp_compiled *tpi_graph_read(const tp_saved *root, const tp_compiled *base);
bool tpi_graph_check(const tp_compiled *g); /* io/graph/check.c: may it be run? Before it is fused */
/* Gives the graph the sizes that its file says may change, if it says so. True: the file belongs to the graph now.
 * False: it does not, and there may be an error. */
bool tpi_graph_read_sizes(tp_compiled *g, tp_file *file);
#endif
