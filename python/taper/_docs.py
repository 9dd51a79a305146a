"""Examples for the operators used most, by PyTorch's name (of the function, or of the method where only that exists).
An operator's docstring reads this when it is asked for; nothing imports it before. Each prints the same under PyTorch;
tests/python/test_docs.py runs them."""

EXAMPLES = {
    "add_": """>>> x = torch.ones(3)
>>> x.add_(2, alpha=3)
tensor([7., 7., 7.])""",
    "allclose": """>>> torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-9]))
True""",
    "amax": """>>> torch.amax(torch.tensor([[1, 5], [7, 2]]), dim=1)
tensor([5, 7])""",
    "arange": """>>> torch.arange(5)
tensor([0, 1, 2, 3, 4])
>>> torch.arange(1, 2.5, 0.5)
tensor([1.0000, 1.5000, 2.0000])""",
    "argmax": """>>> torch.argmax(torch.tensor([[1, 5, 2], [7, 0, 3]]), dim=1)
tensor([1, 0])""",
    "bmm": """>>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape
torch.Size([2, 1, 1])""",
    "cat": """>>> x = torch.tensor([[1, 2]])
>>> torch.cat([x, x], dim=0)
tensor([[1, 2],
        [1, 2]])""",
    "chunk": """>>> torch.arange(5).chunk(2)
(tensor([0, 1, 2]), tensor([3, 4]))""",
    "clamp": """>>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
tensor([0.0000, 0.5000, 1.0000])""",
    "clone": """>>> x = torch.zeros(2)
>>> y = x.clone()
>>> y[0] = 1
>>> x
tensor([0., 0.])""",
    "conv2d": """>>> F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
tensor([[[[4., 4.],
          [4., 4.]]]])""",
    "copy_": """>>> torch.zeros(2, 2).copy_(torch.tensor([1, 2]))
tensor([[1., 2.],
        [1., 2.]])""",
    "cos": """>>> torch.cos(torch.tensor([0.0, torch.pi]))
tensor([ 1., -1.])""",
    "dropout": """>>> F.dropout(torch.ones(3), p=0.5, training=False)
tensor([1., 1., 1.])""",
    "empty": """>>> torch.empty(2, 3).shape
torch.Size([2, 3])""",
    "eq": """>>> torch.eq(torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3]))
tensor([ True, False,  True])""",
    "exp": """>>> torch.exp(torch.tensor([0.0, 1.0]))
tensor([1.0000, 2.7183])""",
    "expand": """>>> torch.tensor([[1], [2]]).expand(2, 3)
tensor([[1, 1, 1],
        [2, 2, 2]])""",
    "fill_": """>>> torch.empty(3).fill_(0.5)
tensor([0.5000, 0.5000, 0.5000])""",
    "flatten": """>>> torch.flatten(torch.zeros(2, 3, 4), start_dim=1).shape
torch.Size([2, 12])""",
    "full": """>>> torch.full((2, 2), 7)
tensor([[7, 7],
        [7, 7]])""",
    "gather": """>>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]]))
tensor([[1],
        [4]])""",
    "linspace": """>>> torch.linspace(0, 1, 3)
tensor([0.0000, 0.5000, 1.0000])""",
    "log": """>>> torch.log(torch.tensor([1.0, 10.0]))
tensor([0.0000, 2.3026])""",
    "log_softmax": """>>> F.log_softmax(torch.zeros(2), dim=0)
tensor([-0.6931, -0.6931])""",
    "masked_fill": """>>> x = torch.tensor([1.0, 2.0])
>>> x.masked_fill(x > 1, 0)
tensor([1., 0.])""",
    "matmul": """>>> torch.matmul(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1]))
tensor([3, 7])""",
    "max": """>>> x = torch.tensor([[1, 5], [7, 2]])
>>> torch.max(x)
tensor(7)
>>> values, indices = torch.max(x, dim=1)
>>> indices
tensor([1, 0])""",
    "mean": """>>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 6.0]]), dim=0)
tensor([2., 4.])""",
    "mm": """>>> torch.mm(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor([[1., 2.],
        [3., 4.]])""",
    "mul_": """>>> torch.tensor([1.0, 2.0]).mul_(2)
tensor([2., 4.])""",
    "multinomial": """>>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
tensor([1])""",
    "ones": """>>> torch.ones(2, 3)
tensor([[1., 1., 1.],
        [1., 1., 1.]])""",
    "permute": """>>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
torch.Size([4, 2, 3])""",
    "pow": """>>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
tensor([1., 4., 9.])""",
    "rand": """>>> torch.rand(2).shape
torch.Size([2])""",
    "randint": """>>> bool((torch.randint(0, 10, (5,)) < 10).all())
True""",
    "randn": """>>> g = torch.Generator().manual_seed(0)
>>> torch.randn(3, generator=g)
tensor([ 1.5410, -0.2934, -2.1788])""",
    "relu": """>>> F.relu(torch.tensor([-1.0, 2.0]))
tensor([0., 2.])""",
    "repeat": """>>> torch.tensor([1, 2]).repeat(2, 2)
tensor([[1, 2, 1, 2],
        [1, 2, 1, 2]])""",
    "reshape": """>>> torch.arange(6).reshape(2, -1)
tensor([[0, 1, 2],
        [3, 4, 5]])""",
    "sigmoid": """>>> torch.sigmoid(torch.tensor([0.0]))
tensor([0.5000])""",
    "sin": """>>> torch.sin(torch.tensor([0.0, torch.pi / 2]))
tensor([0., 1.])""",
    "softmax": """>>> F.softmax(torch.tensor([0.0, 0.0, 1.0]), dim=0)
tensor([0.2119, 0.2119, 0.5761])""",
    "sqrt": """>>> torch.sqrt(torch.tensor([4.0, 9.0]))
tensor([2., 3.])""",
    "squeeze": """>>> torch.zeros(1, 3, 1).squeeze().shape
torch.Size([3])""",
    "stack": """>>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
tensor([[1, 3],
        [2, 4]])""",
    "sum": """>>> x = torch.tensor([[1, 2], [3, 4]])
>>> x.sum()
tensor(10)
>>> x.sum(dim=0, keepdim=True)
tensor([[4, 6]])""",
    "t": """>>> torch.tensor([[1, 2], [3, 4]]).t()
tensor([[1, 3],
        [2, 4]])""",
    "tanh": """>>> torch.tanh(torch.tensor([0.0, 1.0]))
tensor([0.0000, 0.7616])""",
    "topk": """>>> torch.topk(torch.tensor([3, 1, 4, 1, 5]), 2).values
tensor([5, 4])""",
    "transpose": """>>> torch.zeros(2, 3).transpose(0, 1).shape
torch.Size([3, 2])""",
    "tril": """>>> torch.tril(torch.ones(2, 2))
tensor([[1., 0.],
        [1., 1.]])""",
    "unsqueeze": """>>> torch.zeros(3).unsqueeze(0).shape
torch.Size([1, 3])""",
    "view": """>>> torch.arange(6).view(3, 2)
tensor([[0, 1],
        [2, 3],
        [4, 5]])""",
    "view_as": """>>> torch.arange(4).view_as(torch.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])""",
    "where": """>>> x = torch.tensor([-1.0, 2.0])
>>> torch.where(x > 0, x, 0.0)
tensor([0., 2.])""",
    "zero_": """>>> torch.ones(2).zero_()
tensor([0., 0.])""",
    "zeros": """>>> torch.zeros(2, dtype=torch.int64)
tensor([0, 0])""",
}
