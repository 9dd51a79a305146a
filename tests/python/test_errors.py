"""Exceptions: PyTorch's types and words, and arguments that change under the call's feet."""

import math

import pytest

import taper as torch


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.linalg.cholesky(-torch.eye(2)),
        lambda: torch.linalg.inv(torch.zeros(2, 2)),
        lambda: torch.linalg.solve(torch.zeros(2, 2), torch.ones(2)),
        lambda: torch.linalg.svd(torch.full((2, 2), float("nan"))),
        lambda: torch.linalg.svd(torch.tensor([[float("inf"), 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])),
    ],
)
def test_a_matrix_that_cannot_be_factored(call):
    with pytest.raises(torch.linalg.LinAlgError):
        call()
    assert issubclass(torch.linalg.LinAlgError, RuntimeError)


NAN = torch.full((3, 3), float("nan"))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: torch.linalg.cholesky(-torch.eye(2)), r"linalg\.cholesky: The factorization could not be completed"),
        (
            lambda: torch.stack([torch.eye(2), torch.zeros(2, 2)]).inverse(),
            r"linalg\.inv: \(Batch element 1\): The diagonal element 1 is zero",
        ),
        (
            lambda: torch.linalg.solve(torch.zeros(2, 2), torch.ones(2)),
            r"torch\.linalg\.solve: The solver failed because the input matrix is singular\.$",
        ),
        (
            lambda: torch.linalg.svdvals(NAN),
            r"linalg\.svd: The algorithm failed to converge because the input matrix contained non-finite values\.$",
        ),
        (
            lambda: torch.linalg.eigh(NAN),
            r"linalg\.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues",
        ),
        (lambda: torch.linalg.eigvals(NAN), r"torch\.linalg\.eig: input tensor should not contain infs or NaNs\.$"),
        (lambda: torch.linalg.lu_factor(torch.zeros(2, 2)), r"torch\.linalg\.lu_factor: U\[1,1\] is zero"),
    ],
)
def test_what_is_said_of_matrices(call, words):
    with pytest.raises(RuntimeError, match="^" + words):
        call()


def test_the_condition_number_of_a_singular_matrix_is_infinite():
    both = torch.stack([torch.zeros(3, 3), torch.eye(3)])
    assert torch.linalg.cond(both, 1).tolist() == [float("inf"), 1.0]
    assert torch.linalg.cond(both, "fro")[0] == float("inf")


def test_einsum_raises_runtime_errors():
    with pytest.raises(RuntimeError, match="does not broadcast"):
        torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="2 subscripts but 1 dimensions"):
        torch.einsum("ij", torch.ones(1))


@pytest.mark.parametrize(
    "call, sizes",
    [
        (lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)), "2x3 and 2x3"),
        (lambda: torch.ones(4, 3) @ torch.ones(2, 5), "4x3 and 2x5"),
        (lambda: torch.nn.Linear(2, 7)(torch.ones(3, 5)), "3x5 and 2x7"),
        (lambda: torch.nn.Linear(2, 7)(torch.ones(2, 3, 5)), "6x5 and 2x7"),
    ],
)
def test_matrices_that_do_not_fit(call, sizes):
    with pytest.raises(RuntimeError, match=rf"mat1 and mat2 shapes cannot be multiplied \({sizes}\)"):
        call()


def test_pythons_own_messages_say_tensor():
    with pytest.raises(TypeError, match="unsupported operand type\\(s\\) for \\+: 'Tensor' and 'str'"):
        torch.ones(2) + "a"
    assert repr(torch.Tensor) == "<class 'torch.Tensor'>"
    assert torch.Tensor.__module__ == "torch"


class Clearing:
    """A number that empties the list it stands in when it is asked for its value."""

    def __init__(self, of):
        self.of = of

    def __index__(self):
        self.of.clear()
        return 1

    __float__ = __int__ = __index__


@pytest.mark.parametrize(
    "call",
    [
        lambda items: torch.ones(items),
        lambda items: torch.ones(2, 2, 2).permute(items),
        lambda items: torch.tensor(items),
        lambda items: torch.ones(2).sum(items),
        lambda items: torch.ones(2, 2)[items],
    ],
)
def test_a_list_that_is_emptied_while_it_is_read(call):
    for _ in range(20):
        items = []
        items += [Clearing(items), Clearing(items), Clearing(items)]
        try:
            call(items)
        except (TypeError, ValueError, IndexError, RuntimeError):
            pass


def test_hooks_may_empty_the_lists_given_to_grad():
    for _ in range(5):
        x = torch.ones(64, requires_grad=True)
        inputs = [x.clone()]
        outputs = [(inputs[0] * 3).sum()]
        inputs[0].register_hook(lambda g: (outputs.clear(), inputs.clear()) and None)
        (grad,) = torch.autograd.grad(outputs, inputs)
        assert grad.tolist() == [3.0] * 64


def test_nodes_are_made_by_the_tape_alone():
    node = (torch.ones(2, requires_grad=True) * 2).grad_fn
    with pytest.raises(TypeError, match="cannot create"):
        type(node)()


def test_a_message_about_an_argument_names_the_operator():
    with pytest.raises(IndexError, match=r"^softmax\(\): argument 'dim': Dimension out of range"):
        torch.softmax(torch.ones(2), 5)
    with pytest.raises(IndexError, match=r"^index_select\(\): argument 'index'"):
        torch.ones(2, 3).index_select(0, torch.tensor([7]))


def test_config_says_what_the_build_stands_on():
    assert "Taper" in torch.__config__.show()
    assert "BLAS" in torch.__config__.show()


REAL, PICTURE = torch.ones(4), torch.ones(1, 4, 6, 6)
F = torch.nn.functional


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: torch.fft.fft(torch.empty(1, 0)), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: torch.fft.irfftn(torch.zeros(2, 1)), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: torch.fft.fftn(torch.ones(2, 2, 2), dim=(0, 1, 0)), RuntimeError, "FFT dims must be unique"),
        (
            lambda: torch.fft.fftn(torch.ones(2, 2), s=(1,), dim=(0, 1)),
            RuntimeError,
            "dim and shape arguments must have the same length",
        ),
        (
            lambda: torch.fft.fftn(REAL, s=(2, 2)),
            RuntimeError,
            "Got shape with 2 values but input tensor only has 1 dimensions",
        ),
        (lambda: torch.fft.rfftn(REAL, dim=()), RuntimeError, "rfftn must transform at least one axis"),
        (lambda: torch.fft.rfft(REAL + 1j), TypeError, "rfft expects a real input tensor, but got ComplexFloat"),
        (lambda: torch.fft.fft(REAL.half()), NotImplementedError, "Unsupported dtype Half"),
        (lambda: torch.fft.ifft(REAL, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda: torch.fft.fftfreq(4, dtype=torch.int32), RuntimeError, "requires a floating point or complex dtype"),
        (lambda: torch.ones(20).stft(4), RuntimeError, "stft requires the return_complex parameter"),
        (
            lambda: torch.ones(20).stft(4, return_complex=True, align_to_window=True),
            RuntimeError,
            "align_to_window should only be set when center = false",
        ),
        (
            lambda: REAL.stft(20, center=False, return_complex=True),
            RuntimeError,
            "expected 0 < n_fft < 4, but got n_fft=20",
        ),
        (lambda: torch.istft(torch.ones(3, 5), 4), TypeError, "istft requires a complex-valued input tensor"),
        (
            lambda: torch.istft(torch.ones(3, 5) + 0j, 4, hop_length=20),
            RuntimeError,
            "expected 0 < hop_length <= win_length",
        ),
        (lambda: torch.istft(torch.ones(3, 0) + 0j, 4), RuntimeError, "input tensor cannot be empty"),
        (
            lambda: F.max_pool2d(torch.ones(1, 0, 6, 6), 2),
            RuntimeError,
            r"Expected 3D or 4D \(batch mode\) tensor with optional 0 dim batch size for input",
        ),
        (
            lambda: F.avg_pool3d(torch.ones(1, 0, 6, 6, 6), 2),
            RuntimeError,
            "Expected input to have non-zero size for non-batch dimensions",
        ),
        (
            lambda: F.max_pool2d(PICTURE, ()),
            RuntimeError,
            "max_pool2d: kernel_size must either be a single int, or a tuple of two ints",
        ),
        (lambda: F.max_pool2d(PICTURE, 7), RuntimeError, "Output size is too small"),
        (
            lambda: F.max_unpool2d(PICTURE, torch.zeros(1, 4, 6, 6), 2),
            RuntimeError,
            "elements in indices should be type int64 but got: Float",
        ),
        (
            lambda: F.fractional_max_pool2d(PICTURE, 2, 3, _random_samples=torch.rand(0, 4, 2)),
            RuntimeError,
            r"Expect _random_samples.size\(0\)",
        ),
        (
            lambda: F.conv2d(PICTURE, torch.ones(8, 4, 3, 3), groups=3),
            RuntimeError,
            "expected weight to be divisible by 3 at dimension 0",
        ),
        (
            lambda: F.conv2d(torch.ones(1, 4, 2, 2), torch.ones(8, 4, 3, 3)),
            RuntimeError,
            r"padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)",
        ),
        (lambda: F.conv2d(PICTURE, torch.ones(8, 4, 3, 3), padding="x"), RuntimeError, "Invalid padding string: 'x'"),
        (
            lambda: F.conv_transpose2d(PICTURE, torch.ones(3, 8, 3, 3)),
            RuntimeError,
            "Given transposed=1, weight of size",
        ),
        (lambda: F.interpolate(PICTURE.int(), 3, mode="bilinear"), NotImplementedError, "not implemented for 'Int'"),
        (
            lambda: F.layer_norm(PICTURE.long(), (6,)),
            NotImplementedError,
            r"^layer_norm\(\): argument 'input': not implemented for 'Long', expected a floating dtype, got int64$",
        ),
        (
            lambda: F.interpolate(PICTURE, (3, 3, 3)),
            ValueError,
            "Input and output must have the same number of spatial dimensions",
        ),
        (
            lambda: F.interpolate(torch.ones(1, 4, 6), 3, mode="bilinear"),
            NotImplementedError,
            "Got 3D input, but bilinear mode needs 4D input",
        ),
        (lambda: F.interpolate(PICTURE, 3, mode="lanczos"), ValueError, "Lanczos mode requires antialias=True"),
        (lambda: F.unfold(PICTURE, 9), RuntimeError, "its components must be at least one"),
        (lambda: F.fold(torch.ones(1, 5, 4), 3, 2), RuntimeError, "to be divisible by the product of kernel_size"),
        (lambda: F.pad(torch.ones(2, 3), (1,)), RuntimeError, "Padding length must be divisible by 2"),
        (lambda: F.pad(torch.ones(2, 3), (1, 1), "other"), NotImplementedError, "Unrecognised padding mode other"),
        (lambda: F.pad(torch.ones(2, 0, 3), (1, 1), "reflect"), RuntimeError, "other non-zero dimensions for input"),
        (
            lambda: F.grid_sample(PICTURE, torch.ones(2, 2, 2, 2), align_corners=False),
            RuntimeError,
            "expected grid and input to have same batch size",
        ),
        (
            lambda: F.affine_grid(torch.ones(1, 2, 3), (1, 1, 0, 2), align_corners=False),
            ValueError,
            "Expected non-zero, positive output size",
        ),
        (lambda: F.dropout1d(PICTURE), RuntimeError, "Expected 2D or 3D input, but received a 4D input"),
        (
            lambda: F.group_norm(torch.ones(1, 4, 1), 4),
            ValueError,
            "Expected more than 1 value per channel when training",
        ),
        (
            lambda: F.batch_norm(torch.ones(2, 3), torch.ones(4), torch.ones(4)),
            RuntimeError,
            "running_mean should contain 3 elements not 4",
        ),
        (
            lambda: F.batch_norm(torch.ones(2, 3), None, None, training=True, eps=0.0),
            ValueError,
            "eps must be positive during training, but got 0",
        ),
        (
            lambda: F.batch_norm(torch.ones(2, 3), torch.ones(3), torch.ones(3), eps=-1.0),
            ValueError,
            "eps must be non-negative",
        ),
        (lambda: F.layer_norm(REAL, ()), RuntimeError, "Expected normalized_shape to be at least 1-dimensional"),
        (
            lambda: F.prelu(torch.ones(2, 4), torch.ones(3)),
            RuntimeError,
            "Mismatch of parameter numbers and input channel size",
        ),
        (lambda: F.one_hot(torch.tensor([5]), 3), RuntimeError, "Class values must be smaller than num_classes"),
        (
            lambda: F.embedding_bag(torch.tensor([[-1, 1]]), torch.ones(3, 2)),
            RuntimeError,
            "Expected idx >= 0 && idx < num_embeddings",
        ),
        (
            lambda: F.embedding_bag(
                torch.tensor([1, 1]),
                torch.ones(3, 2),
                torch.tensor([0]),
                per_sample_weights=torch.ones(2).double(),
                mode="sum",
            ),
            RuntimeError,
            "to have the same type as",
        ),
        (lambda: F.nll_loss(torch.ones(3, 4), torch.full((3,), 7)), IndexError, "Target 7 is out of bounds."),
        (
            lambda: F.nll_loss(torch.ones(3, 4), torch.ones(3).long(), torch.ones(3)),
            RuntimeError,
            "weight tensor should be defined either for all 4 classes or no classes",
        ),
        (
            lambda: F.multi_margin_loss(torch.ones(0), torch.ones(10).long()),
            RuntimeError,
            "Expected non-empty vector or matrix",
        ),
        (lambda: F.mse_loss(REAL, REAL, reduction="x"), ValueError, "x is not a valid value for reduction"),
        (
            lambda: torch.nn.RNNCell(4, 5)(torch.ones(3, 6), torch.ones(3, 5)),
            RuntimeError,
            "input has inconsistent input_size: got 6 expected 4",
        ),
        (lambda: torch.nn.LSTM(4, 5, batch_first=1), TypeError, "batch_first should be of type bool, got: int"),
        (
            lambda: torch.nn.MultiheadAttention(4, 2)(torch.ones(3, 2, 4), torch.ones(3, 4), torch.ones(3, 2, 4)),
            AssertionError,
            "expected `key` and `value` to be 3-D",
        ),
        (
            lambda: torch.linalg.qr(REAL),
            RuntimeError,
            r"^linalg\.qr: The input tensor A must have at least 2 dimensions\.",
        ),
        (
            lambda: torch.linalg.inv(torch.ones(2, 3)),
            RuntimeError,
            r"^linalg\.inv: A must be batches of square matrices, but they are 2 by 3 matrices",
        ),
        (
            lambda: torch.linalg.inv(torch.ones(2, 2).int()),
            NotImplementedError,
            "Expected a floating point or complex tensor as input. Got Int",
        ),
        (lambda: torch.linalg.qr(torch.ones(2, 2), mode="x"), RuntimeError, "qr received unrecognized mode 'x'"),
        (
            lambda: torch.linalg.solve(torch.ones(2, 2), torch.ones(3, 1)),
            RuntimeError,
            r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)",
        ),
        (
            lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2),
            RuntimeError,
            "If dim is not specified but ord is, the input must be 1D or 2D",
        ),
        (lambda: torch.linalg.vector_norm(REAL, 1 + 2j), RuntimeError, "Expected a non-complex scalar"),
        (
            lambda: torch.addr(torch.ones(2, 2), torch.ones(2), torch.ones(2), beta=True),
            RuntimeError,
            "Boolean beta only supported for Boolean results",
        ),
        (
            lambda: torch.ones(2, 2).symeig(),
            RuntimeError,
            "This function was deprecated since version 1.9 and is now removed",
        ),
        (lambda: torch.ones(10, 10) + torch.ones(11, 11), RuntimeError, "at non-singleton dimension 1"),
        (
            lambda: torch.linspace(REAL, 1, 3),
            RuntimeError,
            "linspace only supports 0-dimensional start and end tensors",
        ),
        (
            lambda: torch._foreach_add([REAL], []),
            RuntimeError,
            "Tensor list must have same number of elements as scalar list",
        ),
        (lambda: torch._foreach_max([torch.empty(0)]), RuntimeError, "cannot compute the maximum of an empty tensor"),
        (
            lambda: torch.ops.aten.convolution_backward(
                REAL, REAL, REAL, [4], [1], [1], [1], False, [0], 0, [True] * 3
            ),
            RuntimeError,
            "expected groups to be greater than 0",
        ),
    ],
)
def test_what_layers_and_transforms_say(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_norms_of_matrices_without_rows_or_columns():
    for shape, order in (((1, 0), 1), ((0, 1), float("inf")), ((0, 0), 2)):
        assert torch.linalg.norm(torch.ones(shape), order) == 0
    with pytest.raises(IndexError):
        torch.linalg.norm(torch.ones(1, 0), -1)


def test_lists_of_tensors_take_numbers():
    assert torch._foreach_minimum([torch.tensor([1.0, 3.0])], 2)[0].tolist() == [1, 2]
    assert torch._foreach_maximum([torch.tensor([1.0, 3.0])], [2.0])[0].tolist() == [2, 3]
    assert torch._foreach_powsum([torch.tensor([1.0, 3.0])], 2)[0].item() == 10
    assert torch._foreach_addcmul([REAL], [REAL], [REAL], torch.tensor([2.0]))[0].tolist() == [3, 3, 3, 3]


def test_private_names_of_torch():
    a, b = torch.tensor([[1, 2]], dtype=torch.int8), torch.tensor([[3], [100]], dtype=torch.int8)
    assert torch._int_mm(a, b).tolist() == [[203]]
    assert torch._int_mm(a, b).dtype is torch.int32
    mask, index = torch.tensor([True, False]), [torch.tensor([1, 9])]
    assert torch._unsafe_masked_index(torch.tensor([5.0, 6.0]), mask, index, -1).tolist() == [6, -1]
    assert torch._unsafe_masked_index_put_accumulate(
        torch.zeros(2), mask, index, torch.tensor([3.0, 4.0])
    ).tolist() == [0, 3]
    assert torch._chunk_cat([torch.ones(3, 1), torch.ones(2, 1)], 0, 2).tolist() == [[1, 1, 1], [1, 0, 1]]
    x, w = torch.randn(1, 2, 4, 4, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    y = F.conv2d(x, w)
    ours = torch.ops.aten.convolution_backward(
        torch.ones_like(y), x, w, [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
    )
    for mine, tape in zip(ours, torch.autograd.grad(y.sum(), (x, w))):
        assert torch.allclose(mine, tape)
    assert ours[2] is None


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda: F.fractional_max_pool3d(torch.ones(1, 2, 7, 7, 7), (1,), 3),
            RuntimeError,
            "kernel_size must either be a single int or tuple of three ints",
        ),
        (
            lambda: torch._foreach_norm([torch.empty(0)], ord=float("inf")),
            RuntimeError,
            "_foreach_norm cannot compute the infinity norm",
        ),
        (lambda: torch.multinomial(REAL, 2, out=torch.empty(2)), RuntimeError, "multinomial expects Long tensor out"),
        (
            lambda: torch.complex(REAL, REAL, out=torch.empty(4, dtype=torch.complex128)),
            RuntimeError,
            "for argument 'out'",
        ),
        (lambda: torch.nn.utils.rnn.pad_sequence(5), RuntimeError, "Expected iterable for input sequences"),
        (
            lambda: torch.nn.utils.rnn.pack_padded_sequence(torch.ones(0, 0), []),
            RuntimeError,
            "Cannot pack empty tensors",
        ),
        (
            lambda: torch.binomial(torch.ones(2).int(), torch.ones(2)),
            ValueError,
            "binomial only supports floating-point dtypes for count",
        ),
        (
            lambda: F.embedding_bag(torch.tensor([[1]]), torch.ones(3, 2), padding_idx=7),
            RuntimeError,
            "padding_idx must be within the number of embeddings",
        ),
        (lambda: F.channel_shuffle(PICTURE, 3), RuntimeError, "Number of channels must be divisible by groups"),
        (
            lambda: F.adaptive_avg_pool2d(PICTURE.clone().requires_grad_(), 0).sum().backward(),
            RuntimeError,
            "Expected grad_output to have non-zero size",
        ),
        (lambda: torch._chunk_cat([REAL], 0, 0), RuntimeError, "_chunk_cat expects positive num_chunks"),
    ],
)
def test_more_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


_X, _I = torch.ones(2, 3), torch.tensor([0])


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda: torch.ones(4).broadcast_to((1, 1)),
            RuntimeError,
            r"The expanded size of the tensor \(1\) must match the existing size \(4\) at non-singleton",
        ),
        (
            lambda: torch.ones(2).expand(-1, 2),
            RuntimeError,
            r"\(-1\) isn't allowed in a leading, non-existing dimension 0",
        ),
        (
            lambda: torch.ones(2, 2).expand(2),
            RuntimeError,
            r"the number of sizes provided \(1\) must be greater or equal to",
        ),
        (lambda: torch.ones(2, 2, 2).t(), RuntimeError, r"t\(\) expects a tensor with <= 2 dimensions, but self is 3D"),
        (
            lambda: torch.ones(4, 5, dtype=torch.int8).view(torch.float32),
            RuntimeError,
            r"self.size\(-1\) must be divisible by 4 to view Char as Float",
        ),
        (
            lambda: torch.ones(4, 8, dtype=torch.int8)[:, 1:5].view(torch.float32),
            RuntimeError,
            r"self.storage_offset\(\) must be divisible by 4",
        ),
        (
            lambda: torch.ones(16, dtype=torch.int8).as_strided((4, 4), (1, 1)).view(torch.float32),
            RuntimeError,
            r"self.stride\(0\) must be divisible by 4",
        ),
        (
            lambda: torch.ones(4, 4).t().view(torch.int8),
            RuntimeError,
            r"self.stride\(-1\) must be 1 to view Float as Char",
        ),
        (lambda: torch.addcdiv(_I, _I, _I), RuntimeError, "^Integer division with addcdiv is no longer supported"),
        (
            lambda: torch.hsplit(torch.ones(()), 3),
            RuntimeError,
            "torch.hsplit requires a tensor with at least 1 dimension",
        ),
        (
            lambda: torch.dsplit(torch.ones(2, 2, 3), 2),
            RuntimeError,
            "torch.dsplit attempted to split along dimension 2, but the size of the dimension 3",
        ),
        (
            lambda: torch.as_strided(_X, (1, 1), (2, -1)),
            RuntimeError,
            r"as_strided: Negative strides are not supported at the moment, got strides: \[2, -1\]",
        ),
        (lambda: torch.empty(2, dtype=torch.int32).random_(0, 2**40), RuntimeError, "to - 1 is out of bounds for int"),
        (lambda: torch.empty(2, dtype=torch.int32).random_(-(2**40), 3), RuntimeError, "from is out of bounds for int"),
        (lambda: _X.roll((), ()), RuntimeError, "`shifts` required"),
        (lambda: torch.eye(1, -1), RuntimeError, "m must be greater or equal to 0, got -1"),
        (lambda: torch.movedim(_X, (1, 0), (0,)), RuntimeError, "movedim: Invalid source or destination dims:"),
        (lambda: torch.movedim(_X, (0, 1), (0, 0)), RuntimeError, "movedim: repeated dim in `destination`"),
        (lambda: _X.unfold(0, -1, 1), RuntimeError, "size is -1 but must be >= 0"),
        (lambda: _X.unfold(0, 1, -1), RuntimeError, "step is -1 but must be > 0"),
        (lambda: _X.unfold(0, 5, 1), RuntimeError, "maximum size for tensor at dimension 0 is 2 but size is 5"),
        (lambda: torch.masked_select(_X, _X), RuntimeError, "expected BoolTensor for mask"),
        (lambda: _X.clone().masked_fill_(_X, 0), RuntimeError, "only supports boolean masks"),
        (
            lambda: torch.gradient(_X, spacing=(torch.ones(2),)),
            RuntimeError,
            "expected spacing to be unspecified, a scalar, or a list",
        ),
        (
            lambda: _X.diff(dim=0, prepend=torch.ones(3)),
            RuntimeError,
            "diff expects prepend or append to be the same dimension as input",
        ),
        (
            lambda: _X.diff(dim=0, append=torch.ones(1, 2)),
            RuntimeError,
            "diff expects the shape of tensor to prepend or append to match that of input",
        ),
        (
            lambda: torch.nn.functional.nll_loss(_X, _I.expand(2), weight=torch.ones(4)),
            RuntimeError,
            "should be defined either for all 3 classes or no classes",
        ),
        (
            lambda: torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3).long(), torch.ones(1, 1, 1, 1).double()),
            RuntimeError,
            "Long but found Double",
        ),
        (
            lambda: torch.ones(1).set_(torch.ones(1).untyped_storage(), 100, (1,), (1,)),
            RuntimeError,
            "out of bounds for storage of size 4",
        ),
        (
            lambda: torch.empty(()).double().resize_([2, 4, 2**29, 2**29]),
            RuntimeError,
            "Storage size calculation overflowed",
        ),
        (lambda: torch.meshgrid(_I, indexing=""), RuntimeError, 'indexing must be one of "xy" or "ij"'),
        (lambda: torch.unravel_index(torch.tensor(0.5), (2, 2)), TypeError, "expected 'indices' to be integer"),
        (lambda: torch.unravel_index(_I, torch.tensor([1])), TypeError, "expected 'shape' to be int or sequence"),
        (lambda: torch.unravel_index(_I, (1, 2.0)), TypeError, "expected 'shape' sequence to only contain ints"),
        (
            lambda: torch.take_along_dim(_X, _I, dim=0),
            RuntimeError,
            "input and indices should have the same number of dimensions",
        ),
        (lambda: torch.take_along_dim(_X, _X, dim=0), RuntimeError, "dtype of indices should be Long but got Float"),
        (lambda: torch.meshgrid(_I, _I.float()), RuntimeError, "expects all tensors to have the same dtype"),
        (lambda: torch.meshgrid(_X), RuntimeError, "Expected 0D or 1D tensor"),
        (lambda: torch.device("cuda: 2"), RuntimeError, "Invalid device string: 'cuda: 2'"),
        (lambda: torch.device("cuda:-1"), RuntimeError, "Invalid device string: 'cuda:-1'"),
        (
            lambda: torch.use_deterministic_algorithms(1),
            TypeError,
            r"argument 'mode' \(position 1\) must be bool, not int",
        ),
        (
            lambda: torch.broadcast_shapes(1, -12),
            ValueError,
            "Attempting to broadcast a dimension with negative length",
        ),
        (lambda: torch.manual_seed(2**65), ValueError, "Overflow when unpacking long"),
        (
            lambda: torch.normal(torch.ones(3), torch.ones(2)),
            RuntimeError,
            r"The size of tensor a \(3\) must match the size of tensor b \(2\)",
        ),
        (lambda: torch.neg(_I, out=torch.empty(0)), RuntimeError, "Found dtype Float but expected Long"),
        (
            lambda: torch.floor(torch.ones(1), out=torch.empty(0, dtype=torch.float64)),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
        (lambda: _X.flip(), TypeError, r"flip\(\) missing 1 required positional arguments: \"dims\""),
        (
            lambda: torch.heaviside(_X, _X.double()),
            RuntimeError,
            "heaviside is not yet implemented for tensors with different dtypes",
        ),
        (lambda: _X.clone().index_fill_(1, _I, 1j), RuntimeError, "Converting complex Scalar to non-complex type"),
        (
            lambda: _X.clone().map2_(_X, torch.ones(2, 3, requires_grad=True), lambda a, b, c: a),
            RuntimeError,
            "on Variable that requires grad",
        ),
        (lambda: _X.clone().map_(1, lambda a, b: a), TypeError, "must be Tensor, not int"),
        (lambda: _X.clone().apply_(lambda k: "text"), TypeError, "must be real number, not str"),
        (lambda: torch.ones(2).H, RuntimeError, "only supported on matrices"),
        (lambda: torch.ones(2, 3, 4).H, RuntimeError, "only supported on matrices"),
        (lambda: torch.ones(2).mT, RuntimeError, "only supported on matrices or batches of matrices"),
        (lambda: torch.ones(2).adjoint(), RuntimeError, "only supported on matrices or batches of matrices"),
        (
            lambda: torch.hann_window(3, layout=torch.sparse_coo),
            RuntimeError,
            "hann_window is not implemented for sparse types",
        ),
        (lambda: torch.ones(2).__dlpack__(dl_device=(20, 0)), BufferError, "Unsupported device_type: 20"),
    ],
)
def test_refusals_in_pytorchs_words(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_the_old_tolerance_of_ranks():
    A = torch.diag(torch.tensor([1.0, 1.0, 1e-3]))
    assert torch.linalg.matrix_rank(A) == 3
    assert (
        torch.linalg.matrix_rank(A, 1e-2)
        == torch.linalg.matrix_rank(A, tol=1e-2, hermitian=True)
        == torch.linalg.matrix_rank(A, atol=1e-2, rtol=0.0)
        == 2
    )


def test_hashes_of_tensors():
    x = torch.tensor([[1, 2], [4, 8]])
    assert x.hash_tensor().item() == 15
    assert torch.hash_tensor(x, 1).tolist() == [3, 12]
    assert torch.hash_tensor(x, 0, keepdim=True).shape == (1, 2)
    assert (
        torch.hash_tensor(torch.tensor([1.5])).view(torch.int64).item()
        == torch.tensor([1.5], dtype=torch.float64).view(torch.int64).item()
    )


def test_random_state_is_left_alone():
    from taper.testing._utils import freeze_rng_state

    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with freeze_rng_state():
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("sample", [5.355e16, 1e300, -3.0, math.nan, math.inf])
def test_a_fractional_pool_stays_inside_for_any_samples(sample):
    x = torch.arange(121.0, dtype=torch.float64).view(1, 1, 11, 11)
    samples = torch.full((1, 1, 2), sample, dtype=torch.float64)
    out, places = F.fractional_max_pool2d(x, 1, 7, _random_samples=samples, return_indices=True)
    assert places.min() >= 0
    assert places.max() <= 120
    assert torch.equal(out.flatten(), x.flatten()[places.flatten()])


def test_a_fractional_pool_of_no_rows():
    assert torch.nn.FractionalMaxPool2d([2, 2], output_size=[0, 1])(PICTURE).shape == (1, 4, 0, 1)


def test_numbers_are_their_own_transpose():
    for name in "H", "mT", "mH":
        assert getattr(torch.tensor(3.0), name) == 3


def test_index_copy_takes_one_element_in_any_shape():
    for target in torch.zeros(()), torch.zeros(1):
        for index in torch.tensor(0), torch.tensor([0]):
            for source in torch.tensor(5.0), torch.tensor([5.0]):
                assert target.clone().index_copy_(0, index, source).item() == 5


def test_systems_whose_right_side_is_no_vector():
    with pytest.raises(RuntimeError, match=r"input.size\(-2\) should match other.size\(-2\)"):
        torch.linalg.lstsq(torch.ones(1, 1, 1), torch.ones(3, 1))
    A = torch.randn(2, 3, 3)
    assert torch.linalg.lstsq(A, torch.ones(2, 3)).solution.shape == (2, 3)
    assert torch.equal(torch._addmm_activation(torch.zeros(2), torch.eye(2), -torch.eye(2)), torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match="too large relative to input height"):
        F.fractional_max_pool2d(PICTURE, 2, (9, 3))


_B, _N = torch.tensor([True, False]), torch.tensor([3])


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda: ~torch.ones(1),
            TypeError,
            r"~ \(operator.invert\) is only implemented on integer and Boolean-type tensors",
        ),
        (lambda: torch.cat([]), ValueError, r"torch.cat\(\): expected a non-empty list of Tensors"),
        (lambda: torch.stack([]), RuntimeError, "stack expects a non-empty TensorList"),
        (lambda: torch.ones(2, dtype=torch.complex64).sort(), TypeError, "Sort does not support complex dtypes on CPU"),
        (
            lambda: torch.nn.Linear("a", 2),
            TypeError,
            r"empty\(\): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got str\"",
        ),
        (
            lambda: torch.nn.Linear(2, "a"),
            TypeError,
            r"argument 'size' \(position 1\) must be tuple of ints, but found element of type str at pos 0",
        ),
        (
            lambda: F.max_pool2d(torch.ones(1, 2, 2), 3),
            RuntimeError,
            r"Given input size: \(1x2x2\). Calculated output size: \(1x0x0\). Output size is too small",
        ),
        (
            lambda: torch.softmax(_N.int(), 0),
            NotImplementedError,
            "^\"softmax_lastdim_kernel_impl\" not implemented for 'Int'",
        ),
        (
            lambda: torch.log_softmax(_N.expand(2, 2), 0),
            NotImplementedError,
            "^\"log_softmax_kernel_impl\" not implemented for 'Long'",
        ),
        (
            lambda: torch.where(torch.ones(1), _X, _X),
            RuntimeError,
            r"^where\(\): argument 'condition': expected a tensor of dtype bool",
        ),
        *(
            (call, NotImplementedError, "Subtraction, the `-` operator, with a bool tensor is not supported")
            for call in (
                lambda: _B - 1,
                lambda: _N - True,
                lambda: 1 - _B,
                lambda: True - _N,
                lambda: torch.rsub(_N, True),
                lambda: _N.clone().sub_(True),
                lambda: _N - _B,
            )
        ),
        (lambda: _B - _B, NotImplementedError, "Subtraction, the `-` operator, with two bool tensors is not supported"),
    ],
)
def test_refusals_of_pytorchs_kind_and_words(call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call()
    assert type(caught.value) is kind


def test_bools_to_the_power_of_a_bool():
    assert (_B**True).tolist() == [True, False]
    assert (_B**False).tolist() == [True, True]
    assert (_B**True).dtype == torch.bool


@pytest.mark.parametrize(
    "call, kind, words",
    [
        ("nn.Linear(3, 2)(d(4, 3))", RuntimeError, "mat1 and mat2 must have the same dtype, but got Double and Float"),
        ("f(2, 3).t().view(6)", RuntimeError, "view size is not compatible with input tensor's size and stride"),
        ("torch.dot(f(3), d(3))", RuntimeError, "dot : expected both vectors to have same dtype, but found Float and"),
        ("f(3).index_add_(0, i(1), d(1))", RuntimeError, "self (Float) and source (Double) must have the same scalar"),
        ("torch.linspace(0, 1, -1)", RuntimeError, "number of steps must be non-negative"),
        ("torch.arange(0, 5, -1)", RuntimeError, "upper bound and lower bound inconsistent with step sign"),
        ("torch.randperm(-1)", RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
        ("torch.bincount(-i(1))", RuntimeError, "bincount only supports 1-d non-negative integral inputs."),
        ("torch.bincount(f(1))", NotImplementedError, "\"bincount_cpu\" not implemented for 'Float'"),
        ("torch.mean(i(3))", NotImplementedError, "mean(): could not infer output dtype. Input dtype must be either a"),
        ("torch.var(i(3))", NotImplementedError, "std and var only support floating point and complex dtypes"),
        ("torch.norm(i(3))", NotImplementedError, "Expected a floating point or complex tensor as input. Got Long"),
        ("f(2).to(torch.complex64) < 1", NotImplementedError, "\"lt_cpu\" not implemented for 'ComplexFloat'"),
        ("f(2) & f(2)", NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
        ("torch.bernoulli(2 * f(1))", RuntimeError, "Expected p_in >= 0 && p_in <= 1 to be true"),
        (
            "torch.multinomial(i(3), 1)",
            RuntimeError,
            "multinomial only supports floating-point dtypes for input, got: ",
        ),
        ("nn.Embedding(3, 2)(f(2))", RuntimeError, "expected a tensor of int64 or int32, got float32"),
        ("F.nll_loss(f(2, 3), i(2).int())", RuntimeError, "expected target dtype to be Long or Byte, but got Int"),
        ("F.cross_entropy(f(2, 3), i(2).int())", RuntimeError, "expected target dtype to be Long or Byte, but got Int"),
        ("F.nll_loss(f(2, 3), i(2), d(3))", RuntimeError, "expected scalar type Float but found Double"),
        ("F.binary_cross_entropy(f(2), i(2))", RuntimeError, "Found dtype Long but expected Float"),
        (
            "F.binary_cross_entropy_with_logits(f(2), i(2))",
            RuntimeError,
            "result type Float can't be cast to the desired",
        ),
        (
            "F.binary_cross_entropy_with_logits(f(2), f(3))",
            ValueError,
            "Target size (torch.Size([3])) must be the same",
        ),
        ("nn.BatchNorm1d(3)(d(2, 3))", RuntimeError, "mixed dtype (CPU): all inputs must share same datatype."),
        ("nn.LayerNorm(3)(d(2, 3))", RuntimeError, "mixed dtype (CPU): all inputs must share same datatype."),
        ("torch.bmm(f(1, 2, 3), f(2, 3, 4))", RuntimeError, "of batch2 tensor to be: [1, 3] but got: [2, 3]."),
        ("f(3).scatter_(0, i(1), d(1))", RuntimeError, "scatter(): Expected self.dtype to be equal to src.dtype"),
        ("f(3).index_fill_(0, f(1), 1.0)", IndexError, "Expected dtype int64 for index"),
        (
            "f(3).gather(0, i(1, 1))",
            RuntimeError,
            "Index tensor must have the same number of dimensions as input tensor",
        ),
        ("f(2, 3).split(-1)", RuntimeError, "split expects split_size be non-negative, but got split_size=-1"),
        ("f(2, 3).narrow(0, 1, 5)", RuntimeError, "start (1) + length (5) exceeds dimension size (2)."),
        ("torch.topk(f(3), 5)", RuntimeError, "selected index k out of range"),
        ("torch.view_as_real(f(2))", TypeError, "view_as_real is only supported for complex tensors"),
        ("torch.polygamma(-1, f(2))", RuntimeError, "polygamma(n, x) does not support negative n."),
        ("torch.cartesian_prod(f(2, 2))", RuntimeError, "Expect a 1D vector, but got shape [2, 2]"),
        ("F.relu(3)", TypeError, "relu(): argument 'input' (position 1) must be Tensor, not int"),
    ],
)
def test_common_mistakes_are_told_in_pytorchs_words(call, kind, words):
    names = {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "f": torch.ones,
        "d": lambda *size: torch.ones(*size, dtype=torch.float64),
        "i": lambda *size: torch.ones(*size, dtype=torch.int64),
    }
    with pytest.raises(kind) as raised:
        eval(call, names)
    assert type(raised.value) is kind
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: _I.mv(2), r"mv\(\): argument 'vec' \(position 1\) must be Tensor, not int"),
        (lambda: torch.mv(_I, 2), r"mv\(\): argument 'vec' \(position 2\) must be Tensor, not int"),
        (lambda: _I.add("a"), r"add\(\): argument 'other' \(position 1\) must be Tensor, not str"),
        (lambda: _I.view("a", "b"), r"view\(\) received an invalid combination of arguments - got \(str, str\)"),
        (lambda: torch.cat([_I, 3]), "expected Tensor as element 1 in argument 0, but got int"),
    ],
)
def test_a_methods_own_tensor_is_not_counted(call, words):
    with pytest.raises(TypeError, match=words):
        call()
