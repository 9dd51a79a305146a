"""The transforms' arithmetic on tensors of shape (..., C, H, W), integers from 0 to the dtype's largest, floating ones
from 0 to 1."""

import taper as torch
from taper.nn import functional as nnf


def _checked(img):
    if img.ndim < 2:
        raise TypeError("Tensor is not a torch image.")
    return img


def _assert_channels(img, permitted=(1, 3)):
    channels, permitted = get_dimensions(img)[0], list(permitted)
    if channels not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {permitted}, but found {channels}")


def get_dimensions(img):
    return ([1, *_checked(img).shape])[-3:]


def get_image_size(img):
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img):
    return get_dimensions(img)[0]


def _max_value(dtype):
    return 1 if dtype.is_floating_point or dtype == torch.bool else torch.iinfo(dtype).max


_FLOATING = torch.float16, torch.bfloat16, torch.float32, torch.float64
_UNSAFE = {
    torch.float32: (torch.int32, torch.int64),
    torch.float64: (torch.int64,),
}  # floats too coarse for the largest of these


def convert_image_dtype(image, dtype=torch.float32):
    if dtype in (image.dtype, *_FLOATING) and image.dtype in (dtype, *_FLOATING):
        return image.to(dtype)
    top, new_top = _max_value(image.dtype), _max_value(dtype)
    if image.is_floating_point():
        if dtype in _UNSAFE.get(image.dtype, ()):
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        return image.mul(new_top + 1.0 - 1e-3).to(dtype)  # the margin keeps 1.0 from becoming one more than the largest
    if dtype.is_floating_point:
        return image.to(dtype) / top
    if top > new_top:
        return torch.div(image, (top + 1) // (new_top + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((new_top + 1) // (top + 1))


def hflip(img):
    return torch.flip(_checked(img), [-1])


def vflip(img):
    return torch.flip(_checked(img), [-2])


def crop(img, top, left, height, width):
    h, w = _checked(img).shape[-2:]
    right, bottom = left + width, top + height
    outside = [
        max(-left + min(0, right), 0),
        max(-top + min(0, bottom), 0),
        max(right - max(w, left), 0),
        max(bottom - max(h, top), 0),
    ]
    inside = img[..., max(top, 0) : bottom, max(left, 0) : right]
    return pad(inside, outside) if any(outside) else inside


def rgb_to_grayscale(img, num_output_channels=1):
    _assert_dimensions(img)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.clone()
    if img.shape[-3] != 1:
        red, green, blue = (img.select(-3, c) for c in range(3))
        gray = (0.2989 * red + 0.587 * green + 0.114 * blue).to(img.dtype).unsqueeze(-3)
    return gray if num_output_channels == 1 else gray.expand(img.shape)


def _blend(img1, img2, ratio):
    share = float(ratio)
    return (share * img1 + (1.0 - share) * img2).clamp(0, _max_value(img1.dtype)).to(img1.dtype)


def _not_negative(factor, name):
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img, brightness_factor):
    _not_negative(brightness_factor, "brightness_factor")
    _assert_channels(img)
    return _blend(img, torch.zeros_like(img), brightness_factor)


def adjust_contrast(img, contrast_factor):
    _not_negative(contrast_factor, "contrast_factor")
    _assert_channels(img, (3, 1))
    gray = rgb_to_grayscale(img) if img.shape[-3] == 3 else img
    return _blend(img, gray.to(_floating(img)).mean(dim=(-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img, saturation_factor):
    _not_negative(saturation_factor, "saturation_factor")
    _assert_channels(img)
    return img if img.shape[-3] == 1 else _blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img, hue_factor):
    if abs(hue_factor) > 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    _assert_channels(img)
    if img.shape[-3] == 1:
        return img
    hue, saturation, value = _rgb2hsv(convert_image_dtype(img, torch.float32))
    return convert_image_dtype(_hsv2rgb((hue + hue_factor) % 1.0, saturation, value), img.dtype)


def adjust_gamma(img, gamma, gain=1):
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    _assert_channels(img)
    result = img if img.is_floating_point() else convert_image_dtype(img, torch.float32)
    return convert_image_dtype((gain * result**gamma).clamp(0, 1), img.dtype)


def _rgb2hsv(img):
    """Hue, saturation and value, each without the channels' dimension."""
    r, g, b = img.unbind(-3)
    top, low = img.max(dim=-3).values, img.min(dim=-3).values
    same, span = top == low, top - low
    ones = torch.ones_like(top)
    s = span / torch.where(same, ones, top)
    divisor = torch.where(same, ones, span)
    rc, gc, bc = (top - r) / divisor, (top - g) / divisor, (top - b) / divisor
    hr = (top == r) * (bc - gc)
    hg = ((top == g) & (top != r)) * (2.0 + rc - bc)
    hb = ((top != g) & (top != r)) * (4.0 + gc - rc)
    return torch.fmod((hr + hg + hb) / 6.0 + 1.0, 1.0), s, top


def _hsv2rgb(h, s, v):
    sector = torch.floor(h * 6.0)
    f = h * 6.0 - sector
    sector = sector.to(torch.int32) % 6
    p, q, t = (v * (1.0 - s)).clamp(0, 1), (v * (1.0 - s * f)).clamp(0, 1), (v * (1.0 - s * (1.0 - f))).clamp(0, 1)
    colours = [(v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q)]
    rgb = [torch.stack(channel, dim=-3) for channel in zip(*colours)]
    chosen = sector.unsqueeze(-3).to(torch.int64)
    return torch.cat([channel.gather(-3, chosen) for channel in rgb], dim=-3)


def _on_batch(img, dtypes, work):
    """What `work` makes of images with a batch dimension and one of these dtypes, in the image's own shape and
    dtype."""
    batch, fits = img if img.ndim >= 4 else img.unsqueeze(0), img.dtype in dtypes
    out = work(batch if fits else batch.to(dtypes[0]))
    if img.ndim < 4:
        out = out.squeeze(0)
    return out if fits else (out if img.is_floating_point() else out.round()).to(img.dtype)


def resize(img, size, interpolation="bilinear", antialias=True):
    smooth = interpolation in ("bilinear", "bicubic")

    def work(batch):
        out = nnf.interpolate(
            batch,
            size=list(size) if isinstance(size, tuple) else size,
            mode=interpolation,
            align_corners=False if smooth else None,
            antialias=bool(antialias) and smooth,
        )
        overshot = interpolation == "bicubic" and img.dtype == torch.uint8
        return out.clamp(0, 255) if overshot else out

    return _on_batch(_checked(img), [torch.float32, torch.float64], work)


def _padding_sides(padding):
    """left, right, top, bottom"""
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = sides * (4 // len(sides))
    return [left, right, top, bottom]


def _mirrored(n, before, after):
    """The positions of a line of n that is continued by its mirror image, the edges repeated; negative numbers cut."""
    line = range(max(-before, 0), n - max(-after, 0))
    before, after = max(before, 0), max(after, 0)
    return torch.tensor([*reversed(line[:before]), *line, *reversed(line[len(line) - after :])])


def pad(img, padding, fill=0, padding_mode="constant"):
    _checked(img)
    fill = 0 if fill is None else fill
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (int, float)):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if not isinstance(padding, int) and len(padding) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    sides = _padding_sides(padding)
    if padding_mode == "symmetric":
        h, w = img.shape[-2:]
        rows, columns = _mirrored(h, sides[2], sides[3]), _mirrored(w, sides[0], sides[1])
        return img[..., rows[:, None], columns[None, :]]
    if padding_mode == "constant":
        return _on_batch(img, [img.dtype], lambda batch: nnf.pad(batch, sides, value=float(fill)))
    mode = {"edge": "replicate", "reflect": "reflect"}[padding_mode]
    return _on_batch(img, [torch.float32, torch.float64], lambda batch: nnf.pad(batch, sides, mode=mode))


# ---- Turning and bending: a grid says where each pixel of the result comes from ----
def _apply_grid_transform(img, grid, mode, fill):
    def sampled(batch):
        return nnf.grid_sample(
            batch, grid.expand(len(batch), -1, -1, -1), mode=mode, padding_mode="zeros", align_corners=False
        )

    def filled(batch):
        """A last channel of ones tells how much of a pixel comes from within."""
        out = sampled(torch.cat((batch, torch.ones_like(batch[:, :1])), dim=1))
        out, inside = out[:, :-1], out[:, -1:].expand_as(out[:, :-1])
        colour = fill if isinstance(fill, (tuple, list)) else [float(fill)]
        background = torch.tensor(colour, dtype=out.dtype).view(1, len(colour), 1, 1).expand_as(out)
        return (
            torch.where(inside < 0.5, background, out)
            if mode == "nearest"
            else out * inside + (1.0 - inside) * background
        )

    return _on_batch(img, [grid.dtype], sampled if fill is None else filled)


def _assert_grid_transform_inputs(img, interpolation, modes, fill):
    if not isinstance(img, torch.Tensor):
        raise TypeError("Input img should be Tensor")
    channels = get_dimensions(img)[0]
    if isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != channels:
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
            f"({len(fill)} != {channels})"
        )
    if interpolation not in modes:
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def _mapped(x, y, matrix):
    """The points (x, y, 1) times a matrix (3, 2), one product and sum after the other: a pixel between two is then
    torchvision's choice."""
    x, y = x.view(1, 1, -1), y.view(1, -1, 1)
    return torch.stack([x * matrix[0, k] + y * matrix[1, k] + matrix[2, k] for k in (0, 1)], dim=-1)


def _centred(n, dtype):
    return torch.linspace(-n * 0.5 + 0.5, n * 0.5 + 0.5 - 1, steps=n).to(dtype)


def _gen_affine_grid(theta, w, h, ow, oh):
    scaled = theta[0].T / torch.tensor([0.5 * w, 0.5 * h], dtype=theta.dtype)
    return _mapped(_centred(ow, theta.dtype), _centred(oh, theta.dtype), scaled)


def _floating(img):
    return img.dtype if img.is_floating_point() else torch.float32


def affine(img, matrix, interpolation="nearest", fill=None):
    _assert_grid_transform_inputs(img, interpolation, ["nearest", "bilinear"], fill)
    theta = torch.tensor(matrix, dtype=_floating(img)).reshape(1, 2, 3)
    h, w = img.shape[-2:]
    return _apply_grid_transform(img, _gen_affine_grid(theta, w=w, h=h, ow=w, oh=h), interpolation, fill=fill)


def _compute_affine_output_size(matrix, w, h):
    corners = torch.tensor(
        [[-0.5 * w, -0.5 * h, 1.0], [-0.5 * w, 0.5 * h, 1.0], [0.5 * w, 0.5 * h, 1.0], [0.5 * w, -0.5 * h, 1.0]]
    )
    points = corners @ torch.tensor(matrix, dtype=torch.float32).view(2, 3).T
    low = points.min(dim=0).values + torch.tensor((w * 0.5, h * 0.5))
    top = points.max(dim=0).values + torch.tensor((w * 0.5, h * 0.5))
    tolerance = 1e-4  # so that 5.00001 does not become 6
    size = torch.ceil((top / tolerance).trunc_() * tolerance) - torch.floor((low / tolerance).trunc_() * tolerance)
    return tuple(map(int, size))


def rotate(img, matrix, interpolation="nearest", expand=False, fill=None):
    _assert_grid_transform_inputs(img, interpolation, ["nearest", "bilinear"], fill)
    h, w = img.shape[-2:]
    ow, oh = _compute_affine_output_size(matrix, w, h) if expand else (w, h)
    theta = torch.tensor(matrix, dtype=_floating(img)).reshape(1, 2, 3)
    return _apply_grid_transform(img, _gen_affine_grid(theta, w=w, h=h, ow=ow, oh=oh), interpolation, fill=fill)


def _perspective_grid(coeffs, ow, oh, dtype):
    a, b, c, d, e, f, g, h = coeffs
    x, y = (torch.linspace(0.5, n + 0.5 - 1.0, steps=n).to(dtype) for n in (ow, oh))
    over = torch.tensor([[a, d], [b, e], [c, f]], dtype=dtype) / torch.tensor([0.5 * ow, 0.5 * oh], dtype=dtype)
    return _mapped(x, y, over) / _mapped(x, y, torch.tensor([[g, g], [h, h], [1.0, 1.0]], dtype=dtype)) - 1.0


def perspective(img, perspective_coeffs, interpolation="bilinear", fill=None):
    _assert_grid_transform_inputs(img, interpolation, ["nearest", "bilinear"], fill)
    h, w = img.shape[-2:]
    return _apply_grid_transform(
        img, _perspective_grid(perspective_coeffs, ow=w, oh=h, dtype=_floating(img)), interpolation, fill=fill
    )


def _create_identity_grid(size):
    axes = [torch.linspace((-s + 1) / s, (s - 1) / s, s) for s in size]
    y, x = torch.meshgrid(axes, indexing="ij")
    return torch.stack([x, y], -1).unsqueeze(0)


def elastic_transform(img, displacement, interpolation="bilinear", fill=None):
    if not isinstance(img, torch.Tensor):
        raise TypeError(f"img should be Tensor. Got {type(img)}")
    grid = _create_identity_grid(list(img.shape[-2:])) + displacement
    return _apply_grid_transform(img, grid, interpolation, fill)


# ---- Blurring and sharpening ----
def _get_gaussian_kernel1d(kernel_size, sigma, dtype=torch.float32):
    half = (kernel_size - 1) * 0.5
    x = torch.linspace(-half, half, steps=kernel_size, dtype=dtype)
    density = (-0.5 * (x / sigma).pow(2)).exp()
    return density / density.sum()


def _get_gaussian_kernel2d(kernel_size, sigma, dtype=torch.float32):
    kx, ky = (_get_gaussian_kernel1d(kernel_size[i], sigma[i], dtype) for i in (0, 1))
    return torch.mm(ky[:, None], kx[None, :])


def _each_channel(batch, kernel, channels):
    """Every channel filtered by the same kernel."""
    return nnf.conv2d(batch, kernel.expand(channels, 1, *kernel.shape), groups=channels)


def gaussian_blur(img, kernel_size, sigma):
    dtype, channels = _floating(_checked(img)), img.shape[-3]
    kernel = _get_gaussian_kernel2d(kernel_size, sigma, dtype)
    sides = [size // 2 for size in kernel_size for _ in (0, 1)]
    return _on_batch(img, [dtype], lambda batch: _each_channel(nnf.pad(batch, sides, mode="reflect"), kernel, channels))


def _softened(img):
    """Each pixel, but those of the border, as the mean of its neighbours and five times itself."""
    dtype = _floating(img)
    kernel = torch.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], dtype=dtype) / 13.0
    soft = img.clone()
    soft[..., 1:-1, 1:-1] = _on_batch(img, [dtype], lambda batch: _each_channel(batch, kernel, batch.shape[-3]))
    return soft


def adjust_sharpness(img, sharpness_factor):
    _not_negative(sharpness_factor, "sharpness_factor")
    _assert_channels(img)
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    return _blend(img, _softened(img), sharpness_factor)


# ---- Levels ----
def _assert_dimensions(img):
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    _assert_channels(img)


def invert(img):
    _assert_dimensions(img)
    return _max_value(img.dtype) - img


def posterize(img, bits):
    _assert_dimensions(img)
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    return img & (256 - int(2 ** (8 - bits)))


def solarize(img, threshold):
    _assert_dimensions(img)
    if threshold > _max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return torch.where(img >= threshold, invert(img), img)


def autocontrast(img):
    _assert_dimensions(img)
    bound, dtype = _max_value(img.dtype), _floating(img)
    low, top = img.amin(dim=(-2, -1), keepdim=True).to(dtype), img.amax(dim=(-2, -1), keepdim=True).to(dtype)
    scale = bound / (top - low)
    flat = torch.isfinite(scale).logical_not()
    low = torch.where(flat, torch.zeros_like(low), low)
    scale = torch.where(flat, torch.ones_like(scale), scale)
    return ((img - low) * scale).clamp(0, bound).to(img.dtype)


def _equalized(channel):
    histogram = torch.bincount(channel.reshape(-1).to(torch.int64), minlength=256)
    filled = histogram[histogram != 0]
    step = int(filled[:-1].sum()) // 255
    if step == 0:
        return channel
    table = torch.div(torch.cumsum(histogram, 0) + step // 2, step, rounding_mode="floor")
    table = nnf.pad(table, [1, 0])[:-1].clamp(0, 255)
    return table[channel.to(torch.int64)].to(torch.uint8)


def equalize(img):
    _assert_dimensions(img)
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    planes = [_equalized(plane) for plane in img.reshape(-1, *img.shape[-2:])]
    return torch.stack(planes).reshape(img.shape)


def normalize(tensor, mean, std, inplace=False):
    if not _checked(tensor).is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim <= 2:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}"
        )
    mean, std = (torch.as_tensor(values, dtype=tensor.dtype) for values in (mean, std))
    if not std.all():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    mean, std = (values[:, None, None] if values.ndim == 1 else values for values in (mean, std))
    return (tensor if inplace else tensor.clone()).sub_(mean).div_(std)


def erase(img, i, j, h, w, v, inplace=False):
    out = _checked(img) if inplace else _checked(img).clone()
    out[..., i : i + h, j : j + w] = v
    return out
