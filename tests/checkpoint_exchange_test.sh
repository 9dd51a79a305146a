#!/usr/bin/env bash
# Sharded checkpoints go from C to Python and back: what four ranks of a C program saved, one, two and three ranks of Python load, and the other way round.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export PYTHONPATH=$TAPER_BUILD_DIR/python OMP_NUM_THREADS=1

# Both programs hold rows of a matrix of 10 by 4, cut over the ranks; element (i, j) is 10 i + j, in `save SCALE` times a scale. `load SCALE` checks.
cat > program.c << 'END_OF_C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
int main(int n, char **arguments) {
    bool save = n > 3 && strcmp(arguments[1], "save") == 0;
    double scale = n > 3 ? atof(arguments[3]) : 0;
    if (n < 4 || !tp_dist_init(.backend = "gloo")) return fprintf(stderr, "%s\n", tp_error()), 1;
    int64_t rank = tp_group_rank(NULL), size = tp_group_size(NULL), from = 10 * rank / size, count = 10 * (rank + 1) / size - from;
    tp_tensor *rows = tp_own(tp_zeros(TP_INTS(count, 4))), *step = tp_own(tp_zeros(TP_INTS(), .dtype = TP_INT64));
    tp_shard shards[] = {{"model.weight", rows, TP_INTS(10, 4), TP_INTS(from, 0)}, {.name = "step", .part = step}};
    float *values = tp_data(rows);
    bool ok = true;
    for (int64_t i = 0; save && i < 4 * count; i++) values[i] = (float)(scale * (double)(10 * (from + i / 4) + i % 4));
    if (save) *(int64_t *)tp_data(step) = (int64_t)scale;
    ok = save ? tp_checkpoint_save(arguments[2], NULL, 2, shards) : tp_checkpoint_load(arguments[2], NULL, 2, shards);
    if (!ok) fprintf(stderr, "%s\n", tp_error());
    for (int64_t i = 0; !save && i < 4 * count; i++) ok = ok && values[i] == (float)(scale * (double)(10 * (from + i / 4) + i % 4));
    ok = ok && *(int64_t *)tp_data(step) == (int64_t)scale;
    tp_release(rows);
    tp_release(step);
    tp_dist_end();
    return ok ? 0 : 1;
}
END_OF_C
cat > program.py << 'END_OF_PYTHON'
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
what, folder, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
dist.init_process_group("gloo")
whole = (10 * torch.arange(10.)[:, None] + torch.arange(4.)) * scale
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
state = {"model": {"weight": distribute_tensor(whole if what == "save" else torch.zeros(10, 4), mesh, [Shard(0)])}, "step": int(scale) if what == "save" else 0}
if what == "save":
    dcp.save(state, checkpoint_id=folder)
else:
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["model"]["weight"].full_tensor(), whole) and state["step"] == scale, state
dist.destroy_process_group()
END_OF_PYTHON
"${CC:-cc}" -O1 -Wall -Wextra -Werror -I"$TAPER_SOURCE_DIR/include" -I"$TAPER_BUILD_DIR/generated/include" program.c -L"$TAPER_BUILD_DIR" -ltaper -Wl,-rpath,"$TAPER_BUILD_DIR" -o program
launch() { "${python:-python3}" -m taper launch --nproc "$@"; }
launch 4 --no-python ./program save from-c 2
launch 4 program.py save from-python 3
for n in 1 2 3; do
    launch $n program.py load from-c 2
    launch $n --no-python ./program load from-python 3
done
echo "checkpoints of four ranks went from C to Python and back, on one, two and three"
