"""datasets: columns in torch's format, mapped, filtered and shuffled, on disk and back, streamed, through a DataLoader
with workers."""

import tempfile

import datasets
import torch
from show import show

datasets.disable_progress_bars()
datasets.disable_caching()


def longer(row):
    return {"length": row["x"].sum() + row["label"]}


def rows():
    for i in range(6):
        yield {"x": [float(i), float(i * i)], "label": i % 3}


def main():
    torch.manual_seed(0)
    data = datasets.Dataset.from_dict(
        {"x": torch.randn(12, 4).tolist(), "label": [i % 3 for i in range(12)]}
    ).with_format("torch")
    mapped = data.map(longer)
    batched = data.map(lambda rows: {"double": rows["x"] * 2}, batched=True, batch_size=5)
    kept = mapped.filter(lambda row: row["label"] > 0).shuffle(seed=1)
    parts = mapped.train_test_split(test_size=0.25, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        mapped.save_to_disk(folder)
        again = datasets.load_from_disk(folder).with_format("torch")[:]["length"]
    loader = torch.utils.data.DataLoader(kept, batch_size=4, num_workers=2)
    seen = torch.cat([batch["length"] for batch in loader])
    stream = (
        datasets.IterableDataset.from_generator(rows).with_format("torch").map(longer).shuffle(seed=3, buffer_size=3)
    )
    streamed = [row["length"].item() for row in torch.utils.data.DataLoader(stream, batch_size=None)]
    show(
        first=data[0]["x"],
        column=data[:3]["label"],
        length=mapped[:]["length"],
        double=batched[2]["double"],
        again=again,
        seen=seen,
        test=parts["test"][:]["label"],
        streamed=streamed,
        whole=data[0]["x"].dtype == torch.float32 and data[0]["label"].dtype == torch.int64,
    )


if __name__ == "__main__":
    main()
