"""The README's training loops, as they stand there: C and Python begin with the same numbers, see the same batches and
end with the same weights."""

import os
import re
import subprocess
import sys

SOURCE = os.environ.get("TAPER_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("TAPER_BUILD_DIR", os.path.join(SOURCE, "build"))

C = """
#include <stdio.h>
#include <taper/taper.h>
int main(void) {
    tp_manual_seed(0);
    tp_tensor *images = tp_randn(TP_INTS(64, 784)), *labels = tp_randint(10, TP_INTS(64));
    tp_loader *loader = tp_loader_new(tp_dataset_of_tensors(TP_LIST(images, labels)), .batch = 16, .shuffle = true);
    %s
    return tp_error() != NULL;
}
"""
PYTHON = """
import torch
torch.manual_seed(0)
images, labels = torch.randn(64, 784), torch.randint(10, (64,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=16, shuffle=True)
%s
"""


def code(language):
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        return re.search(rf"```{language}\n(.*?)```", file.read(), re.S).group(1)


def test_both_loops_give_the_same_weights(tmp_path):
    (tmp_path / "train.c").write_text(C % code("c"))
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-std=gnu11",
            "-Wall",
            "-Werror",
            f"-I{SOURCE}/include",
            f"-I{BUILD}/generated/include",
            "train.c",
            "-o",
            "train",
            f"-L{BUILD}",
            "-ltaper",
            f"-Wl,-rpath,{BUILD}",
        ],
        cwd=tmp_path,
        check=True,
    )
    subprocess.run(["./train"], cwd=tmp_path, check=True)
    os.rename(tmp_path / "net.pt", tmp_path / "c.pt")
    (tmp_path / "train.py").write_text(PYTHON % code("python"))
    subprocess.run([sys.executable, "-m", "taper", "run", "train.py"], cwd=tmp_path, check=True)
    import taper

    ours, theirs = taper.load(tmp_path / "net.pt"), taper.load(tmp_path / "c.pt")
    assert list(ours) == list(theirs) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for name, tensor in ours.items():
        assert tensor.equal(theirs[name]), name
