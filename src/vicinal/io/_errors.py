"""What saving, loading and exporting may raise.

ValueError
    ModelFileError      a file is not a model, was changed or cut short, or holds refused types
    OnnxExportError     a model, or a part of it, has no ONNX form
UserWarning
    ModelVersionWarning a model was saved under other versions
"""


class ModelFileError(ValueError):
    r"""A file is no model of ours, was changed or cut short, or holds types that are not trusted.

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
    not a model file (no zip archive); write one with vicinal.io.save.
    """


class ModelVersionWarning(UserWarning):
    """A model was saved under other versions of the packages that now read it."""


class OnnxExportError(ValueError):
    """A model, or a part of it, cannot be written as an ONNX graph; the message says which."""
