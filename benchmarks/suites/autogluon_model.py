"""AutoClassifier and AutoRegressor as a model of AutoGluon, which TabArena runs as well.

AutoGluon, as one model among others::

    from autogluon.tabular import TabularPredictor
    from autogluon_model import VicinalModel

    predictor = TabularPredictor(label="class").fit(frame, hyperparameters={VicinalModel: {}})

TabArena, on its first split of each data set::

    from tabarena.benchmark.experiment import TabArenaV0pt1ExperimentBundle
    from tabarena.contexts import TabArenaContext

    experiments = TabArenaV0pt1ExperimentBundle(models=[(configurations(), 0)]).build_experiments()
    TabArenaContext().build_and_run_jobs(experiments, expname="vicinal", subset="lite")

Parameters of the estimators (``preset``, ``families``) are hyperparameters of the model.
"""

from autogluon.core.models import AbstractModel

# The estimator keeps its limit within a tenth; AutoGluon stops what exceeds its own.
_SHARE_OF_TIME = 0.9


class VicinalModel(AbstractModel):
    """Weighted average of local models, forests, linear and boosted models."""

    ag_key = "VICINAL"
    ag_name = "Vicinal"
    seed_name = "random_state"

    def _fit(self, X, y, time_limit=None, num_cpus=1, sample_weight=None, **kwargs):
        from vicinal.auto import AutoClassifier, AutoRegressor

        kind = AutoRegressor if self.problem_type == "regression" else AutoClassifier
        limit = None if time_limit is None else _SHARE_OF_TIME * time_limit
        settings = {"max_fit_time": limit, "n_jobs": num_cpus} | self._get_model_params()
        self.model = kind(**settings).fit(self.preprocess(X, is_train=True), y, sample_weight)

    def _get_default_auxiliary_params(self):
        types = {"valid_raw_types": ["bool", "int", "float", "category"]}
        return super()._get_default_auxiliary_params() | types

    @classmethod
    def supported_problem_types(cls):
        """Return the tasks of AutoGluon that it is fitted to."""
        return ["binary", "multiclass", "regression"]


def configurations():
    """Return the default setting as TabArena reads it."""
    from tabarena.utils.config_utils import ConfigGenerator

    return ConfigGenerator(model_cls=VicinalModel, manual_configs=[{}], search_space={})
