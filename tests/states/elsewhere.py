"""Classes whose state has tests of its own: it takes files, processes, or a whole training."""

_OF_MODULES = {
    "tests/core/distributed/test_table.py": {
        "pd_core.distributed.table": "ShardedTable",
    },
    "tests/core/layers/test_containers.py": {
        "pd_core.layers.containers": "LayerDict LayerList Sequential",
        "pd_core.layers.function": "Lambda",
    },
    "tests/core/training/estimators/test_estimators.py": {
        "pd_core.training.estimators.network": "Network",
    },
    "tests/core/training/fit/test_fit_resume.py": {
        "pd_core.training.fit.steps": "ModuleStep SourceData StaticStep",
        "pd_core.training.fit.history": "Recorder",
        "pd_core.training.fit.kept_update": "KeptUpdate",
    },
    "tests/core/training/test_resume_order.py": {
        "pd_core.training.program_state": "ProgramState",
    },
    "tests/core/training/test_set_by_hand.py": {
        "pd_core.training.by_hand": "SetByHand",
    },
    "tests/core/layers/test_held.py": {
        "pd_core.layers.layer": "Layer",
        "pd_core.training.module": "Module",
    },
    "tests/core/layers/test_losses.py": {
        "pd_core.layers.losses": "CrossEntropy NLL SoftmaxCrossEntropy",
    },
    "tests/core/layers/test_reparametrization.py": {
        "pd_core.layers.reparametrization": "SpectralNorm WeightNorm",
    },
    "tests/core/layers/test_pickling.py": {
        "pd_core.optimizers.loss_scaling": "LossScaler",
    },
    "tests/core/optimizers/test_states.py": {
        "pd_core.optimizers.base": "MomentsOptimizer Optimizer",
    },
    "tests/states/subjects.py": {
        "pd_core.run.values": "Values",  # what a Session owns, which is in a row
    },
    "tests/core/training/metrics/test_base.py": {
        "pd_core.training.metrics.base": "Metric",
        "pd_core.training.metrics.classification": "ClassMetric",
        "pd_core.training.metrics.mean": "MeanMetric",
        "pd_core.training.metrics.ranking": "RankingMetric",
        "pd_core.training.metrics.text": "BLEU",
    },
    "tests/core/training/test_checkpoint_damage.py": {
        "pd_core.training.control": "Best Watch",
        "pd_core.training.steps": "Step",
    },
    "tests/v2/runner/test_best.py": {
        "pd_v2.runner.best": "SaveBest StopEarly",
    },
    "tests/v2/runner/test_checkpoint.py": {
        "pd_v2.evaluator.base": "LastBatch",
        "pd_v2.runner.checkpoint": "CallState Checkpoint",
        "pd_v2.runner.items": "Data ForwardBackward TrainNetwork",
        "pd_v2.runner.step": "NetworkStep",
    },
    "tests/v2/reader/test_reader_positions.py": {
        "pd_v2.reader.iterators": "ReaderIterator Sources",
        "pd_v2.reader.prefetch": "PrefetchIterator",
    },
    "tests/v2/optimizer/test_updater.py": {
        "pd_v2.optimizer.average": "Window",
        "pd_v2.optimizer.updater": "Updater",
    },
    "tests/v2/master/test_positions.py": {
        "pd_v2.master.records": "Records",
    },
    "tests/v2/test_parameters.py": {
        "pd_v2.parameters": "Parameters",
    },
    "tests/v2/test_namings.py": {
        "pd_v2.config_base": "Layer MixedLayerType",
        "pd_v2.layer.group": "Memory",
        "pd_v2.layer.printing": "Print",
    },
}
ELSEWHERE = {
    path: [f"{module}.{name}" for module, names in modules.items() for name in names.split()]
    for path, modules in _OF_MODULES.items()
}
