"""Save and load models without pickle, and export them to ONNX."""

from vicinal.io._errors import ModelFileError, ModelVersionWarning, OnnxExportError
from vicinal.io._model_file import ModelInfo, info, load, save

__all__ = [
    "ModelFileError",
    "ModelInfo",
    "ModelVersionWarning",
    "OnnxExportError",
    "info",
    "load",
    "save",
    "to_onnx",
]


def __getattr__(name: str):
    # Graphs know every family; a file is read without loading those that it does not name.
    if name == "to_onnx":
        from vicinal.io._to_onnx import to_onnx

        return to_onnx
    raise AttributeError(f"module 'vicinal.io' has no attribute {name!r}")
