"""torch.optim._functional: a step of an optimiser as a function of lists (parameters, gradients, states), as each file
of torch.optim has one (`torch.optim.adam.adam`). The table's optimiser does the step, on tensors that share the
parameters' memory."""

# What each list of states is called in the state of a parameter, in the order in which the function takes them.
_STATES = {
    "Adadelta": {"square_avgs": "square_avg", "acc_deltas": "acc_delta", "state_steps": "step"},
    "Adagrad": {"state_sums": "sum", "state_steps": "step"},
    "Adam": {
        "exp_avgs": "exp_avg",
        "exp_avg_sqs": "exp_avg_sq",
        "max_exp_avg_sqs": "max_exp_avg_sq",
        "state_steps": "step",
    },
    "Adamax": {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", "state_steps": "step"},
    "ASGD": {"axs": "ax", "mus": "mu", "etas": "eta", "state_steps": "step"},
    "NAdam": {
        "exp_avgs": "exp_avg",
        "exp_avg_sqs": "exp_avg_sq",
        "mu_products": "mu_product",
        "state_steps": "step",
    },
    "RAdam": {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "state_steps": "step"},
    "RMSprop": {
        "square_avgs": "square_avg",
        "grad_avgs": "grad_avg",
        "momentum_buffer_list": "momentum_buffer",
        "state_steps": "step",
    },
    "Rprop": {"prevs": "prev", "step_sizes": "step_size", "state_steps": "step"},
    "SGD": {"momentum_buffer_list": "momentum_buffer"},
}
_STATES["AdamW"] = _STATES["Adam"]
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
_HOW = ("foreach", "fused", "capturable", "differentiable", "has_complex", "has_sparse_grad")  # not what is computed


def functional(kind):
    """The function of an optimiser's class."""
    lists = _STATES[kind.__name__]

    def step(params, grads, *states, **options):
        for list_name, values in zip(lists, states):
            options[list_name] = values
        states = {key: options.pop(name, None) or [] for name, key in lists.items()}
        if options.pop("grad_scale", None) is not None or options.pop("found_inf", None) is not None:
            raise NotImplementedError(f"{step.__name__}: grad_scale and found_inf are not in Taper yet")
        options = {name: value for name, value in options.items() if name not in _HOW}
        for pair, names in _PAIRS.items():
            if names[0] in options:
                options[pair] = tuple(options.pop(name) for name in names)
        shared = [p.detach() for p in params]
        optimiser = kind(shared, **options)
        for i, (p, grad) in enumerate(zip(shared, grads)):
            p.grad = grad
            kept = {key: values[i] for key, values in states.items() if i < len(values) and values[i] is not None}
            optimiser.state[p] = kept
        optimiser.step()
        for key, values in states.items():  # a first step makes the momentum
            values[:] = [optimiser.state[p].get(key) for p in shared[: len(values)]]

    step.__name__ = step.__qualname__ = kind.__name__.lower()
    step.__doc__ = f"One step of {kind.__name__} on lists of parameters, gradients and states."
    return step


def __getattr__(name):  # the files import this one
    if name not in map(str.lower, _STATES):
        raise AttributeError(f"module 'torch.optim._functional' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("taper.optim." + name), name)
