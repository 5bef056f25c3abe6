"""Errors and warnings of saving, loading and exporting."""


class ModelFileError(ValueError):
    r"""A file is not a model file, is damaged, or names classes that are not trusted.

    Examples
    --------
    >>> import os, tempfile
    >>> from vicinal.io import ModelFileError, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.vicinal")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"cos\nsystem\n(S'echo never run'\ntR.")
    ...     try:
    ...         load(path)
    ...     except ModelFileError as error:
    ...         print(str(error).partition("': ")[2])
    not a model file (no zip archive); vicinal.io.save writes model files.
    """


class ModelVersionWarning(UserWarning):
    """A model file was written by other versions of the packages."""


class OnnxExportError(ValueError):
    """A model, or a part of it, cannot be exported to ONNX; the message names it."""
