"""Types, shapes and ranges of the attributes of scikit-learn objects in model files.

Parameters must satisfy scikit-learn's own constraints, other attributes the table below; an
attribute without an entry is refused. An entry lists alternatives, separated by ``|``:

- ``none``, ``flag``, ``whole`` (0, 1, ...), ``number``, ``text``, ``scalar`` (any of those),
  ``object`` (of a class that the file names), ``any``; a capitalized name is a class;
- ``numbers``: a number, ``None``, an array of numbers, or lists and dictionaries of those;
- ``list ...`` and ``dict ...``: a list or tuple, or a dictionary, of items as specified;
- ``float``, ``int``, ``bool``, ``real`` (any number), ``labels`` (scalars), ``objects``, followed
  by axes: a NumPy array; with ``/sparse``, or a sparse matrix. An axis is ``*`` or a name that
  stands for one length in the whole object; ``p`` is the number of features, ``c`` of classes. The
  last token may be ``finite``, ``nan`` (finite or missing), or ``<c`` (from 0 to below ``c``).
"""

import functools
from typing import Any

import numpy as np
from scipy import sparse

from vicinal.io._errors import ModelFileError

_TABLE = {
    # specification: attributes, with a class name only those of the class and its subclasses
    "whole": "Tree.n_features _batch_size _init_size _max_components _max_degree _max_features "
    "_max_samples _min_degree _n_components _n_features _n_features_out _n_init _n_out_full "
    "_n_samples _n_since_last_reassign _no_improvement _no_improvement_count _random_seed "
    "_training_dim batch_size_ best_index_ fit_status_ max_features_ max_samples_ "
    "missing_values_bin_idx_ n_bins n_components_ n_estimators_ n_features_ n_features_in_ "
    "n_features_out_ n_features_with_missing_ n_layers_ n_neighbors_ n_nonzero_coefs_ "
    "n_output_features_ n_outputs_ n_quantiles_ n_samples_ n_samples_fit_ n_skips_invalid_data_ "
    "n_skips_invalid_model_ n_skips_no_inliers_ n_splits_ n_steps_ n_subpopulation_ "
    "n_trees_per_iteration_ n_trials_ rank_ n_classes t BSpline.k _stop_words_id",
    "whole | none": "_n_samples_bootstrap n_features_to_select_ n_threads _n_threads n_jobs",
    "whole | int * | list whole": "n_classes_",
    "flag": "_effective_probability _infrequent_enabled _norm_y_weights _precomputed _predict_1d "
    "_sparse _use_validation_data converged_ do_early_stopping_ fixed_vocabulary_ increasing_ "
    "multimetric_ outputs_2d_ sparse_input_ sparse_output_ nesterov",
    "text": "_algorithm _fit_method _fit_svd_solver _sklearn_version chain_method_ "
    "out_activation_ y_type_ target_type_ lr_schedule method bit_generator",
    "text | list text": "_response_method _strategy solver_",
    "text | object": "effective_metric_ init_",
    "list text": "stack_method_ estimator_params feature_names_",
    "dict text": "_sklearn_output_config",
    "scalar": "C algorithm alpha alpha_per_target average beta_1 beta_2 bootstrap_features "
    "class_weight copy_X_train deflation_mode early_stopping epsilon eta0 exponent fit_path "
    "gcv_mode jitter l1_ratio learning_rate learning_rate_init loss max_iter_predict mode momentum "
    "n_iter_no_change n_neighbors n_nonzero_coefs n_restarts_optimizer nu oob_score optimizer "
    "penalty power_t probability radius stack_method store_precision subsample shuffle "
    "validation_fraction verbose verbose_feature_names_out warm_start _sign pattern n_splits "
    "max_train_size test_size train_size TimeSeriesSplit.gap _default_test_size "
    "extrapolate Kernel.metric has_uint32 uinteger has_gauss gauss",
    "number": "a_ b_ _beta_loss _gamma beta_ constant_value gamma_ X_max_ X_min_ _tol "
    "K_fit_all_ HuberRegressor.scale_ best_threshold_ epsilon_ quantile power delta",
    "number | float c": "target_mean_",
    # Statistics of the fit, which predictions do not depend on.
    "numbers": "C_ Cs_ _average_coef _average_intercept _best_coefs _best_intercepts _counts "
    "_ewa_inertia _ewa_inertia_min _expanded_class_weight _num_iter _standard_coef "
    "_standard_intercept _x_scores _y_scores active_ alpha_ alphas_ best_loss_ best_score_ "
    "best_validation_score_ breakdown_ category_count_ class_count_ coef_path_ coefs_paths_ "
    "component_indices_ costs_ covariance_prior_ criterion_ cv_alphas_ degrees_of_freedom_ "
    "degrees_of_freedom_prior_ density_ dist_ dual_gap_ eps_ estimator_errors_ "
    "explained_variance_ explained_variance_ratio_ feature_all_ feature_count_ inertia_ "
    "inlier_mask_ labels_ lambda_ log_marginal_likelihood_value_ loglike_ "
    "loss_ loss_curve_ lower_bound_ lower_bounds_ mean_precision_ mean_precision_prior_ "
    "mean_prior_ ms mse_path_ n_iter_ n_samples_seen_ negative_outlier_factor_ noise_variance_ "
    "offset_ oob_decision_function_ oob_improvement_ oob_prediction_ oob_score_ oob_scores_ "
    "outliers_ pvalues_ ranking_ raw_covariance_ raw_location_ raw_support_ reconstruction_err_ "
    "refit_time_ scores_ shrinkage_ sigma_ singular_ singular_values_ support_ t_ train_score_ "
    "validation_score_ validation_scores_ velocities vs weight_concentration_ "
    "weight_concentration_prior_ x_scores_ y_scores_ _seeds test_fold unique_folds "
    "constant_value_bounds length_scale length_scale_bounds noise_level noise_level_bounds "
    "Kernel.alpha alpha_bounds periodicity periodicity_bounds sigma_0 sigma_0_bounds gamma "
    "gamma_bounds Kernel.nu state",
    # Classes and features.
    "labels c | list labels * | none": "classes_",
    "labels *": "_CalibratedClassifier.classes y_",
    "labels p": "feature_names_in_",
    "real p": "_max_value _min_value",
    "real p nan": "X_offset_ X_scale_ _x_mean _x_std data_max_ data_min_ "
    "data_range_ idf_ lambdas_ max_abs_ min_ statistics_ variances_ xbar_ location_ "
    "within_class_std_dev_ K_fit_rows_",
    "real p nan | none": "mean_ scale_ var_ center_",
    "bool p": "_is_empty_feature _valid_mask RFE.support_ SequentialFeatureSelector.support_",
    "bool p | int p | none": "is_categorical_ _is_categorical_remapped",
    "int p": "n_bins_ n_categories_ n_bins_non_missing_",
    "int * <p": "features_",
    "real p p": "covariance_ precision_",
    "real p *": "random_weights_ x_loadings_ x_rotations_ x_weights_",
    "real * p": "_unmixing means_ quantiles_ deviations_ centroids_ whitening_ GaussianNB.var_ "
    "bitHash_ indexHash_",
    "real * p finite": "cluster_centers_ theta_",
    "real/sparse * p finite": "components_",
    "real/sparse p finite | real/sparse * p finite": "coef_",
    "real *": "_y_mean _y_std _y_train_mean _y_train_std X_thresholds_ y_thresholds_ class_prior_ "
    "class_log_prior_ class_weight_ estimator_weights_ eigenvalues_ order_ priors_ random_offset_ "
    "references_ weights_ data",
    "real p * | real * p": "mixing_",
    "real * *": "_baseline_prediction code_book_ constant_ normalization_ y_loadings_ y_rotations_ "
    "y_weights_",
    "real p p | real * p | real * p p | real *": "covariances_ precisions_ precisions_cholesky_",
    "number | real * finite": "intercept_",
    "real p * | list real p": "scalings_",
    "real * * | list real * *": "feature_log_prob_",
    "list real *": "encodings_ intercepts_ bin_thresholds_ _average_path_length_per_tree "
    "_decision_path_lengths",
    "list real * *": "coefs_ rotations_",
    "list labels *": "categories_",
    "list int * | list none": "estimators_features_",
    "list int * none | none": "_default_to_infrequent_mappings _infrequent_indices",
    "list whole": "_n_feature_outs _n_features_outs shape shape_fit_",
    "list scalar": "outlier_label_",
    "dict whole": "vocabulary_ _missing_indices",
    "dict scalar": "_requests _kwargs",
    "metric": "effective_metric_params_",
    "metric | none": "NeighborsBase.metric_params",
    "labels * | none": "_drop_idx_after_grouping drop_idx_",
    "objects *": "bin_edges_",
    # Training rows.
    "real/sparse n p": "X_fit_ X_train_",
    "real n": "_lrd W_sr_ f_cached pi_",
    "real n | real n *": "y_train_ X_transformed_fit_ eigenvectors_ _distances_fit_X_ "
    "GaussianProcessRegressor.alpha_ KernelRidge.dual_coef_ KernelPCA.dual_coef_",
    "real n n": "L_",
    # Nodes, rows, codes and coefficients that compiled code reads without bounds checks.
    "real n p": "KNNImputer._fit_X",
    "bool n p": "_mask_fit_X",
    "real/sparse n p finite": "_fit_X",
    "real n | real n o": "_y",
    "int n <c | int n o": "KNeighborsClassifier._y RadiusNeighborsClassifier._y",
    "int t": "Tree.left_child Tree.right_child Tree.feature Tree.n_node_samples "
    "Tree.missing_go_to_left",
    "float t": "Tree.threshold Tree.impurity Tree.weighted_n_node_samples",
    "float t k * finite": "Tree.value",
    "int k": "Tree.n_classes",
    "int n": "TreePredictor.count TreePredictor.feature_idx TreePredictor.missing_go_to_left "
    "TreePredictor.left TreePredictor.right TreePredictor.depth TreePredictor.is_leaf "
    "TreePredictor.bin_threshold TreePredictor.is_categorical TreePredictor.bitset_idx",
    "float n": "TreePredictor.value TreePredictor.num_threshold TreePredictor.gain",
    "int * 8": "TreePredictor.binned_sets TreePredictor.raw_sets",
    "int g+1": "_n_support",
    "int s": "BaseLibSVM.support_",
    "real/sparse s p finite | real/sparse 0 0": "support_vectors_",
    "float/sparse g s finite": "_dual_coef_ dual_coef_",
    "float * finite": "_intercept_ _probA _probB",
    "list number": "numbers",
    "numbers | labels *": "l1_ratio_ l1_ratios_",  # None for each class without elastic net
    "int *": "indices indptr",
    "float * | float * *": "BSpline.t BSpline.c",
    # Parts.
    "none": "_tree _cached_dict _sample_weight",
    "Tree": "BaseDecisionTree.tree_",
    "list BSpline": "bsplines_",
    "list list TreePredictor": "_predictors",
    "objects * *": "BaseGradientBoosting.estimators_",
    "_BinMapper": "_bin_mapper",
    "MetadataRequest": "_metadata_request",
    "MethodMetadataRequest": "MetadataRequest.decision_function MetadataRequest.fit "
    "MetadataRequest.inverse_transform MetadataRequest.partial_fit MetadataRequest.predict "
    "MetadataRequest.predict_log_proba MetadataRequest.predict_proba MetadataRequest.score "
    "MetadataRequest.split MetadataRequest.transform",
    "OneHotEncoder": "_encoder",
    "TfidfTransformer": "_tfidf",
    "KernelCenterer": "_centerer",
    "BaseLoss": "_base_loss _loss",
    "Generator": "_feature_subsample_rng",
    "RandomState": "_random_state random_state_ rng _rng",
    "dtype": "_fill_dtype _fit_dtype",
    "object": "_checked_cv_orig _curve_scorer _estimator _label_binarizer _label_encoder "
    "_loss_function_ _optimizer _scaler _score_func base_estimator_ best_estimator_ estimator_ "
    "final_estimator_ initial_imputer_ label_binarizer_ le_ named_estimators_ regressor_ scorer_ "
    "transformer_ kernel_ k1 k2",
    "object | none": "_preprocessor indicator_ estimator _scorer kernel",
    "text | object | none": "owner",
    "list object": "calibrated_classifiers_ calibrators estimators_ kernels",
    "list _ImputerTriplet": "imputation_sequence_",
    # Containers of the above, read by name.
    "any": "best_params_ cv_results_ _columns _remainder _transformer_to_input_indices "
    "output_indices_ transformers_ transformer_list transformer_weights known_categories "
    "is_categorical dtype_include dtype_exclude _thresholds random_state pairwise_indices_ "
    "pairwise_kernels_kwargs *",
}  # fmt: skip
# Attributes that scikit-learn has before version 1.9 only.
_OLDER = {
    "flag": "_store_cv_results _RemainderColsList.warning_enabled "
    "_RemainderColsList.warning_was_emitted",
    "text | none": "_deprecation_msg _RemainderColsList.future_dtype",
    "list scalar": "_RemainderColsList.data",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: spec for spec, names in table.items() for name in names.split()}


_OLDER_SPECS = _by_name(_OLDER)
_SPECS = _OLDER_SPECS | _by_name(_TABLE)
_KINDS = {
    "float": "f",
    "int": "iu",
    "bool": "b",
    "real": "biuf",
    "labels": "biufSUOmM",
    "objects": "O",
}
_CONTENTS = ("finite", "nan")
_METRIC_PARAMETERS = ("p", "w", "V", "VI")


def check_attributes(
    names: list[str], state: dict[str, Any], constraints: Any = (), *, may_have_others: bool = False
) -> None:
    """Raise unless attributes are as the table, or the class, declares.

    Parameters
    ----------
    names : list of str
        Names of the class and its base classes.
    state : dict of str to object
        The attributes.
    constraints : dict of str to list, default=()
        scikit-learn's constraints of the parameters, one of which must hold.
    may_have_others : bool, default=False
        Whether attributes without an entry are accepted.
    """
    sizes = {str(number): number for number in range(10)}
    if type(state.get("n_features_in_")) is int:
        sizes["p"] = state["n_features_in_"]
    if type(state.get("classes_")) is np.ndarray:
        sizes["c"] = state["classes_"].size
    for attribute, value in state.items():
        own = (_SPECS[key] for name in names if (key := f"{name}.{attribute}") in _SPECS)
        rule = next(own, None)
        if rule is None and attribute in constraints:
            rule = "a value that its class allows"
            is_right = any(each.is_satisfied_by(value) for each in constraints[attribute])
        elif (rule := rule or _SPECS.get(attribute)) is not None:
            is_right = any(_fits(value, tokens, sizes) for tokens in _tokens(rule))
        elif may_have_others:
            continue
        else:
            raise ModelFileError(f"the attribute {names[0]}.{attribute} is not allowed.")
        if not is_right:
            raise ModelFileError(f"{names[0]}.{attribute} is {_shown(value)}, but must be {rule}.")


@functools.cache
def _tokens(spec: str) -> list[list[str]]:
    return [choice.split() for choice in spec.split("|")]


def _fits(value: Any, tokens: list[str], sizes: dict[str, int]) -> bool:
    kind, *rest = tokens
    if kind in ("list", "dict"):
        if not isinstance(value, dict if kind == "dict" else list | tuple):
            return False
        items = value.values() if isinstance(value, dict) else value
        return all(_fits(item, rest, sizes) for item in items)
    if kind.partition("/")[0] in _KINDS:
        if value is None and rest[-1:] == ["none"]:
            return True
        return _is_array(value, kind, [axis for axis in rest if axis != "none"], sizes)
    if kind == "metric":
        return isinstance(value, dict) and all(
            key in _METRIC_PARAMETERS
            and (
                _is_number(item)
                or any(_is_array(item, "float", [*"pp"[:n]], sizes) for n in (1, 2))
            )
            for key, item in value.items()
        )
    if kind in _IS:
        return _IS[kind](value)
    return any(base.__name__ == kind for base in type(value).__mro__)


def _is_array(value: Any, kind: str, axes: list[str], sizes: dict[str, int]) -> bool:
    kind, _, may_be_sparse = kind.partition("/")
    is_sparse = bool(may_be_sparse) and sparse.issparse(value)
    if (not is_sparse and type(value) is not np.ndarray) or value.dtype.kind not in _KINDS[kind]:
        return False
    content = axes.pop() if axes and (axes[-1] in _CONTENTS or axes[-1][0] == "<") else ""
    if len(axes) != value.ndim:
        return False
    for axis, length in zip(axes, value.shape, strict=True):
        name, _, extra = axis.partition("+")
        length -= int(extra or 0)
        if name != "*" and sizes.setdefault(name, length) != length:
            return False
    cells = value.data if is_sparse else value
    if kind == "labels" and value.dtype.kind == "O":
        return all(map(_IS["scalar"], value.ravel().tolist()))
    if content == "finite":
        return bool(np.isfinite(cells).all())
    if content == "nan":
        return not np.isinf(cells).any()
    if content:
        return bool(np.all((cells >= 0) & (cells < sizes.get(content[1:], 0))))
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and bool(0 <= value < 2**64)


def _are_numbers(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return all(map(_are_numbers, value.values() if isinstance(value, dict) else value))
    if sparse.issparse(value) or type(value) is np.ndarray:
        return value.dtype.kind in "biuf"
    return _IS["scalar"](value)


_SCALARS = bool | int | float | str | bytes | np.generic | None
_PLAIN = _SCALARS | complex | list | tuple | dict | set | slice | np.ndarray | np.dtype | type
_IS = {
    "none": lambda value: value is None,
    "flag": lambda value: isinstance(value, bool | np.bool_),
    "whole": _is_whole,
    "number": _is_number,
    "numbers": _are_numbers,
    "text": lambda value: isinstance(value, str),
    "scalar": lambda value: isinstance(value, _SCALARS),
    "type": lambda value: isinstance(value, type),
    "dtype": lambda value: isinstance(value, np.dtype),
    "object": lambda value: isinstance(value, dict) or not isinstance(value, _PLAIN),
    "any": lambda value: True,
}


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"a {type(value).__name__} of {value.dtype}, {value.shape}"
    return f"{value!r:.40}" if isinstance(value, _SCALARS) else f"a {type(value).__name__}"
