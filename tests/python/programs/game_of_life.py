"""Conway's game of life: neighbours by a convolution, on a torus by circular padding."""

import torch
import torch.nn.functional as F

grid = torch.zeros(10, 16)
for r, c in [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2)]:  # a glider
    grid[r, c] = 1
grid[5:8, 10] = 1  # a blinker
kernel = torch.ones(1, 1, 3, 3)
kernel[0, 0, 1, 1] = 0


def step(world):
    padded = F.pad(world[None, None], (1, 1, 1, 1), mode="circular")
    neighbours = F.conv2d(padded, kernel)[0, 0]
    return ((neighbours == 3) | ((world == 1) & (neighbours == 2))).to(world.dtype)


def show(world):
    print("\n".join("".join("#" if cell else "." for cell in row) for row in world.bool().tolist()))


for generation in range(13):
    if generation % 4 == 0:
        print(f"generation {generation}: {int(grid.sum())} cells")
        show(grid)
    grid = step(grid)
print(grid.nonzero().T)
