"""Import of optional packages at the moment of use."""

from importlib import import_module
from types import ModuleType


def import_optional(name: str, *, needed_by: str, extra: str) -> ModuleType:
    """Import a package that the core does not need, or say which extra brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{needed_by} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'vicinal[{extra}]'"
        ) from error
