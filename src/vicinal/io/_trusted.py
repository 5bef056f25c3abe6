"""Which types a model file may bring to life, and by which door.

skops asks only whether a type is trusted, and then lets a file call it: a dictionary of a trusted
type is made by calling that type, its keys by calling the types named beside them. So here every
kind of node has its own list. Classes are only ever made bare (``cls.__new__``) and given their
state; nothing in a file is called with arguments of the file's choosing, apart from the containers,
numbers and arrays named below.
"""

import importlib
import json
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from vicinal.io._errors import ModelFileError

# Packages of ours that models are made of: every class defined there is trusted, and every plain
# function may be referred to.
MODEL_PACKAGES = (
    "_kernels",
    "ensemble",
    "linear",
    "local",
    "neighbors",
    "partition",
    "subspace",
    "surface",
    "table",
    "uncertainty",
)

# Types of scikit-learn that fitted models hold and skops does not trust by itself. Trees are
# checked node by node after loading (`_content.py`), which is what skops cannot promise.
SKLEARN_TYPES = frozenset(
    {
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.frozen._frozen.FrozenEstimator",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.metrics._scorer._Scorer",
        "sklearn.model_selection._split.GroupKFold",
        "sklearn.model_selection._split.GroupShuffleSplit",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.LeaveOneGroupOut",
        "sklearn.model_selection._split.LeaveOneOut",
        "sklearn.model_selection._split.PredefinedSplit",
        "sklearn.model_selection._split.RepeatedKFold",
        "sklearn.model_selection._split.RepeatedStratifiedKFold",
        "sklearn.model_selection._split.ShuffleSplit",
        "sklearn.model_selection._split.StratifiedGroupKFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.model_selection._split.StratifiedShuffleSplit",
        "sklearn.model_selection._split.TimeSeriesSplit",
        "sklearn.preprocessing._function_transformer.FunctionTransformer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
    }
)

_CONTAINERS = {
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "DefaultDictNode": {"collections.defaultdict"},
    "ListNode": {"builtins.list"},
    "SetNode": {"builtins.set"},
    "BytesNode": {"builtins.bytes"},
    "BytearrayNode": {"builtins.bytearray"},
    "SliceNode": {"builtins.slice"},
    "DTypeNode": {"numpy.dtype"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "MaskedArrayNode": {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"},
}
# Nodes that look up or call something by a name other than their type's.
_NEVER = {"MethodNode", "OperatorFuncNode"}
_BIT_GENERATORS = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}
_KEY_TYPES = {"builtins.str", "builtins.int", "builtins.float", "builtins.bool"}


class TypePolicy:
    """Say for every node of a schema whether it may be made.

    Parameters
    ----------
    trusted : iterable of str or type
        Further classes and functions that the caller vouches for; a file may have them called.
    """

    def __init__(self, trusted: Iterable[str | type] = ()) -> None:
        from skops.io import _trusted_types as skops_types
        from skops.io._sklearn import ALLOWED_LOSSES
        from skops.io._utils import get_type_paths

        if isinstance(trusted, str | type):
            trusted = [trusted]
        self.extra = frozenset(get_type_paths(list(trusted)))
        numbers = set(skops_types.NUMPY_DTYPE_TYPE_NAMES)
        self.classes = SKLEARN_TYPES.union(
            skops_types.SKLEARN_ESTIMATOR_TYPE_NAMES, skops_types.SKLEARN_INTERNAL_TYPE_NAMES
        )
        self.losses = frozenset(get_type_paths(list(ALLOWED_LOSSES)))
        self.functions = frozenset(
            skops_types.SCIPY_UFUNC_TYPE_NAMES + skops_types.NUMPY_UFUNC_TYPE_NAMES
        )
        self.types = frozenset(skops_types.PRIMITIVE_TYPE_NAMES) | numbers
        self.arrays = frozenset(numbers | {"numpy.ndarray"})

    def refused(self, schema: Any) -> set[str]:
        """Return the types in ``schema`` that are not trusted; malformed schemas are an error."""
        refused = set()
        for node in _nodes(schema):
            name = f"{node['__module__']}.{node['__class__']}"
            if not self._allows(node["__loader__"], name):
                refused.add(name)
        return refused

    def names(self, schema: Any) -> list[str]:
        """Return every type that occurs in a schema, to be handed to skops once all are allowed."""
        return sorted({f"{node['__module__']}.{node['__class__']}" for node in _nodes(schema)})

    def _allows(self, loader: str, name: str) -> bool:
        if name in self.extra:
            return loader not in _NEVER
        if loader in _CONTAINERS:
            return name in _CONTAINERS[loader]
        if loader == "JsonNode":
            return True
        if loader == "NdArrayNode":
            return name in self.arrays
        if loader == "SparseMatrixNode":
            return name.startswith("scipy.sparse.")
        if loader == "TypeNode":
            return name in self.types or self._is_class(name)
        if loader == "FunctionNode":
            return name in self.functions or is_own_function(name)
        if loader == "TupleNode":
            return name == "builtins.tuple" or is_own_class(name, named_tuple=True)
        if loader == "LossNode":
            return name in self.losses
        if loader == "TreeNode":
            return name == "sklearn.tree._tree.Tree"
        if loader == "ObjectNode":
            return self._is_class(name)
        # Bound methods, partial functions, operators and constructors are things that a file could
        # have called; no model of ours needs them.
        return False

    def _is_class(self, name: str) -> bool:
        return name in self.classes or is_own_class(name)


def _nodes(schema: Any) -> Iterable[dict[str, Any]]:
    """Yield every node of a schema; what skops would read as a node but is none is an error."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, dict):
            if "__loader__" in part:
                for key in ("__loader__", "__module__", "__class__"):
                    if not isinstance(part.get(key), str):
                        raise ModelFileError(f"its schema names no {key.strip('_')} for a part.")
                _check_keys(part)
                yield part
            pending.extend(part.values())


def _check_keys(node: dict[str, Any]) -> None:
    """Raise where a dictionary makes its keys by other types, or an object gets special names."""
    if node["__loader__"] == "DictNode":
        kinds = node["key_types"]["content"]
        names = {f"{kind['__module__']}.{kind['__class__']}" for kind in kinds}
        others = {name for name in names - _KEY_TYPES if not name.startswith("numpy.")}
        if others:
            raise ModelFileError(f"its schema has dictionary keys of types {sorted(others)}.")
        if len(kinds) != len(node["content"]):
            raise ModelFileError("its schema has a dictionary with missing keys.")
    if node["__loader__"] == "RandomGeneratorNode":
        # The name of a function to call, as far as older versions of skops are concerned.
        state = node["content"]["bit_generator"]["content"]
        if json.loads(state["bit_generator"]["content"]) not in _BIT_GENERATORS:
            raise ModelFileError("its schema names an unknown random number generator.")
    if node["__loader__"] == "ObjectNode" and isinstance(node.get("content"), dict):
        state = node["content"].get("content")
        special = [key for key in state if key.startswith("__")] if isinstance(state, dict) else []
        if special:
            raise ModelFileError(f"its schema sets the special attributes {special}.")


def is_own_class(name: str, *, named_tuple: bool = False) -> bool:
    """Tell whether ``name`` is a class (or a named tuple) defined in our own model packages."""
    found = _own(name)
    return isinstance(found, type) and issubclass(found, tuple) == named_tuple


def is_own_function(name: str) -> bool:
    """Tell whether ``name`` is a plain function (not compiled) of our own model packages."""
    return isinstance(_own(name), FunctionType)


def _own(name: str) -> Any:
    """Return what our own model packages define under a full name, ``None`` if nothing."""
    module_name, _, short = name.rpartition(".")
    package = module_name.split(".")
    if len(package) < 2 or package[0] != "vicinal" or package[1] not in MODEL_PACKAGES:
        return None
    try:
        found = vars(importlib.import_module(module_name)).get(short)
    except ImportError:
        return None
    return found if getattr(found, "__module__", None) == module_name else None
