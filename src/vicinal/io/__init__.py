"""Save and load models without pickle, and export them to ONNX."""

from vicinal.io._errors import ModelFileError, ModelVersionWarning, OnnxExportError
from vicinal.io._model_file import info, load, save

__all__ = [
    "ModelFileError",
    "ModelVersionWarning",
    "OnnxExportError",
    "info",
    "load",
    "save",
    "to_onnx",
]


def __getattr__(name: str):
    # The export imports every family; reading a file imports only those that it names.
    if name == "to_onnx":
        from vicinal.io._to_onnx import to_onnx

        return to_onnx
    raise AttributeError(f"module 'vicinal.io' has no attribute {name!r}")
