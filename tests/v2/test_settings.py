import logging
import os
import warnings

import pytest

import pd_core as pd
from pd_v2 import settings


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """Default settings, an environment without our variables, and no GPU."""
    monkeypatch.setattr(settings, "_process", settings._Process())
    for name in list(os.environ):
        if name.startswith(("PADDLE_INIT_", "OMP_", "MKL_", "KMP_")):
            monkeypatch.delenv(name)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_DYNAMIC", "KMP_AFFINITY"):
        monkeypatch.setenv(name, "unset")  # so that monkeypatch restores what init() sets
        monkeypatch.delenv(name)
    monkeypatch.setattr(pd, "devices", lambda: ["cpu"])


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs; the devices that were chosen."""
    chosen = []
    monkeypatch.setattr(pd, "devices", lambda: ["cpu", "cuda:0", "cuda:1"])
    monkeypatch.setattr(pd, "use_device", chosen.append)
    return chosen


def test_defaults_without_init():
    assert settings.current() == settings.Settings(False, 1, 1, {})


def test_defaults_of_what_init_is_not_given():
    settings.init(log_period=20)
    assert settings.current() == settings.Settings(False, 1, 1, {"log_period": 20})


def test_keywords_win_over_the_environment(monkeypatch):
    monkeypatch.setenv("PADDLE_INIT_TRAINER_COUNT", "4")
    monkeypatch.setenv("PADDLE_INIT_SEED", "7")
    monkeypatch.setenv("PADDLE_INIT_PSERVERS", "10.0.0.1")
    settings.init(trainer_count=2)
    current = settings.current()
    assert (current.trainer_count, current.seed) == (2, 7)
    assert current.flags == {"trainer_count": 2, "seed": 7, "pservers": "10.0.0.1"}


def test_a_second_init_keeps_what_it_does_not_name():
    settings.init(seed=5, log_period=20)
    settings.init(trainer_count=3)
    assert settings.current() == settings.Settings(
        False, 3, 5, {"seed": 5, "log_period": 20, "trainer_count": 3}
    )


@pytest.mark.parametrize("value", [True, 1, "1", "t", "True", "YES", "y"])
def test_true_words(value, gpus):
    settings.init(use_gpu=value)
    assert settings.current().use_gpu is True


@pytest.mark.parametrize("value", [False, 0, "0", "f", "FALSE", "no", "n"])
def test_false_words(value):
    settings.init(use_gpu=value)
    assert settings.current().use_gpu is False


def test_no_gpu_warns_once_per_process():
    with pytest.warns(UserWarning, match="use_gpu=True, but there is no GPU") as record:
        settings.init(use_gpu=True)
    assert [warning.filename for warning in record] == [__file__]
    assert settings.current().use_gpu is False
    assert settings.current().flags == {"use_gpu": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.init(use_gpu=True)


def test_unknown_options_are_kept_with_one_warning(monkeypatch):
    monkeypatch.setenv("PADDLE_INIT_NOVEL", "x")
    message = r"init: options without effect: novel \(unknown\), use_gpus \(unknown\)$"
    with pytest.warns(UserWarning, match=message) as record:
        settings.init(use_gpus=True, seed=2)
    assert [warning.filename for warning in record] == [__file__]
    assert settings.current().flags == {"use_gpus": True, "novel": "x", "seed": 2}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"parallel_nn": 1}, "parallel_nn=True"),
        ({"prev_batch_state": "1"}, "prev_batch_state=True"),
        ({"beam_size": 3}, "beam_size=3"),
        ({"diy_beam_search_prob_so": "a.so"}, "diy_beam_search_prob_so='a.so'"),
        (
            {"use_gpu": False, "novel": 1, "parallel_nn": "yes", "beam_size": "5", "log_period": 9},
            "beam_size=5, parallel_nn=True, novel (unknown)",
        ),
    ],
)
@pytest.mark.parametrize("environment", [False, True])
def test_one_warning_names_all_that_mean_nothing_here(options, named, environment, monkeypatch):
    keywords = {} if environment else options
    for name, value in options.items() if environment else ():
        monkeypatch.setenv(f"PADDLE_INIT_{name.upper()}", str(value))
    with pytest.warns(UserWarning) as record:
        settings.init(**keywords)
    assert [str(w.message) for w in record] == [f"init: options without effect: {named}"]
    assert [w.filename for w in record] == [__file__]
    assert settings.current().flags.keys() == options.keys()


def test_options_at_their_defaults_are_accepted():
    settings.init(prev_batch_state=False, beam_size=1, diy_beam_search_prob_so="", port=20134)
    settings.init(parallel_nn=False)
    assert settings.current().flags["parallel_nn"] is False


def test_flags_of_other_programs_of_2017_are_accepted():
    """Flags of `paddle train`, of parameter servers, of libraries and of logging."""
    settings.init(
        use_gpu=False,
        trainer_count=2,
        save_dir="./output",
        dot_period=10,
        log_period=100,
        num_passes=3,
        saving_period_by_batches=50,
        save_only_one=1,
        test_all_data_in_one_period=1,
        use_old_updater=1,
        async_count=0,
        log_error_clipping=True,
        log_dir=".",
        v=3,
        minloglevel=0,
        test_pass=-1,
    )
    assert len(settings.current().flags) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_gpu": "maybe"}, "init: use_gpu must be true or false, got 'maybe'"),
        ({"use_gpu": None}, "init: use_gpu must be true or false, got None"),
        ({"trainer_count": "two"}, "init: trainer_count must be an integer, got 'two'"),
        ({"seed": 1.5}, "init: seed must be an integer, got 1.5"),
        ({"trainer_count": 0}, "init: trainer_count must be at least 1, got 0"),
    ],
)
def test_values_of_the_wrong_type(options, message):
    with pytest.raises(ValueError, match=message):
        settings.init(**options)
    assert settings.current() == settings.Settings()


@pytest.mark.parametrize(("trainer_count", "threads"), [(1, "12"), (5, "2"), (100, "1")])
def test_threads_are_shared_among_trainers(trainer_count, threads, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    settings.init(trainer_count=trainer_count)
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == threads


def test_threads_and_layers_do_not_look_at_the_environment(gpus, monkeypatch):
    """As in 2017, where only keywords reached them."""
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    monkeypatch.setenv("PADDLE_INIT_TRAINER_COUNT", "4")
    monkeypatch.setenv("PADDLE_INIT_USE_GPU", "1")
    settings.init()
    assert os.environ["OMP_NUM_THREADS"] == "12" and not settings.current().use_gpu
    assert settings.current().flags == {"trainer_count": 4, "use_gpu": True}
    settings.init(use_gpu=True)
    settings.init(seed=3)
    assert settings.current().use_gpu


@pytest.mark.parametrize(
    ("smt", "dynamic", "affinity"),
    [
        ("1\n", "true", "granularity=fine,compact,1,0"),
        ("0\n", "false", "granularity=fine,compact,0,0"),
        (None, "false", "granularity=fine,compact,0,0"),
    ],
)
def test_affinity_follows_hyper_threading(smt, dynamic, affinity, monkeypatch, tmp_path):
    state = tmp_path / "active"
    if smt is not None:
        state.write_text(smt)
    monkeypatch.setattr(settings, "_SMT_STATE", state)
    settings.init()
    assert (os.environ["OMP_DYNAMIC"], os.environ["KMP_AFFINITY"]) == (dynamic, affinity)


def test_thread_variables_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("KMP_AFFINITY", "none")
    settings.init(trainer_count=1)
    assert (os.environ["OMP_NUM_THREADS"], os.environ["KMP_AFFINITY"]) == ("3", "none")


def test_a_gpu_is_what_the_core_can_use(gpus):
    assert settings.gpu_available() is True


def test_no_device_but_the_cpu_means_no_gpu():
    assert settings.gpu_available() is False


def test_training_goes_to_the_gpu(gpus, monkeypatch):
    settings.init(seed=3)
    assert gpus == []  # nobody has said anything of GPUs
    settings.init(use_gpu=True)
    settings.init(use_gpu=True, gpu_id=1)
    settings.init(use_gpu=False)
    assert gpus == ["cuda:0", "cuda:1", "cpu"]
    monkeypatch.setenv("PADDLE_INIT_USE_GPU", "1")
    settings.init()
    assert gpus[3:] == ["cuda:1"]


def test_values_stay_where_they_are(monkeypatch):
    def use_device(device):
        raise pd.PlaceError(f"values are elsewhere, not on {device}")

    monkeypatch.setattr(pd, "devices", lambda: ["cpu", "cuda:0"])
    monkeypatch.setattr(pd, "use_device", use_device)
    with pytest.warns(UserWarning, match="init: values are elsewhere, not on cuda:0"):
        settings.init(use_gpu=True)


def test_log_lines_have_2017s_format(monkeypatch, capsys):
    root, paddle = logging.getLogger(), logging.getLogger("paddle")
    monkeypatch.setattr(root, "handlers", [])
    level = paddle.level
    try:
        settings.configure_logging()
        paddle.info("pass %d", 3)
        logging.getLogger("other").info("silent")
    finally:
        paddle.setLevel(level)
    printed = capsys.readouterr().err
    assert printed.startswith("[INFO 20")
    assert printed.endswith("] pass 3\n")
    assert " test_settings.py:" in printed
    assert "silent" not in printed
