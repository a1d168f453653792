"""paddle.init: process-wide options, from PADDLE_INIT_* environment variables and keywords."""

import logging
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pd_core as pd
from pd_core.training.precision import checked_precision

from .warning import warn

__all__ = ["Settings", "configure_logging", "current", "gpu_available", "init"]

_ENV_PREFIX = "PADDLE_INIT_"
_SMT_STATE = Path("/sys/devices/system/cpu/smt/active")
_TRUTH = {
    **dict.fromkeys(("1", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no"), False),
}

# fmt: off
_BOOLEANS = {
    "check_numerics", "log_clipping", "log_error_clipping", "parallel_nn", "prev_batch_state",
    "rnn_use_batch", "show_layer_stat", "use_gpu", "use_mkl_packed", "use_mkldnn", "use_nnpack",
}
_INTEGERS = {
    "beam_size", "gpu_id", "num_gradient_servers", "port", "ports_num", "ports_num_for_sparse",
    "seed", "trainer_count", "trainer_id",
}
# Options with their defaults that changed results or their device in 2017, and do not here.
_WITHOUT_EFFECT = {
    "beam_size": 1, "diy_beam_search_prob_so": "", "parallel_nn": False, "prev_batch_state": False,
}
# Other flags of 2017's core, stored as they are given: they concern `paddle train`, parameter
# servers, libraries, speed and logs, and changed no result of a v2 script.
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
    """The options that init() has set; `flags` holds all of them.

    `use_gpu` is that of the keyword, on which the configuration of some layers depends; it is False
    where there is no GPU.
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
    """Return the Settings of this process; the defaults before init()."""
    return _process.settings


def init(**kwargs):
    """Set options of the process; keywords override PADDLE_INIT_* environment variables.

    Calling it again changes only the given options. Any option is accepted; one warning names those
    without effect. As in 2017 thread counts and the configuration of layers depend on keywords
    only. With `use_gpu` the process trains on the GPU `gpu_id`, if that is set before any parameter
    has a value.
    """
    options = {**_from_environment(), **kwargs}
    parsed = {name: _parsed(name, value) for name, value in options.items()}
    parsed.update(_place_in_job(parsed))
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


def set_flag(name, value):
    """Set one option, as `init` would; a later `init` that names it overrides it."""
    before = _process.settings
    _process.settings = replace(before, flags={**before.flags, name: value})


def configure_logging():
    """Log to stderr in 2017's format; the level of the logger 'paddle' is INFO."""
    logging.basicConfig(format="[%(levelname)s %(asctime)s %(filename)s:%(lineno)s] %(message)s")
    logging.getLogger("paddle").setLevel(logging.INFO)


def gpu_available():
    """Return whether ONNX Runtime can use a GPU here."""
    return any(name.startswith("cuda:") for name in pd.devices())


def set_omp_mkl_env_vars(trainer_count):
    """Set the thread counts and affinity of OpenMP and MKL, unless the user has set them."""
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
    """Parse the value of an option, which may be text as on gflags' command line."""
    if name in _BOOLEANS:
        truth = _TRUTH.get(str(value).lower())
        if truth is None:
            raise ValueError(f"init: {name} must be true or false, got {value!r}")
        return truth
    if name in _INTEGERS:
        return _integer(name, value)
    return checked_precision(value) if name == "precision" else value


def _place_in_job(options):
    """Return the place of this process in an MPI job; warn, once, of options that disagree."""
    if pd.distributed.world_size() == 1:
        return {}
    rank, ranks = pd.distributed.rank(), pd.distributed.world_size()
    place = {"num_gradient_servers": ranks, "trainer_id": rank}
    other = {n: options[n] for n, value in place.items() if options.get(n, value) != value}
    # rank 0 does not see that all ranks were given its number
    if other and rank == (1 if other == {"trainer_id": 0} else 0):
        text = ", ".join(f"{name}={value}" for name, value in other.items())
        warn(f"init: {text}: this job has {ranks} trainers, and trainer_id is the rank of each")
    return place


def _integer(name, value):
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"init: {name} must be an integer, got {value!r}") from None
    if name == "trainer_count" and number < 1:
        raise ValueError(f"init: trainer_count must be at least 1, got {number}")
    return number


def _warn_of_no_effect(options):
    changed = [
        f"{name}={options[name]!r}"
        for name, default in _WITHOUT_EFFECT.items()
        if options.get(name, default) != default
    ]
    known = _BOOLEANS | _INTEGERS | _OTHERS | {"precision"}
    unknown = sorted(options.keys() - known - _WITHOUT_EFFECT.keys())
    ineffective = [*changed, *(f"{name} (unknown)" for name in unknown)]
    if ineffective:
        warn(f"init: options without effect: {', '.join(ineffective)}")


def _use_device(device):
    """Train on a device from now on, unless parameters have values on another one already."""
    try:
        pd.use_device(device)
    except pd.PlaceError as error:
        warn(f"init: {error}")


def _gpu_or_warning():
    """Return whether there is a GPU; warn the first time that there is none."""
    available = gpu_available()
    if not available and not _process.warned_of_no_gpu:
        _process.warned_of_no_gpu = True
        warn("init: use_gpu=True, but there is no GPU: the CPU is used")
    return available
