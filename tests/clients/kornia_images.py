"""kornia: filters, colours, geometry, an augmentation and a loss with gradients."""

import kornia
import torch
from show import show

torch.manual_seed(0)
image = torch.rand(2, 3, 16, 16, requires_grad=True)
blurred = kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0))
edges = kornia.filters.sobel(blurred)
turned = kornia.geometry.transform.rotate(image, torch.tensor([30.0, -10.0]))
loss = kornia.losses.ssim_loss(turned, image.detach(), window_size=5) + edges.mean()
loss.backward()
augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomHorizontalFlip(p=1.0), kornia.augmentation.Normalize(0.5, 0.25)
)
show(
    loss=loss,
    gradient=image.grad[0, 0, 0],
    hsv=kornia.color.rgb_to_hsv(image.detach())[0, :, 0, 0],
    gray=kornia.color.rgb_to_grayscale(image.detach())[0, 0, 0],
    augmented=augment(image.detach())[0, 0, 0],
    harris=kornia.feature.harris_response(image.detach()[:, :1])[0, 0, 0],
    homography=kornia.geometry.transform.get_perspective_transform(
        torch.tensor([[[0.0, 0], [4, 0], [4, 4], [0, 4]]]), torch.tensor([[[1.0, 0], [5, 1], [4, 5], [0, 4]]])
    ),
)
