/* Rows of a matrix of 10 by 4, cut over the ranks, and a step: element (i, j) is (10 i + j) times SCALE, the step is
 * SCALE.
 *
 *     program save|load FOLDER SCALE
 *
 * load checks what it finds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>

int main(int n, char **arguments) {
    bool save = n > 3 && strcmp(arguments[1], "save") == 0;
    double scale = n > 3 ? atof(arguments[3]) : 0;
    if (n < 4 || !tp_dist_init(.backend = "gloo")) {
        fprintf(stderr, "%s\n", tp_error());
        return 1;
    }
    int64_t rank = tp_group_rank(NULL), size = tp_group_size(NULL), from = 10 * rank / size,
            count = 10 * (rank + 1) / size - from;
    tp_tensor *rows = tp_own(tp_zeros(TP_INTS(count, 4))), *step = tp_own(tp_zeros(TP_INTS(), .dtype = TP_INT64));
    tp_shard shards[] = {{"model.weight", rows, TP_INTS(10, 4), TP_INTS(from, 0)}, {.name = "step", .part = step}};
    float *values = tp_data(rows);
    for (int64_t i = 0; save && i < 4 * count; i++) values[i] = (float)(scale * (double)(10 * (from + i / 4) + i % 4));
    if (save) *(int64_t *)tp_data(step) = (int64_t)scale;
    bool ok =
        save ? tp_checkpoint_save(arguments[2], NULL, 2, shards) : tp_checkpoint_load(arguments[2], NULL, 2, shards);
    if (!ok) fprintf(stderr, "%s\n", tp_error());
    for (int64_t i = 0; !save && i < 4 * count; i++)
        ok = ok && values[i] == (float)(scale * (double)(10 * (from + i / 4) + i % 4));
    ok = ok && *(int64_t *)tp_data(step) == (int64_t)scale;
    tp_release(rows);
    tp_release(step);
    tp_dist_end();
    return ok ? 0 : 1;
}
