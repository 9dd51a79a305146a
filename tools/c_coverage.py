"""Which of PyTorch's public names C has: writes docs/c-coverage.md from python/taper/_names.txt.gz and the headers.

    tools/c_coverage.py BUILD_FOLDER [OUTPUT]

A name counts as covered if a C function of the same name is there (by the rules in `candidates`), or the one that
`OTHERWISE` names. Names that make no sense in C are left out, with the reason of the first pattern that fits."""

import glob
import gzip
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMESPACES = {
    "torch": "",
    "torch.nn": "",
    "torch.nn.functional": "",
    "torch.nn.init": "init_",
    "torch.nn.utils": "",
    "torch.nn.utils.rnn": "",
    "torch.nn.utils.prune": "prune_",
    "torch.nn.attention": "",
    "torch.optim": "",
    "torch.optim.lr_scheduler": "",
    "torch.optim.swa_utils": "",
    "torch.autograd": "",
    "torch.autograd.functional": "",
    "torch.func": "",
    "torch.amp": "",
    "torch.linalg": "linalg_",
    "torch.fft": "fft_",
    "torch.special": "special_",
    "torch.signal.windows": "signal_windows_",
    "torch.utils.data": "",
    "torch.utils.checkpoint": "",
    "torch.utils.dlpack": "",
    "torch.utils.tensorboard": "",
    "torch.profiler": "",
    "torch.random": "",
    "torch.distributions": "distribution_",
    "torch.distributed": "dist_",
    "torch.distributed.device_mesh": "dist_",
    "torch.distributed.fsdp": "fsdp_",
    "torch.distributed.pipelining": "pipeline_",
    "torch.distributed.checkpoint": "checkpoint_",
    "torch.sparse": "sparse_",
}
# Where C says it otherwise.
OTHERWISE = {
    "Generator": "tp_generator_new", "default_generator": "tp_default_generator", "manual_seed": "tp_manual_seed",
    "get_rng_state": "tp_generator_get_state", "set_rng_state": "tp_generator_set_state",
    "initial_seed": "tp_generator_initial_seed", "seed": "tp_generator_seed_anew", "save": "tp_save", "load": "tp_load",
    "tensor": "tp_from_data", "as_tensor": "tp_from_data", "asarray": "tp_from_data", "from_numpy": "tp_over_data",
    "frombuffer": "tp_over_data", "from_file": "tp_storage_from_file", "detach": "tp_detach", "numel": "tp_numel",
    "is_tensor": "tp_numel", "is_floating_point": "tp_dtype_is_floating", "is_complex": "tp_dtype_is_complex",
    "is_conj": "tp_is_conj", "is_neg": "tp_is_neg", "is_inference": "tp_is_inference", "get_device": "tp_device_of",
    "is_grad_enabled": "tp_grad_enabled", "is_inference_mode_enabled": "tp_inference_enabled",
    "get_default_dtype": "tp_default_dtype", "get_default_device": "tp_default_device",
    "get_num_threads": "tp_num_threads", "get_num_interop_threads": "tp_num_interop_threads",
    "set_printoptions": "tp_set_print_options", "use_deterministic_algorithms": "tp_set_deterministic",
    "are_deterministic_algorithms_enabled": "tp_deterministic", "get_deterministic_debug_mode": "tp_deterministic",
    "set_deterministic_debug_mode": "tp_set_deterministic", "is_deterministic_algorithms_warn_only_enabled": "tp_deterministic",
    "no_grad": "tp_grad_mode_enter", "enable_grad": "tp_grad_mode_enter", "inference_mode": "tp_grad_mode_enter",
    "set_grad_enabled": "tp_set_grad_enabled", "autocast": "tp_autocast_enter", "GradScaler": "tp_scaler_new_with",
    "is_autocast_enabled": "tp_autocast_enabled", "is_autocast_cpu_enabled": "tp_autocast_enabled",
    "get_autocast_dtype": "tp_autocast_dtype", "get_autocast_cpu_dtype": "tp_autocast_dtype", "get_autocast_gpu_dtype": "tp_autocast_dtype",
    "set_autocast_cpu_dtype": "tp_set_autocast_dtype", "set_autocast_gpu_dtype": "tp_set_autocast_dtype",
    "set_autocast_cpu_enabled": "tp_set_autocast_enabled", "is_autocast_cache_enabled": "tp_autocast_cache_enabled",
    "autocast_increment_nesting": "tp_autocast_nest", "autocast_decrement_nesting": "tp_autocast_nest",
    "is_anomaly_enabled": "tp_anomaly_enabled", "is_anomaly_check_nan_enabled": "tp_anomaly_checks_nan",
    "set_anomaly_enabled": "tp_set_anomaly", "detect_anomaly": "tp_set_anomaly", "set_detect_anomaly": "tp_set_anomaly",
    "compile": "tp_capture_begin", "vmap": "tp_vmap", "split": "tp_split", "Stream": "tp_stream_new", "Event": "tp_mark_new",
    "promote_types": "tp_promote_types", "can_cast": "tp_can_cast", "set_default_dtype": "tp_set_default_dtype",
    "UntypedStorage": "tp_storage_new", "result_type": "tp_promote_types",
    "LeakyReLU": "tp_nn_leaky_relu_with", "Module": "tp_module_new", "Sequential": "tp_nn_sequential_of", "ModuleList": "tp_module_add", "ModuleDict": "tp_module_add",
    "ParameterList": "tp_module_add_parameter", "ParameterDict": "tp_module_add_parameter", "Parameter": "tp_module_add_parameter",
    "Buffer": "tp_module_add_buffer", "TransformerEncoder": "tp_nn_transformer_encoder", "TransformerDecoder": "tp_nn_transformer_decoder",
    "clip_grad_norm_": "tp_clip_grad_norm", "clip_grad_norm": "tp_clip_grad_norm", "clip_grad_value_": "tp_clip_grad_value",
    "clip_grads_with_norm_": "tp_clip_to_norm", "get_total_norm": "tp_total_norm", "weight_norm": "tp_weight_norm",
    "remove_weight_norm": "tp_unparametrize", "spectral_norm": "tp_spectral_norm", "remove_spectral_norm": "tp_unparametrize",
    "PackedSequence": "tp_pack_sequence", "pack_padded_sequence": "tp_pack_padded_sequence",
    "prune_l1_unstructured": "tp_prune_l1", "prune_random_unstructured": "tp_prune_random", "prune_custom_from_mask": "tp_prune_mask",
    "prune_global_unstructured": "tp_prune_global_l1", "prune_is_pruned": "tp_is_pruned", "prune_remove": "tp_unparametrize",
    "prune_L1Unstructured": "tp_prune_l1", "prune_RandomUnstructured": "tp_prune_random", "prune_Identity": "tp_prune_identity",
    "prune_LnStructured": "tp_prune_ln_structured", "prune_RandomStructured": "tp_prune_random_structured", "prune_CustomFromMask": "tp_prune_mask",
    "init_calculate_gain": "tp_init_gain", "unpack_sequence": "tp_unpad_sequence", "pad_packed_sequence": "tp_pad_packed_sequence",
    "AveragedModel": "tp_average_new", "get_ema_avg_fn": "tp_average_new", "get_ema_multi_avg_fn": "tp_average_new",
    "get_swa_avg_fn": "tp_average_new", "get_swa_multi_avg_fn": "tp_average_new", "update_bn": "tp_update_bn",
    "Optimizer": "tp_optimiser_new", "LRScheduler": "tp_schedule_new", "backward": "tp_backward_with", "grad": "tp_gradients",
    "Function": "tp_apply", "Variable": "tp_set_requires_grad", "hessian": "tp_hessian", "jacobian": "tp_jacobian", "vhp": "tp_hvp",
    "hvp": "tp_hvp", "vjp": "tp_vjp", "jvp": "tp_jvp", "jacrev": "tp_jacobian", "jacfwd": "tp_jacobian", "grad_and_value": "tp_vjp",
    "linearize": "tp_jvp", "Dataset": "tp_dataset_new", "TensorDataset": "tp_dataset_of_tensors", "ConcatDataset": "tp_dataset_concat",
    "Subset": "tp_dataset_subset", "random_split": "tp_dataset_random_split", "DataLoader": "tp_loader_new_with",
    "Sampler": "tp_sampler_draw", "RandomSampler": "tp_sampler_random", "SequentialSampler": "tp_sampler_sequential",
    "SubsetRandomSampler": "tp_sampler_subset_random", "WeightedRandomSampler": "tp_sampler_weighted",
    "DistributedSampler": "tp_sampler_distributed", "BatchSampler": "tp_reader_ask", "checkpoint": "tp_checkpoint",
    "from_dlpack": "tp_from_dlpack", "to_dlpack": "tp_to_dlpack", "SummaryWriter": "tp_events_open", "FileWriter": "tp_events_open",
    "profile": "tp_profile_start", "record_function": "tp_range_begin", "dist_init_process_group": "tp_dist_init_with",
    "dist_destroy_process_group": "tp_dist_end", "dist_get_rank": "tp_group_rank", "dist_get_world_size": "tp_group_size",
    "dist_new_group": "tp_group_new", "dist_TCPStore": "tp_store_tcp", "dist_FileStore": "tp_store_file", "dist_HashStore": "tp_store_hash",
    "dist_PrefixStore": "tp_store_prefix", "dist_Store": "tp_store_get", "dist_isend": "tp_dist_send", "dist_irecv": "tp_dist_recv",
    "dist_all_gather_into_tensor": "tp_dist_all_gather_into", "dist_reduce_scatter_tensor": "tp_dist_reduce_scatter_of",
    "dist_Work": "tp_dist_wait", "dist_ProcessGroup": "tp_group_new", "dist_ReduceOp": "tp_dist_all_reduce", "dist_GroupMember": "tp_group_new",
    "dist_is_available": "tp_dist_available", "dist_is_initialized": "tp_dist_world", "dist_is_mpi_available": "tp_dist_available",
    "dist_is_nccl_available": "tp_dist_available", "dist_is_gloo_available": "tp_dist_available", "dist_get_backend": "tp_dist_engine",
    "dist_get_global_rank": "tp_group_global_rank", "dist_get_group_rank": "tp_group_rank", "dist_group": "tp_group_new",
    "dist_reduce_op": "tp_dist_all_reduce", "dist_monitored_barrier": "tp_dist_barrier", "dist_Backend": "tp_dist_engine",
    "dist_is_torchelastic_launched": "tp_dist_query", "sparse_mm": "tp_sparse_mm_rows", "sparse_addmm": "tp_sparse_mm_coo",
    "distribution_kl_divergence": "tp_distribution_kl", "distribution_Distribution": "tp_distribution_log_prob",
    "sparse_sampled_addmm": "tp_sparse_dots", "sparse_coo_tensor": "tp_sparse_from_coo", "sparse_csr_tensor": "tp_sparse_from_csr",
    "SWALR": "tp_swa_lr", "StackDataset": "tp_dataset_stack", "is_nonzero": "tp_item", "invert_permutation": "tp_invert_permutation",
    "dist_batch_isend_irecv": "tp_dist_send", "dist_all_gather_single": "tp_dist_all_gather_into",
    "dist_reduce_scatter_single": "tp_dist_reduce_scatter_of", "dist_get_node_local_rank": "tp_dist_query",
    "dist_get_process_group_ranks": "tp_group_global_rank", "dist_is_backend_available": "tp_dist_available",
    "dist_set_timeout": "tp_group_set_timeout", "dist_split_group": "tp_group_new",
    "dist_new_subgroups_by_enumeration": "tp_group_new", "default_collate": "tp_loader_next",
    "quantize_per_tensor": "tp_quantize_per_tensor", "choose_qparams_optimized": "tp_choose_qparams",
    "distribution_TransformedDistribution": "tp_distribution_transformed", "distribution_Transform": "tp_transform_new",
    "dist_DeviceMesh": "tp_mesh_new", "dist_init_device_mesh": "tp_mesh_new", "dist_new_subgroups": "tp_group_new_subgroups",
    "fsdp_fully_shard": "tp_fsdp_new_with", "fsdp_FullyShardedDataParallel": "tp_fsdp_new_with",
    "fsdp_FlatParameter": "tp_fsdp_parts", "fsdp_UnshardHandle": "tp_fsdp_unshard", "fsdp_FSDPModule": "tp_fsdp_reshard",
    "pipeline_PipelineStage": "tp_pipeline_new_with", "pipeline_Schedule1F1B": "tp_pipeline_step",
    "pipeline_ScheduleGPipe": "tp_pipeline_step", "pipeline_ScheduleInterleaved1F1B": "tp_pipeline_step",
    "pipeline_ScheduleLoopedBFS": "tp_pipeline_step", "pipeline_build_stage": "tp_pipeline_new_with",
    "checkpoint_save": "tp_checkpoint_save", "checkpoint_load": "tp_checkpoint_load",
    "checkpoint_save_state_dict": "tp_checkpoint_save", "checkpoint_load_state_dict": "tp_checkpoint_load",
    "checkpoint_async_save": "tp_checkpoint_save_async", "checkpoint_FileSystemReader": "tp_checkpoint_load",
    "checkpoint_FileSystemWriter": "tp_checkpoint_save", "checkpoint_SavePlan": "tp_checkpoint_plan",
    "checkpoint_LoadPlan": "tp_box_overlap", "lu": "tp_linalg_lu_factor",
    "resize_as_": "tp_resize", "TripletMarginWithDistanceLoss": "tp_triplet_margin_with_distance_loss",
}  # fmt: skip
REASONS = [
    (
        r"(\w+(Planner|Metadata|Item|Exception|Reader|Writer)|Metadata)$",
        "classes by which Python programs change how checkpoints are planned and stored",
        "torch.distributed.checkpoint",
    ),
    (r"(pipe_split|SplitPoint)$", "cut a traced Python program into stages", "torch.distributed.pipelining"),
    (
        r"(cpp|torch|windows|ErrorReport|JITException|ExponentialFamily|factory_kwargs|default_pg_timeout|DataChunk)$|.*(Type|Storage|Tensor|StorageBase|TypeBuilder|ArgumentSpec|Options|Config|Error|Backend|Context|Pipe|Observer)$|(BC|[A-Z]+_[A-Z_]+$)",
        "Python's classes, exceptions and constants",
        "",
    ),
    (
        r".*(jit|ir_module|schema|parse_|type_comment|sym_|Sym|[sS]cript|trace|fork|wait|export|fx|dynamo|while_loop|cond$|datapipe|validation|deterministi|vm_|flex_|varlen)|(Code|Graph\w*|Node|Block|Value|Use|Capsule|\w*Logger\w*|Future|unify_type_list|AliasDb|Argument|CallStack|CompilationUnit|FileCheck|Gradient|ExecutionPlan|StaticModule|TracingState|IODescriptor|DeepCopy\w*|PyTorchFile\w+|OperatorInfo|Const\w+)$",
        "tracing, scripting and pipes of Python objects: C has tp_capture_begin, tp_script_load, its own datasets",
        "",
    ),
    (
        r"(u?int\d+|q?u?int\d+(x\d)?|float\d+\w*|b?float16|complex\d+|bcomplex32|bits\d\w*|half|float|double|long|short|int|bool|c(half|float|double)|strided|jagged|sparse_(coo|cs[rc]|bs[rc])|\w+_format|channels_last\w*|per_\w+|inf|nan|pi|e|newaxis|finfo|iinfo|dtype|device|layout|qscheme|Size|SUM|AVG|Tag|ScalingType|SwizzleType|DLDeviceType)$",
        "constants and types: enumerations and structs in C",
        "",
    ),
    (
        r".*(cudnn|miopen|mkldnn|fbgemm|mps|xla|ipu|vulkan|mtia|ucc|xccl|flash_attention|efficient_attention|SDP|sdpa|cufft|cusolver|kineto|itt|Cuspy|fbcode)",
        "one vendor's or one kernel's entry: devices choose by themselves",
        "",
    ),
    (
        r".*(quantiz|quantized|q_scale|q_zero|q_per|int_repr|fake_quant|obs_|qat|intrinsic|scaled_(grouped_)?(add)?mm)",
        "quantized tensors are Python's",
        "",
    ),
    (r".*(Lazy|lazy|Uninitialized|materialize)", "lazy modules: sizes are known in C", ""),
    (r".*(_object|_object_list|object_list)$", "collectives of pickled Python objects", ""),
    (
        r"(biject_to|transform_to|identity_transform)$|\w*(_notes|common_args|_common|_mode|_handlers?|debug\w*|_hook|_util|_policy|_unwrap|_legacy|_compat\w*)$",
        "Python's documentation and debugging aids",
        "",
    ),
    (
        r"(\w+_copy|unsafe_\w+|batch_norm_\w+|native_\w+|slice_\w+|resize_as_sparse_|hash_tensor|embedding_renorm_|\w+_with_indices|segment_reduce|grid_sampler\w*|affine_grid_generator|conv_tbc|nonzero_static|saddmm|smm|spmm|sspaddmm|hsmm|hspmm|dsmm|solve|lstsq|eig|symeig|matrix_rank|frobenius_norm|nuclear_norm)$",
        "an internal, older or removed form of an operator that is there",
        "",
    ),
    (
        r"(_\w+|has_\w+|compiled_with\w*|USE_\w+|PRIVATE_\w+|is_storage|is_distributed|\w*warn_always\w*|typename|classproperty|TYPE_CHECKING|annotations|Any|Callable|Optional|Union|cast|overload|deprecated|partial|prepare_multi\w*|set_default_tensor_type|thread_safe\w*|init_num_threads|get_file_path|import_\w+|merge_\w+|is_same_size|is_signed|is_tensor_like|set_flush_denormal|init|Disable\w*|Exclude\w*|Throughput\w*|Benchmark\w*|Aggregation\w*|Dispatch\w*|LiteScript\w*|Inferred\w*|Function[A-Z]\w*|ops|classes|library|hub|bit|BufferDict|get_device_module|ABC|Enum|importlib|math|bind|PackedSequence_|handle_torch\w*|boolean_dispatch|BroadcastingList\d|DType|GRID_\w+|assert_int_or_pair|reproducibility_notes|skip_init|fuse_\w+|convert_\w+|RNNBase|RNNCellBase|Container|DataParallel|register_\w+|swap_in_\w+|custom_[bf]wd|default_convert|get_worker_info|rearrange|functionalize|NestedIO\w+|Profiler\w*|ExecutionTrace\w*|KinetoStep\w*|RecordScope|supported_activities|\w*multithreading\w*|\w*view_replay\w*|enforce_grad_layout\w*|ReadOnly\w*|Reducer|GradBucket|Builtin\w*|P2POp|ProcessGroup\w+|DebugLevel|breakpoint|launch|run|record_comm|remote_device|rendezvous|get_backend_\w+|get_pg_count|set_debug\w*|get_debug\w*|supports_complex|constants|config|CheckpointFunction|CheckpointPolicy|GraphExecGroup|check_\w+|detach_variable|noop_context_fn|\w*device_states|set_checkpoint_\w+|DefaultDeviceType|create_selective\w*)$",
        "helpers of Python's own",
        "",
    ),
    (
        r"(\w*sparse\w*|to_dense|sum|log_softmax|softmax|spdiags|spsolve|semi_\w+|as_sparse_gradcheck)$",
        "sparse tensors of other kinds, and what Python makes of them; C has COO and CSR (sparse.h)",
        "torch.sparse",
    ),
]


MODULES = "modules, not functions"


def wrapped(line, indent="  "):
    return textwrap.wrap(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def snake(name):
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def c_names(build):
    names = set()
    for path in glob.glob(os.path.join(ROOT, "include/taper/*.h")) + glob.glob(
        os.path.join(build, "generated/include/taper/*.h")
    ):
        text = open(path).read()
        names.update(re.findall(r"\b(tp_\w+)\s*\(", text))
        names.update(re.findall(r"#define (tp_\w+)", text))
    return names


def candidates(prefix, name):
    plain = name.rstrip("_")
    lower = snake(plain)
    if prefix == "distribution_":  # operators have some of these names
        yield f"tp_distribution_{lower}"
        if name.endswith("Transform"):
            yield "tp_transform_" + lower[: -len("_transform")]
        return
    yield from (
        f"tp_{prefix}{name}",
        f"tp_{prefix}{plain}",
        f"tp_{plain}",
        f"tp_{prefix}{lower}",
        f"tp_nn_{lower}",
        f"tp_{lower}",
    )
    yield from (f"tp_nn_{plain.lower()}", f"tp_{plain.lower()}", f"tp_{lower.replace('_lr', '')}")


def found(names, prefix, name):
    wanted = OTHERWISE.get(prefix + name) or (OTHERWISE.get(name) if prefix != "distribution_" else None)
    if wanted and wanted in names:
        return wanted
    for c in candidates(prefix, name):
        if c in names or c + "_with" in names:
            return c
        if any(n.startswith(c + "_") for n in names) and len(c) > 5:
            return c + "_..."
    return None


def reason(namespace, name):
    for pattern, why, only in REASONS:
        if (not only or only == namespace) and re.match(pattern, name):
            return why
    return None


def main():
    names = c_names(sys.argv[1])
    lines = gzip.open(os.path.join(ROOT, "python/taper/_names.txt.gz"), "rt").read().split("\n")
    listed = dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("#"))
    rows, missing, left_out = [], {}, {}
    for namespace, prefix in NAMESPACES.items():
        have = lack = 0
        for name in listed.get(namespace, "").split():
            why = MODULES if f"{namespace}.{name}" in listed else None
            if not why and found(names, prefix, name):
                have += 1
                continue
            why = why or reason(namespace, name)
            if why:
                left_out.setdefault(why, []).append(f"{namespace}.{name}")
            else:
                lack += 1
                missing.setdefault(namespace, []).append(name)
        if have + lack:
            rows.append((namespace, have, have + lack))
    have, all_names = sum(r[1] for r in rows), sum(r[2] for r in rows)
    out = [
        "# What C has of Python's names",
        "",
        "`tools/c_coverage.py` writes this page: PyTorch's public names that make sense in C, and which of",
        "them the C API has, under the same name or another.",
        "",
    ]
    out += ["| namespace | in C | of | share |", "|---|---|---|---|"]
    out += [f"| `{n}` | {h} | {a} | {100 * h // a}% |" for n, h, a in rows]
    out += [f"| all | {have} | {all_names} | {100 * have // all_names}% |", "", "## Not in C", ""]
    for n, ms in missing.items():
        out += wrapped(f"- `{n}`: " + ", ".join(f"`{m}`" for m in ms))
    out += ["", "## Left out", "", "| why | names |", "|---|---|"]
    out += [f"| {why} | {len(ns)} |" for why, ns in left_out.items()]
    for why, ns in left_out.items():
        if why != MODULES:
            names_of_why = " ".join(n.removeprefix("torch.") for n in sorted(set(ns)))
            out += ["", f"### {why[0].upper()}{why[1:]}", "", "```text", *wrapped(names_of_why, ""), "```"]
    text = "\n".join(out) + "\n"
    open(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "docs/c-coverage.md"), "w").write(text)


if __name__ == "__main__":
    main()
