/* The signals by which schedulers announce that a job's time is over. Handlers that were there before are still called. */
#include <signal.h>
#include <taper/dist.h>

static volatile sig_atomic_t flag;
static struct sigaction before[2];
static const int signals[2] = {SIGTERM, SIGUSR1};

static void arrived(int number, siginfo_t *info, void *context) {
    flag = 1;
    const struct sigaction *b = &before[number == SIGUSR1];
    if (b->sa_flags & SA_SIGINFO) b->sa_sigaction(number, info, context);
    else if (b->sa_handler != SIG_DFL && b->sa_handler != SIG_IGN) b->sa_handler(number);
}

bool tp_preempted(void) {
    static bool watching;
    if (!watching) {
        watching = true;
        struct sigaction action = {.sa_sigaction = arrived, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < 2; i++) sigaction(signals[i], &action, &before[i]);
    }
    return flag;
}
