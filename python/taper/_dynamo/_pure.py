"""Functions of C that a captured call may make: they compute from their arguments and change nothing that another call would miss. A list or dict
that the program keeps is guarded, so that changing it is seen there."""
import builtins
import itertools
import math
import operator

import taper._C as _C

_BUILTINS = """abs all any ascii bin callable chr divmod format getattr globals hasattr hash hex id isinstance issubclass iter len locals max min oct ord pow repr round
setattr sorted sum vars __build_class__""".split()
_TYPES = (str, bytes, list, tuple, dict, set, frozenset, int, float, complex, bool, range, slice, type, object)
# Natives of the package that do more than compute: files, settings, memory, hooks, arrays. Graphs know what backward and steps of optimisers do.
_IMPURE = """_dataset_cifar _dataset_mnist _dataset_of_file _dataset_of_tensors _lbfgs_step _optimiser _profile_start
_profile_stop _push_saved_hooks _pop_saved_hooks _read_file _read_idx _save_named _set_deterministic _set_print_options _write_file _write_pieces _write_pt _unscale_gradients
_from_dlpack _to_dlpack from_numpy frombuffer set_anomaly_enabled set_default_device set_default_dtype set_num_interop_threads set_num_threads
register_hook register_post_accumulate_grad_hook requires_grad_ resize_ resize_as_ retain_grad set_ numpy __array__ data_ptr const_data_ptr untyped_storage as_subclass
__reduce__ __repr__ _format manual_seed seed initial_seed get_state set_state get_offset set_offset new_tensor _legacy_tensor new detach_""".split()


def tell():
    """Hands the lists to the extension."""
    from opcode import opmap
    pure = {getattr(builtins, name) for name in _BUILTINS if hasattr(builtins, name)}
    for kind in _TYPES:
        pure.update(value for value in vars(kind).values() if type(value).__name__ in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method"))
        pure.update(getattr(kind, name) for name in vars(kind) if type(getattr(kind, name, None)).__name__ == "builtin_function_or_method")
    for module in (math, operator, itertools):
        pure.update(value for value in vars(module).values() if callable(value) and not isinstance(value, type))
    import warnings
    pure.add(warnings.warn)
    _C._graph_functions(frozenset(f for f in pure if f.__hash__ is not None), frozenset(_IMPURE), opmap["STORE_GLOBAL"])
