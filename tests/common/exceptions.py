"""Checks of scikit-learn that an estimator is not expected to pass, each with its reason."""

_BY_NAME = "columns are found by name and others ignored, as by scikit-learn's ColumnTransformer"

_REASONS: dict[str, dict[str, str]] = {
    # class name: {check name: reason}
    "ResponsibilityMixture": {
        "check_all_zero_sample_weights_error": "uncertainties may all be zero, so zeros warn "
        "and count as equal weights",
    },
}


def expected_failures(estimator):
    """The checks ``estimator`` may fail, as ``parametrize_with_checks`` wants them."""
    return _REASONS.get(type(estimator).__name__, {})


_SCALED_ONLY = (
    "dense features are centred, sparse ones only scaled; equality without scaling is tested in "
    "tests/partition"
)

_TIES = {"sparse_equals_dense": "scikit-learn's trees break ties otherwise on sparse rows"}

_CONTRACT_REASONS: dict[str, dict[str, str]] = {
    # class name: {contract name: reason}
    "BootstrapEnsembleRegressor": _TIES,
    "SpacePartitioningClassifier": {
        "sparse_equals_dense": _SCALED_ONLY,
    },
    "SpacePartitioningRegressor": {"sparse_equals_dense": _SCALED_ONLY},
    "TableEncoder": {"data_frames_give_names_and_the_same_result": _BY_NAME},
}


_OTHER_LEARNER = {
    "sparse_equals_dense": "a linear learner is the default on sparse rows, a kernel one on dense"
}


def contract_exceptions(estimator):
    """The contracts of this library that ``estimator`` is known to break, with reasons."""
    name = type(estimator).__name__
    if name.startswith("SubspaceFusion") and estimator.estimator is None:
        return _OTHER_LEARNER
    # A few rounds have no ties.
    if name == "FunctionalGradientBoostingClassifier" and estimator.n_estimators > 100:
        return _TIES
    return _CONTRACT_REASONS.get(name, {})
