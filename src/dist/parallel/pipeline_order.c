/* Orders of forwards and backwards. With one stage on a rank 1F1B runs as many forwards first as there are stages
 * behind it, then a forward and a backward by turns. With several, parts go in rounds of as many as there are ranks,
 * each round through all of a rank's stages. Numbers that do not go into rounds could leave ranks waiting for each
 * other: the orders of all ranks are tried against each other, and if they do not come to an end all run all forwards
 * first. */
#include "dist/parallel/pipeline.h"
#include "base/memory.h"
#include <string.h>

/* All forwards, stage by stage, then all backwards. */
static void forwards_first(tpi_pipeline_step *order, int64_t each, int64_t parts) {
    for (int64_t s = 0; s < each; s++)
        for (int64_t p = 0; p < parts; p++) *order++ = (tpi_pipeline_step){false, s, p};
    for (int64_t s = each - 1; s >= 0; s--)
        for (int64_t p = 0; p < parts; p++) *order++ = (tpi_pipeline_step){true, s, p};
}

/* The k-th forward (or backward) of a rank: rounds of `ranks` parts, each through all stages. */
static tpi_pipeline_step in_rounds(bool backward, int64_t k, int64_t ranks, int64_t each, int64_t parts) {
    const int64_t round = k / (ranks * each), first = round * ranks;
    const int64_t wide = parts - first < ranks ? parts - first : ranks;
    const int64_t within = k - first * each, stage = within / wide;
    return (tpi_pipeline_step){backward, backward ? each - 1 - stage : stage, first + within % wide};
}

static void alternating(tpi_pipeline_step *order, int64_t rank, int64_t ranks, int64_t each, int64_t parts) {
    const int64_t all = each * parts;
    const int64_t wanted = each == 1 ? ranks - rank - 1 : (each - 1) * ranks + 2 * (ranks - rank - 1);
    const int64_t warm = wanted < all ? wanted : all;
    int64_t n = 0;
    for (int64_t k = 0; k < warm; k++) order[n++] = in_rounds(false, k, ranks, each, parts);
    for (int64_t k = 0; k < all; k++) {
        if (warm + k < all) order[n++] = in_rounds(false, warm + k, ranks, each, parts);
        order[n++] = in_rounds(true, k, ranks, each, parts);
    }
}

/* May the turn be taken, given what all stages have done? done: (2, stages, parts) */
static bool ready(const bool *done, tpi_pipeline_step t, int64_t stage, int64_t stages, int64_t parts) {
    if (!t.backward) return !stage || done[(stage - 1) * parts + t.part];
    if (stage == stages - 1) return done[stage * parts + t.part];
    return done[(stages + stage + 1) * parts + t.part];
}

/* Does everybody get what it waits for? orders: those of all ranks, one after the other. */
static bool comes_to_an_end(const tpi_pipeline_step *orders, int64_t ranks, int64_t each, int64_t parts, bool *done,
                            int64_t *at) {
    const int64_t nsteps = 2 * each * parts, stages = ranks * each;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int64_t r = 0; r < ranks; r++)
            for (; at[r] < nsteps; at[r]++) {
                const tpi_pipeline_step t = orders[r * nsteps + at[r]];
                const int64_t stage = t.stage * ranks + r;
                if (!ready(done, t, stage, stages, parts)) break;
                done[((t.backward ? stages : 0) + stage) * parts + t.part] = true;
                moved = true;
            }
    }
    for (int64_t r = 0; r < ranks; r++)
        if (at[r] < nsteps) return false;
    return true;
}

tpi_pipeline_step *tpi_pipeline_order(tp_pipeline_schedule schedule, int64_t rank, int64_t ranks, int64_t each,
                                      int64_t parts) {
    const int64_t nsteps = 2 * each * parts;
    const size_t marks = (size_t)(nsteps * ranks);
    tpi_pipeline_step *orders = tpi_malloc(sizeof *orders * marks), *own = tpi_malloc(sizeof *own * (size_t)nsteps);
    bool *done = tpi_malloc(marks);
    int64_t *at = tpi_malloc(sizeof *at * (size_t)ranks);
    const bool made = orders && own && done && at;
    if (made) {
        memset(done, 0, marks);
        memset(at, 0, sizeof *at * (size_t)ranks);
        for (int64_t r = 0; r < ranks; r++) alternating(orders + r * nsteps, r, ranks, each, parts);
        if (schedule == TP_PIPELINE_1F1B && comes_to_an_end(orders, ranks, each, parts, done, at))
            memcpy(own, orders + rank * nsteps, sizeof *own * (size_t)nsteps);
        else
            forwards_first(own, each, parts);
    }
    tpi_mfree(orders);
    tpi_mfree(done);
    tpi_mfree(at);
    if (made) return own;
    tpi_mfree(own);
    return NULL;
}
