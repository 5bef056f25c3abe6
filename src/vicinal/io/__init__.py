"""Save and load models without pickle, and export them to ONNX."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vicinal.io._errors import ModelFileError, ModelVersionWarning, OnnxExportError

if TYPE_CHECKING:
    from vicinal.io._info import info
    from vicinal.io._model_file import load, save
    from vicinal.io._to_onnx import to_onnx

__all__ = [
    "ModelFileError",
    "ModelVersionWarning",
    "OnnxExportError",
    "info",
    "load",
    "save",
    "to_onnx",
]

# Imported on first use: `info` needs no scikit-learn, and the export imports every family.
_MODULES = {"info": "_info", "load": "_model_file", "save": "_model_file", "to_onnx": "_to_onnx"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"vicinal.io.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'vicinal.io' has no attribute {name!r}")
