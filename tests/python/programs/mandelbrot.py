"""The Mandelbrot set in letters: complex tensors, masks and in-place updates."""

import torch

height, width, steps = 21, 45, 40
imag, real = torch.meshgrid(torch.linspace(1.25, -1.25, height), torch.linspace(-2, 0.75, width), indexing="ij")
c = torch.complex(real, imag)
z = torch.zeros_like(c)
count = torch.zeros(c.shape, dtype=torch.int32)
for _ in range(steps):
    inside = z.abs() <= 2
    z = torch.where(inside, z * z + c, z)
    count += inside
letters = " .:-=+*#%@"
level = (count.float() / steps * (len(letters) - 1)).long()
for row in level:
    print("".join(letters[i] for i in row.tolist()).rstrip())
print(c.dtype, count.dtype, int(count.sum()), (count == steps).sum())
