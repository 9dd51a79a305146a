"""The transforms' arithmetic on tensors of shape (..., C, H, W), integers from 0 to the dtype's largest, floating ones from 0 to 1."""
import taper as torch
from taper.nn import functional as nnf


def _is_tensor_a_torch_image(x):
    return x.ndim >= 2


def _assert_image_tensor(img):
    if not _is_tensor_a_torch_image(img):
        raise TypeError("Tensor is not a torch image.")


def _assert_channels(img, permitted):
    channels = get_dimensions(img)[0]
    if channels not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {permitted}, but found {channels}")


def get_dimensions(img):
    _assert_image_tensor(img)
    return [1 if img.ndim == 2 else img.shape[-3], *img.shape[-2:]]


def get_image_size(img):
    _assert_image_tensor(img)
    return [img.shape[-1], img.shape[-2]]


def get_image_num_channels(img):
    return get_dimensions(img)[0]


def _max_value(dtype):
    return 1 if dtype.is_floating_point or dtype == torch.bool else torch.iinfo(dtype).max


def convert_image_dtype(image, dtype=torch.float32):
    if image.dtype == dtype:
        return image
    top, new_top = _max_value(image.dtype), _max_value(dtype)
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        if (image.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (image.dtype == torch.float64 and dtype == torch.int64):
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        return image.mul(new_top + 1.0 - 1e-3).to(dtype)  # the margin keeps 1.0 from becoming one more than the largest
    if dtype.is_floating_point:
        return image.to(dtype) / top
    if top > new_top:
        return torch.div(image, (top + 1) // (new_top + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((new_top + 1) // (top + 1))


def hflip(img):
    _assert_image_tensor(img)
    return img.flip(-1)


def vflip(img):
    _assert_image_tensor(img)
    return img.flip(-2)


def crop(img, top, left, height, width):
    _assert_image_tensor(img)
    h, w = img.shape[-2:]
    right, bottom = left + width, top + height
    outside = [max(-left + min(0, right), 0), max(-top + min(0, bottom), 0), max(right - max(w, left), 0), max(bottom - max(h, top), 0)]
    inside = img[..., max(top, 0):bottom, max(left, 0):right]
    return pad(inside, outside) if any(outside) else inside


def rgb_to_grayscale(img, num_output_channels=1):
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    _assert_channels(img, [1, 3])
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if img.shape[-3] == 3:
        r, g, b = img.unbind(dim=-3)
        img_gray = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(dim=-3)
    else:
        img_gray = img.clone()
    return img_gray.expand(img.shape) if num_output_channels == 3 else img_gray


def _blend(img1, img2, ratio):
    ratio = float(ratio)
    return (ratio * img1 + (1.0 - ratio) * img2).clamp(0, _max_value(img1.dtype)).to(img1.dtype)


def _not_negative(factor, name):
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img, brightness_factor):
    _not_negative(brightness_factor, "brightness_factor")
    _assert_channels(img, [1, 3])
    return _blend(img, torch.zeros_like(img), brightness_factor)


def adjust_contrast(img, contrast_factor):
    _not_negative(contrast_factor, "contrast_factor")
    _assert_channels(img, [3, 1])
    dtype = img.dtype if img.is_floating_point() else torch.float32
    gray = rgb_to_grayscale(img) if img.shape[-3] == 3 else img
    return _blend(img, gray.to(dtype).mean(dim=(-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img, saturation_factor):
    _not_negative(saturation_factor, "saturation_factor")
    _assert_channels(img, [1, 3])
    return img if img.shape[-3] == 1 else _blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img, hue_factor):
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    _assert_image_tensor(img)
    _assert_channels(img, [1, 3])
    if img.shape[-3] == 1:
        return img
    h, s, v = _rgb2hsv(convert_image_dtype(img, torch.float32)).unbind(dim=-3)
    return convert_image_dtype(_hsv2rgb(torch.stack(((h + hue_factor) % 1.0, s, v), dim=-3)), img.dtype)


def adjust_gamma(img, gamma, gain=1):
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    _assert_channels(img, [1, 3])
    result = img if img.is_floating_point() else convert_image_dtype(img, torch.float32)
    return convert_image_dtype((gain * result ** gamma).clamp(0, 1), img.dtype)


def _rgb2hsv(img):
    r, g, b = img.unbind(dim=-3)
    top, low = img.max(dim=-3).values, img.min(dim=-3).values
    same, span = top == low, top - low
    ones = torch.ones_like(top)
    s = span / torch.where(same, ones, top)
    divisor = torch.where(same, ones, span)
    rc, gc, bc = (top - r) / divisor, (top - g) / divisor, (top - b) / divisor
    hr = (top == r) * (bc - gc)
    hg = ((top == g) & (top != r)) * (2.0 + rc - bc)
    hb = ((top != g) & (top != r)) * (4.0 + gc - rc)
    return torch.stack((torch.fmod((hr + hg + hb) / 6.0 + 1.0, 1.0), s, top), dim=-3)


def _hsv2rgb(img):
    h, s, v = img.unbind(dim=-3)
    sector = torch.floor(h * 6.0)
    f = h * 6.0 - sector
    sector = sector.to(torch.int32) % 6
    p, q, t = (v * (1.0 - s)).clamp(0, 1), (v * (1.0 - s * f)).clamp(0, 1), (v * (1.0 - s * (1.0 - f))).clamp(0, 1)
    colours = [(v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q)]
    rgb = [torch.stack(channel, dim=-3) for channel in zip(*colours)]
    chosen = sector.unsqueeze(-3).to(torch.int64)
    return torch.cat([channel.gather(-3, chosen) for channel in rgb], dim=-3)


# ---- Casts around operators that want floating images with a batch dimension ----
def _cast_squeeze_in(img, dtypes):
    need_squeeze = img.ndim < 4
    if need_squeeze:
        img = img.unsqueeze(dim=0)
    out_dtype = img.dtype
    need_cast = out_dtype not in dtypes
    return (img.to(dtypes[0]) if need_cast else img), need_cast, need_squeeze, out_dtype


def _cast_squeeze_out(img, need_cast, need_squeeze, out_dtype):
    if need_squeeze:
        img = img.squeeze(dim=0)
    if need_cast:
        if not out_dtype.is_floating_point:
            img = torch.round(img)
        img = img.to(out_dtype)
    return img


def resize(img, size, interpolation="bilinear", antialias=True):
    _assert_image_tensor(img)
    if isinstance(size, tuple):
        size = list(size)
    antialias = bool(antialias) and interpolation in ("bilinear", "bicubic")
    img, need_cast, need_squeeze, out_dtype = _cast_squeeze_in(img, [torch.float32, torch.float64])
    corners = False if interpolation in ("bilinear", "bicubic") else None
    img = nnf.interpolate(img, size=size, mode=interpolation, align_corners=corners, antialias=antialias)
    if interpolation == "bicubic" and out_dtype == torch.uint8:
        img = img.clamp(min=0, max=255)
    return _cast_squeeze_out(img, need_cast=need_cast, need_squeeze=need_squeeze, out_dtype=out_dtype)


def _padding_sides(padding):
    """left, right, top, bottom"""
    if isinstance(padding, int):
        return [padding] * 4
    if len(padding) == 1:
        return [padding[0]] * 4
    if len(padding) == 2:
        return [padding[0], padding[0], padding[1], padding[1]]
    return [padding[0], padding[2], padding[1], padding[3]]


def _mirrored(n, before, after):
    """The positions of a line of n that is continued by its mirror image, the edges repeated; negative numbers cut."""
    line = range(max(-before, 0), n - max(-after, 0))
    before, after = max(before, 0), max(after, 0)
    return torch.tensor([*reversed(line[:before]), *line, *reversed(line[len(line) - after:])])


def pad(img, padding, fill=0, padding_mode="constant"):
    _assert_image_tensor(img)
    if fill is None:
        fill = 0
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
    need_squeeze = img.ndim < 4
    out_dtype = img.dtype
    if need_squeeze:
        img = img.unsqueeze(dim=0)
    need_cast = padding_mode != "constant" and img.dtype not in (torch.float32, torch.float64)
    if need_cast:
        img = img.to(torch.float32)
    if padding_mode == "constant":
        img = nnf.pad(img, sides, mode="constant", value=float(fill))
    else:
        img = nnf.pad(img, sides, mode="replicate" if padding_mode == "edge" else "reflect")
    if need_squeeze:
        img = img.squeeze(dim=0)
    return img.to(out_dtype) if need_cast else img


# ---- Turning and bending: a grid says where each pixel of the result comes from ----
def _apply_grid_transform(img, grid, mode, fill):
    img, need_cast, need_squeeze, out_dtype = _cast_squeeze_in(img, [grid.dtype])
    if img.shape[0] > 1:
        grid = grid.expand([img.shape[0], *grid.shape[1:]])
    if fill is not None:  # a last channel of ones tells how much of a pixel comes from within
        img = torch.cat((img, torch.ones_like(img[:, :1])), dim=1)
    img = nnf.grid_sample(img, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        mask = img[:, -1:].expand_as(img[:, :-1])
        img = img[:, :-1]
        colour = fill if isinstance(fill, (tuple, list)) else [float(fill)]
        background = torch.tensor(colour, dtype=img.dtype).view(1, len(colour), 1, 1).expand_as(img)
        img = torch.where(mask < 0.5, background, img) if mode == "nearest" else img * mask + (1.0 - mask) * background
    return _cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def _assert_grid_transform_inputs(img, interpolation, modes, fill):
    if not isinstance(img, torch.Tensor):
        raise TypeError("Input img should be Tensor")
    _assert_image_tensor(img)
    channels = get_dimensions(img)[0]
    if isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != channels:
        raise ValueError("The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
                         f"({len(fill)} != {channels})")
    if interpolation not in modes:
        raise ValueError(f"Interpolation mode '{interpolation}' is unsupported with Tensor input")


def _mapped(x, y, matrix):
    """The points (x, y, 1) times a matrix (3, 2), one product and sum after the other: a pixel between two is then torchvision's choice."""
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
    corners = torch.tensor([[-0.5 * w, -0.5 * h, 1.0], [-0.5 * w, 0.5 * h, 1.0], [0.5 * w, 0.5 * h, 1.0], [0.5 * w, -0.5 * h, 1.0]])
    points = corners @ torch.tensor(matrix, dtype=torch.float32).view(2, 3).T
    low = points.min(dim=0).values + torch.tensor((w * 0.5, h * 0.5))
    top = points.max(dim=0).values + torch.tensor((w * 0.5, h * 0.5))
    tolerance = 1e-4  # so that 5.00001 does not become 6
    size = torch.ceil((top / tolerance).trunc_() * tolerance) - torch.floor((low / tolerance).trunc_() * tolerance)
    return int(size[0]), int(size[1])


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
    return _apply_grid_transform(img, _perspective_grid(perspective_coeffs, ow=w, oh=h, dtype=_floating(img)), interpolation, fill=fill)


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
    pdf = torch.exp(-0.5 * (x / sigma).pow(2))
    return pdf / pdf.sum()


def _get_gaussian_kernel2d(kernel_size, sigma, dtype=torch.float32):
    kx, ky = (_get_gaussian_kernel1d(kernel_size[i], sigma[i], dtype) for i in (0, 1))
    return torch.mm(ky[:, None], kx[None, :])


def gaussian_blur(img, kernel_size, sigma):
    _assert_image_tensor(img)
    dtype = _floating(img)
    kernel = _get_gaussian_kernel2d(kernel_size, sigma, dtype)
    kernel = kernel.expand(img.shape[-3], 1, *kernel.shape)
    img, need_cast, need_squeeze, out_dtype = _cast_squeeze_in(img, [dtype])
    half_x, half_y = kernel_size[0] // 2, kernel_size[1] // 2
    img = nnf.pad(img, [half_x, half_x, half_y, half_y], mode="reflect")
    img = nnf.conv2d(img, kernel, groups=img.shape[-3])
    return _cast_squeeze_out(img, need_cast, need_squeeze, out_dtype)


def _blurred_degenerate_image(img):
    dtype = _floating(img)
    kernel = torch.ones((3, 3), dtype=dtype)
    kernel[1, 1] = 5.0
    kernel /= kernel.sum()
    inner, need_cast, need_squeeze, out_dtype = _cast_squeeze_in(img, [dtype])
    inner = nnf.conv2d(inner, kernel.expand(inner.shape[-3], 1, 3, 3), groups=inner.shape[-3])
    result = img.clone()
    result[..., 1:-1, 1:-1] = _cast_squeeze_out(inner, need_cast, need_squeeze, out_dtype)
    return result


def adjust_sharpness(img, sharpness_factor):
    _not_negative(sharpness_factor, "sharpness_factor")
    _assert_channels(img, [1, 3])
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    return _blend(img, _blurred_degenerate_image(img), sharpness_factor)


# ---- Levels ----
def _assert_dimensions(img):
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    _assert_channels(img, [1, 3])


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
    _assert_image_tensor(tensor)
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}")
    if not inplace:
        tensor = tensor.clone()
    mean, std = torch.as_tensor(mean, dtype=tensor.dtype), torch.as_tensor(std, dtype=tensor.dtype)
    if (std == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    if mean.ndim == 1:
        mean = mean.view(-1, 1, 1)
    if std.ndim == 1:
        std = std.view(-1, 1, 1)
    return tensor.sub_(mean).div_(std)


def erase(img, i, j, h, w, v, inplace=False):
    _assert_image_tensor(img)
    if not inplace:
        img = img.clone()
    img[..., i:i + h, j:j + w] = v
    return img
