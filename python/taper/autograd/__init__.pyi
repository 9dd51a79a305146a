# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.autograd.function import Function as Function
class Tensor:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
class Variable:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
from taper.autograd import anomaly_mode as anomaly_mode
def backward(tensors: Any, grad_tensors: Any = ..., retain_graph: Any = ..., create_graph: Any = ..., grad_variables: Any = ..., inputs: Any = ...) -> Any: ...
from taper.autograd.grad_mode import enable_grad as enable_grad
from taper.autograd import forward_ad as forward_ad
from taper.autograd import function as function
from taper.autograd import functional as functional
def grad(outputs: Any, inputs: Any, grad_outputs: Any = ..., retain_graph: Any = ..., create_graph: Any = ..., only_inputs: Any = ..., allow_unused: Any = ..., is_grads_batched: Any = ..., materialize_grads: Any = ...) -> Any: ...
from taper.autograd import grad_mode as grad_mode
from taper.autograd import gradcheck as gradcheck
from taper.autograd import graph as graph
from taper.autograd.grad_mode import inference_mode as inference_mode
from taper.autograd.grad_mode import no_grad as no_grad
from taper.autograd import profiler as profiler
from taper.autograd import profiler_util as profiler_util
from taper.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from taper.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
def variable(*args: Any, **kwargs: Any) -> Any: ...
def __getattr__(name: str) -> Any: ...
