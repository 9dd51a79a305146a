/* Rank 0's list of where everybody stands, and what can be said from it. */
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/watch/watch.h"

tpi_ranks *tpi_ranks_new(int n) {
    tpi_ranks *list = tpi_malloc(sizeof *list + sizeof *list->ranks * (size_t)n);
    if (!list) return NULL;
    memset(list, 0, sizeof *list + sizeof *list->ranks * (size_t)n);
    list->n = n;
    return list;
}

void tpi_ranks_free(tpi_ranks *list) {
    for (int i = 0; list && i < list->n; i++) tpi_mfree(list->ranks[i].statuses);
    tpi_mfree(list);
}

bool tpi_ranks_update(tpi_ranks *list, int rank, const tpi_rank_status *statuses, int n) {
    struct tpi_known *k = &list->ranks[rank];
    k->heard = tpi_now();
    if (n > k->nstatuses) {
        tpi_rank_status *more = tpi_realloc(k->statuses, sizeof *more * (size_t)n);
        if (!more) return false;
        k->statuses = more;
    }
    if (n) memcpy(k->statuses, statuses, sizeof *statuses * (size_t)n);
    k->nstatuses = n;
    return true;
}

void tpi_ranks_name(const tpi_ranks *list, int rank, char *text, size_t capacity) {
    const struct tpi_known *k = &list->ranks[rank];
    if (*k->who)
        snprintf(text, capacity, "rank %d (%s)", rank, k->who);
    else
        snprintf(text, capacity, "rank %d", rank);
}

static const tpi_rank_status *status_in(const tpi_ranks *list, int rank, int group) {
    const struct tpi_known *k = &list->ranks[rank];
    for (int i = 0; i < k->nstatuses; i++)
        if (k->statuses[i].group == group) return &k->statuses[i];
    return NULL;
}

/* `at_least`: a number that it must have come to, as others have left it since. */
static void stood_at(const tpi_rank_status *s, int64_t at_least, double ago, char *text, size_t capacity) {
    if (s && s->waits == TPI_WAITS_FOR_MESSAGE)
        snprintf(text, capacity, "it waits in %s, at %s", s->about, s->call_site);
    else if (at_least > 0 && (!s || s->entered < at_least))
        snprintf(text, capacity, "it came to number %lld, and no further", (long long)at_least);
    else if (!s || !s->entered)
        snprintf(text, capacity, "it has not come to any collective of the group");
    else if (s->left < s->entered)
        snprintf(text, capacity, "it waits in number %lld, %s, at %s", (long long)s->entered, s->about, s->call_site);
    else
        snprintf(text, capacity, "it left number %lld, %s, at %s, %.0f s ago", (long long)s->left, s->about,
                 s->call_site, s->since + ago);
}

/* Who has left most of the group's collectives since: where ranks agree before each, `rank` has come to what that one
 * left. */
static int ahead_of(const tpi_ranks *list, int rank, int group) {
    int found = -1;
    for (int i = 0; i < list->n; i++) {
        const tpi_rank_status *s = i == rank ? NULL : status_in(list, i, group);
        if (s && s->left > 0 && (found < 0 || s->left > status_in(list, found, group)->left)) found = i;
    }
    return found;
}

/* Others know of more collectives than `known`, what the rank itself told last: says so. */
static bool seen_by_others(const tpi_ranks *list, int rank, int group, const tpi_rank_status *known, char *text,
                           size_t capacity) {
    int other = ahead_of(list, rank, group);
    const tpi_rank_status *s = other < 0 ? NULL : status_in(list, other, group);
    if (!s || (known && (known->entered > s->left || known->left == s->left))) return false;
    bool known_as = s->entered == s->left && s->waits != TPI_WAITS_FOR_MESSAGE;
    int at = snprintf(text, capacity, "it came to number %lld%s%s", (long long)s->left, known_as ? ", " : "",
                      known_as ? s->about : "");
    if (s->entered > s->left)
        snprintf(text + at, capacity - (size_t)at, "; rank %d is in number %lld, %s, at %s", other,
                 (long long)s->entered, s->about, s->call_site);
    return true;
}

void tpi_ranks_last(const tpi_ranks *list, int rank, int world, char *text, size_t capacity) {
    const struct tpi_known *k = &list->ranks[rank];
    const tpi_rank_status *last = NULL;
    for (int i = 0; i < k->nstatuses; i++) {
        const tpi_rank_status *s = &k->statuses[i];
        if (world >= 0 && seen_by_others(list, rank, s->group, s, text, capacity)) return;
        if (s->entered && (!last || s->waits > last->waits || s->since < last->since)) last = s;
    }
    if (world >= 0 && !status_in(list, rank, world) && seen_by_others(list, rank, world, NULL, text, capacity)) return;
    if (last)
        stood_at(last, 0, tpi_now() - k->heard, text, capacity);
    else
        snprintf(text, capacity, "it had not come to any collective");
}

static bool is_gone(const tpi_ranks *list, int rank) {
    return list->ranks[rank].presence == TPI_LEFT || list->ranks[rank].presence == TPI_DEAD;
}

/* What it does elsewhere, if it waits there: that is why it has not come. */
static const tpi_rank_status *waits_in_other_group(const struct tpi_known *k, int group) {
    for (int i = 0; i < k->nstatuses; i++)
        if (k->statuses[i].group != group && k->statuses[i].waits) return &k->statuses[i];
    return NULL;
}

static int missing_line(const tpi_ranks *list, int rank, int group, int64_t number, double since, char *text,
                        size_t capacity) {
    const struct tpi_known *k = &list->ranks[rank];
    const tpi_rank_status *s = status_in(list, rank, group), *other_group = waits_in_other_group(k, group);
    char name[200], stood[480], silent[80] = "";
    double ago = tpi_now() - k->heard;
    tpi_ranks_name(list, rank, name, sizeof name);
    if (other_group)
        snprintf(stood, sizeof stood, "it waits in %s of another group, at %s", other_group->about,
                 other_group->call_site);
    else
        stood_at(s, number == INT64_MAX ? 0 : number - 1, ago, stood, sizeof stood);
    if (is_gone(list, rank))
        snprintf(silent, sizeof silent, " It has left the job.");
    else if (k->presence == TPI_HERE && rank && (ago > 5 || (ago > 2 && k->heard < since)))
        snprintf(silent, sizeof silent, " It has not been heard from for %.0f s: stopped, or its machine is.", ago);
    return snprintf(text, capacity, "  %s: %s.%s", name, stood, silent);
}

enum arrival { CAME, SILENT, VICTIM, ABSENT, GONE };

static enum arrival kind_of(const tpi_ranks *list, int rank, int group, int64_t number, double since) {
    const struct tpi_known *k = &list->ranks[rank];
    const tpi_rank_status *s = status_in(list, rank, group);
    double ago = tpi_now() - k->heard;
    bool told = rank == 0 || k->heard >= since || ago < 1; /* a busy machine's watchers are slow to answer */
    if (s && s->entered >= number) return told || ago < 2 ? CAME : SILENT;
    if (is_gone(list, rank)) return GONE;
    return s && s->waits == TPI_WAITS_FOR_ALL && told ? VICTIM : ABSENT;
}

int tpi_ranks_missing(const tpi_ranks *list, int group, int64_t number, const int32_t *ranks, int n, double since,
                      char *text, size_t capacity, bool *gone) {
    enum { LINES = 16 };
    int missing = 0, named = 0;
    size_t at = 0;
    *gone = false;
    text[0] = 0;
    for (int kind = GONE; kind >= SILENT; kind--) { /* those that are gone come first */
        if (kind <= VICTIM && named) break;
        for (int i = 0; i < n; i++) {
            if ((int)kind_of(list, ranks[i], group, number, since) != kind) continue;
            if (kind == GONE) *gone = true;
            if (kind != SILENT) missing++;
            if (++named > LINES || at + 2 > capacity) continue;
            if (at) text[at++] = '\n';
            int put = missing_line(list, ranks[i], group, number, since, text + at, capacity - at);
            at = at + (size_t)put < capacity ? at + (size_t)put : capacity - 1;
        }
    }
    if (missing > LINES && at + 40 < capacity)
        snprintf(text + at, capacity - at, "\n  and %d more ranks", missing - LINES);
    return missing;
}
