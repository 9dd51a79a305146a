"""The table of docs/scaling.md: a model of data parallel training on many GPUs. `python bench/scaling.py`; change the
assumptions below and look again."""

import math

# Rates in bytes per second and direction for one GPU, seconds for a round of messages; what of a link's rate a
# collective reaches.
MACHINES = {
    "4 GPUs, 2 NICs of 200 Gbit/s": dict(per_node=4, inside=300e9, between=12.5e9),
    "8 GPUs, 4 NICs of 200 Gbit/s": dict(per_node=8, inside=50e9, between=12.5e9),
    "8 GPUs, 8 NICs of 400 Gbit/s": dict(per_node=8, inside=450e9, between=50e9),
}
ALPHA_INSIDE, ALPHA_BETWEEN, REACHED = 5e-6, 10e-6, 0.8
HIDDEN = 0.86  # of what could be hidden, the least that bench/overlap.sh showed
BUCKET = 25e6  # bytes
# Gradients in bytes, and seconds of a step on one GPU.
MODELS = {
    "ResNet-50, 256 images, bfloat16": dict(gradients=51e6, step=0.0535),
    "GPT-2 124M, 16,384 tokens, bfloat16": dict(gradients=249e6, step=16384 / 402500),
    "the same, 4 steps accumulated": dict(gradients=249e6, step=4 * 16384 / 402500, last=0.25),
}


def talk(machine, bytes_, ranks):
    """Seconds of an all_reduce: within nodes, and between nodes over all NICs at once; halving and doubling, so rounds
    grow with the logarithm."""
    inside = min(ranks, machine["per_node"])
    nodes = ranks // inside
    within = 2 * (inside - 1) / inside * bytes_ / (REACHED * machine["inside"]) + 2 * math.log2(inside) * ALPHA_INSIDE
    across = (
        2 * (nodes - 1) / nodes * bytes_ / inside / (REACHED * machine["between"])
        + 2 * math.ceil(math.log2(nodes)) * ALPHA_BETWEEN
    )
    agreement = math.ceil(math.log2(ranks)) * ALPHA_BETWEEN  # which collective it is, 16 bytes a round
    return within + across + agreement


def efficiency(machine, model, ranks):
    buckets = math.ceil(model["gradients"] / BUCKET)
    all_ = buckets * talk(machine, model["gradients"] / buckets, ranks)
    backward = model["step"] * model.get("last", 1) * 2 / 3
    hidden = HIDDEN * min(all_ * (buckets - 1) / buckets, backward)  # the last bucket has nothing left to hide behind
    return model["step"] / (model["step"] + all_ - hidden), all_


def main():
    ranks = (8, 64, 512, 2048)
    print("| node | model | " + " | ".join(f"{n} GPUs" for n in ranks) + " |\n|---|---|" + "---|" * len(ranks))
    for name, machine in MACHINES.items():
        for what, model in MODELS.items():
            cells = [efficiency(machine, model, n) for n in ranks]
            print(
                f"| {name} | {what} | "
                + " | ".join(f"{100 * share:.0f}% ({seconds * 1e3:.1f} ms)" for share, seconds in cells)
                + " |"
            )


if __name__ == "__main__":
    main()
