/* Signal handlers are the program's. Some libraries that are opened at run time, above all LLVM within OpenCL's and
 * AMD's compilers, set their own without asking; around calls into them, what was there before is kept and put back. */
#ifndef TPI_SIGNALS_H
#define TPI_SIGNALS_H
#include <signal.h>
#include <stddef.h>

enum { TPI_SIGNALS = 32 }; /* those with names; real-time signals nobody touches */
typedef struct tpi_signals {
    struct sigaction was[TPI_SIGNALS];
} tpi_signals;

/* Whichever of the two kinds it is. */
static inline const void *tpi_signal_handler(const struct sigaction *a) {
    return a->sa_flags & SA_SIGINFO ? (const void *)a->sa_sigaction : (const void *)a->sa_handler;
}

void tpi_signals_keep(tpi_signals *s);
void tpi_signals_put_back(const tpi_signals *s);
#endif
