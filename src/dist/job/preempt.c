/* The signals by which schedulers announce that a job's time is over. Handlers of the program's and of Python's that
 * were there before are still called. Those of libraries are not: LLVM, which OpenCL's and AMD's drivers bring along,
 * cleans up on SIGTERM and ends the process. */
#define _GNU_SOURCE /* dladdr, the program's name */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <taper/dist.h>
#include "base/signals.h"

static volatile sig_atomic_t flag;
static struct sigaction before[2];
static const int signals[2] = {SIGTERM, SIGUSR1};

/* Is the handler the program's own, or Python's? */
static bool is_ours(const struct sigaction *b) {
    Dl_info where;
    const void *handler = tpi_signal_handler(b);
    if (handler == (const void *)SIG_DFL || handler == (const void *)SIG_IGN) return false;
    return dladdr(handler, &where) && where.dli_fname &&
           (!strcmp(where.dli_fname, program_invocation_name) || strstr(where.dli_fname, "python"));
}

static bool calls[2]; /* handlers that were there before */

static void arrived(int number, siginfo_t *info, void *context) {
    flag = 1;
    const struct sigaction *b = &before[number == SIGUSR1];
    if (!calls[number == SIGUSR1]) return;
    if (b->sa_flags & SA_SIGINFO)
        b->sa_sigaction(number, info, context);
    else
        b->sa_handler(number);
}

bool tp_preempted(void) {
    static bool watching;
    if (!watching) {
        watching = true;
        struct sigaction action = {.sa_sigaction = arrived, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < 2; i++) { /* the signal may come in between */
            if (sigaction(signals[i], NULL, &before[i]) == 0) calls[i] = is_ours(&before[i]);
            sigaction(signals[i], &action, NULL);
        }
    }
    return flag;
}
