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
]
