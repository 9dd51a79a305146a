/* Which natives' kernels may run a program of maps over a result as they write it (device/epilogue.h): the `epilogue`
 * lines of the tables, in a list that opgen writes. */
#ifndef TPI_EPILOGUE_FACT_H
#define TPI_EPILOGUE_FACT_H
#include <taper/call.h>

typedef struct tpi_epilogue_fact {
    const tp_operator *op; /* NULL: the list's end */
    int result;
} tpi_epilogue_fact;
extern const tpi_epilogue_fact tpi_epilogue_facts[];

/* The number of that result, -1: none. */
static inline int tpi_epilogue_result(const tp_operator *op) {
    for (const tpi_epilogue_fact *f = tpi_epilogue_facts; f->op; f++)
        if (f->op == op) return f->result;
    return -1;
}
#endif
