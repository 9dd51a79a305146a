/* Keeping signal handlers over calls into libraries that replace them. */
#include "base/signals.h"

static const void *handler_of(const struct sigaction *a) { return a->sa_flags & SA_SIGINFO ? (const void *)a->sa_sigaction : (const void *)a->sa_handler; }

void tpi_signals_keep(tpi_signals *s) {
    for (int n = 1; n < TPI_SIGNALS; n++)
        if (sigaction(n, NULL, &s->was[n])) s->was[n] = (struct sigaction){.sa_handler = SIG_DFL};
}

void tpi_signals_put_back(const tpi_signals *s) {
    for (int n = 1; n < TPI_SIGNALS; n++) {
        struct sigaction now;
        if (n == SIGKILL || n == SIGSTOP || sigaction(n, NULL, &now)) continue;
        if (handler_of(&now) != handler_of(&s->was[n])) sigaction(n, &s->was[n], NULL);
    }
}
