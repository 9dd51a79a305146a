"""torch.nn.modules: the layers, by kind."""
from taper.nn.modules.attention import MultiheadAttention  # noqa: F401
from taper.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: F401
from taper.nn.modules.linear import Bilinear, Identity, Linear  # noqa: F401
from taper.nn.modules.module import Module  # noqa: F401
from taper.nn.modules.rnn import GRU, GRUCell, LSTM, LSTMCell, RNN, RNNBase, RNNCell, RNNCellBase  # noqa: F401
from taper.nn.modules.sparse import Embedding, EmbeddingBag  # noqa: F401
