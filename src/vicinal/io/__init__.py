"""Save and load models without pickle, and export them to ONNX."""

from vicinal.io._errors import ModelFileError, ModelVersionWarning, OnnxExportError
from vicinal.io._model_file import ModelInfo, info, load, save
from vicinal.io._to_onnx import to_onnx

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
