"""A training that keeps its state every five steps, and is killed at the step that is given."""

import os
import pickle
import signal
import sys
import taper as torch
from taper.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return i, torch.rand(1).item()


path, stop = sys.argv[1], int(sys.argv[2])
torch.manual_seed(5)
loader = DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=2)
steps, seen, first = 0, [], 0
if os.path.exists(path):
    state, numbers, steps, seen, first = pickle.load(open(path, "rb"))
    loader.load_state_dict(state)
    torch.set_rng_state(numbers)
for epoch in range(first, 3):
    for i, x in loader:
        seen.append((i.tolist(), x.tolist(), torch.rand(1).item()))
        steps += 1
        if steps % 5 == 0:
            with open(path + ".new", "wb") as file:
                pickle.dump((loader.state_dict(), torch.get_rng_state(), steps, seen, epoch), file)
            os.rename(path + ".new", path)
        if steps == stop:
            os.kill(os.getpid(), signal.SIGKILL)
print(seen)
