"""paddle.init: process-wide options, from PADDLE_INIT_* environment variables and keywords."""

import logging
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import pd_core as pd

__all__ = ["Settings", "configure_logging", "current", "gpu_available", "init"]

_ENV_PREFIX = "PADDLE_INIT_"
_SMT_STATE = Path("/sys/devices/system/cpu/smt/active")
_TRUTH = {
    **dict.fromkeys(("1", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no"), False),
}

# fmt: off
_BOOLEANS = {
    "log_clipping", "log_error_clipping", "parallel_nn", "prev_batch_state", "rnn_use_batch",
    "show_layer_stat", "use_gpu", "use_mkl_packed", "use_mkldnn", "use_nnpack",
}
_INTEGERS = {
    "beam_size", "gpu_id", "num_gradient_servers", "port", "ports_num", "ports_num_for_sparse",
    "seed", "trainer_count", "trainer_id",
}
# What would change results in 2017, or where they are computed, and does not here, with its
# default.
_WITHOUT_EFFECT = {
    "beam_size": 1, "diy_beam_search_prob_so": "", "parallel_nn": False, "prev_batch_state": False,
}
# Other flags of 2017's core, kept as given: they are about `paddle train`, parameter servers,
# libraries, speed and logs, so nothing that a script of v2 computes depended on them.
_OTHERS = {
    "allow_inefficient_sparse_update", "allow_only_one_model_on_one_gpu", "alsologtostderr",
    "async_count", "async_lagged_ratio_default", "async_lagged_ratio_min", "average_test_period",
    "check_sparse_distribution_batches", "check_sparse_distribution_in_pserver",
    "check_sparse_distribution_ratio", "check_sparse_distribution_unbalance_degree",
    "checkgrad_eps", "colorlogtostderr", "comment", "config", "config_args", "cuda_dir",
    "cudnn_conv_workspace_limit_in_mb", "cudnn_dir", "cupti_dir", "distribute_test",
    "dot_period", "enable_grad_share", "enable_parallel_vector", "feat_file", "feed_data",
    "gpu_block_size", "grad_share_block_num", "init_model_path", "job", "lapack_dir",
    "load_missing_parameter_strategy", "loadsave_parameters_in_pserver", "local",
    "log_barrier_abstract", "log_barrier_lowest_nodes", "log_barrier_show_log", "log_dir",
    "log_period", "log_period_server", "logtostderr", "max_log_size",
    "memory_threshold_on_load_data", "minloglevel", "model_list", "nccl_dir", "nics",
    "nnpack_allocate_outside", "nnpack_num_threads", "num_passes",
    "parallel_thread_num", "parameter_block_size", "parameter_block_size_for_sparse",
    "predict_file", "predict_output_dir",
    "pserver_num_threads", "pservers", "rdma_tcp", "save_dir", "save_only_one", "saving_period",
    "saving_period_by_batches", "show_check_sparse_distribution_log",
    "show_parameter_stats_period", "small_messages", "sock_listen_queue_size",
    "sock_recv_buf_size", "sock_send_buf_size", "start_pass", "start_pserver",
    "stderrthreshold", "test_all_data_in_one_period", "test_pass", "test_period", "test_wait",
    "thread_local_rand_use_global_seed", "use_old_updater", "v", "vmodule", "warpctc_dir",
    "with_cost",
}
# fmt: on


@dataclass(frozen=True)
class Settings:
    """What init() has set, where `flags` is all that was given.

    `use_gpu` is that of the keyword, which the configuration of some layers depends on, and holds
    only where there is a GPU.
    """

    use_gpu: bool = False
    trainer_count: int = 1
    seed: int = 1
    flags: dict = field(default_factory=dict)


@dataclass
class _Process:
    settings: Settings = field(default_factory=Settings)
    warned_of_no_gpu: bool = False


_process = _Process()


def current():
    """The Settings of this process; the defaults before init()."""
    return _process.settings


def init(**kwargs):
    """Set options of the process; keywords win over PADDLE_INIT_* environment variables.

    Calling it again changes the options it is given and keeps the others. Any option is taken; one
    warning names those that mean nothing here. As in 2017 only keywords reach the thread counts
    and the configuration of layers. With `use_gpu` the process trains on the GPU `gpu_id`, if it
    says so before any parameter has a value.
    """
    given = {**_from_environment(), **kwargs}
    parsed = {name: _parsed(name, value) for name, value in given.items()}
    _warn_of_no_effect(parsed)
    before = _process.settings
    flags = {**before.flags, **parsed}
    set_omp_mkl_env_vars(parsed["trainer_count"] if "trainer_count" in kwargs else 1)
    has_gpu = flags.get("use_gpu", False) and _gpu_or_warning()
    use_gpu = has_gpu if "use_gpu" in kwargs else before.use_gpu
    if "use_gpu" in parsed:
        _use_device(f"cuda:{flags.get('gpu_id', 0)}" if has_gpu else "cpu")
    _process.settings = Settings(
        use_gpu, flags.get("trainer_count", 1), flags.get("seed", 1), flags
    )


def configure_logging():
    """The format of 2017's log lines, to stderr; the logger 'paddle' reports from INFO on."""
    logging.basicConfig(format="[%(levelname)s %(asctime)s %(filename)s:%(lineno)s] %(message)s")
    logging.getLogger("paddle").setLevel(logging.INFO)


def gpu_available():
    """Whether ONNX Runtime can use a GPU here."""
    return len(pd.devices()) > 1


def set_omp_mkl_env_vars(trainer_count):
    """Thread counts and affinity for OpenMP and MKL libraries, where the user has not set them."""
    hyper_threading = _SMT_STATE.exists() and _SMT_STATE.read_text().strip() == "1"
    threads = str(max(1, (os.cpu_count() or 1) // trainer_count))
    os.environ.setdefault("OMP_NUM_THREADS", threads)
    os.environ.setdefault("MKL_NUM_THREADS", threads)
    os.environ.setdefault("OMP_DYNAMIC", "true" if hyper_threading else "false")
    permute = "1" if hyper_threading else "0"
    os.environ.setdefault("KMP_AFFINITY", f"granularity=fine,compact,{permute},0")


def _from_environment():
    return {
        name.removeprefix(_ENV_PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(_ENV_PREFIX)
    }


def _parsed(name, value):
    """The value of an option as its type, written like on gflags' command line."""
    if name in _BOOLEANS:
        truth = _TRUTH.get(str(value).lower())
        if truth is None:
            raise ValueError(f"init: {name} must be true or false, got {value!r}")
        return truth
    if name in _INTEGERS:
        return _integer(name, value)
    return value


def _integer(name, value):
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"init: {name} must be an integer, got {value!r}") from None
    if name == "trainer_count" and number < 1:
        raise ValueError(f"init: trainer_count must be at least 1, got {number}")
    return number


def _warn_of_no_effect(given):
    changed = [
        f"{name}={given[name]!r}"
        for name, default in _WITHOUT_EFFECT.items()
        if given.get(name, default) != default
    ]
    unknown = sorted(given.keys() - _BOOLEANS - _INTEGERS - _OTHERS - _WITHOUT_EFFECT.keys())
    named = [*changed, *(f"{name} (unknown)" for name in unknown)]
    if named:
        warnings.warn(f"init: options without effect: {', '.join(named)}", stacklevel=3)


def _use_device(device):
    """Train there from now on, unless parameters have values elsewhere already."""
    try:
        pd.use_device(device)
    except pd.PlaceError as error:
        warnings.warn(f"init: {error}", stacklevel=3)


def _gpu_or_warning():
    """Whether there is a GPU; the first time that there is none, say so."""
    found = gpu_available()
    if not found and not _process.warned_of_no_gpu:
        _process.warned_of_no_gpu = True
        warnings.warn("init: use_gpu=True, but there is no GPU: the CPU is used", stacklevel=3)
    return found
