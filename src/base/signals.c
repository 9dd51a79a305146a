/* Keeping signal handlers over calls into libraries that replace them. */
#include "base/signals.h"

void tpi_signals_keep(tpi_signals *s) {
    for (int n = 1; n < TPI_SIGNALS; n++)
        if (sigaction(n, NULL, &s->was[n])) s->was[n] = (struct sigaction){.sa_handler = SIG_DFL};
}

void tpi_signals_put_back(const tpi_signals *s) {
    for (int n = 1; n < TPI_SIGNALS; n++) {
        struct sigaction now;
        if (n == SIGKILL || n == SIGSTOP || sigaction(n, NULL, &now)) continue;
        if (tpi_signal_handler(&now) != tpi_signal_handler(&s->was[n])) sigaction(n, &s->was[n], NULL);
    }
}
