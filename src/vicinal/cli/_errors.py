"""The one kind of error that is the reader's to mend."""


class InputError(ValueError):
    """A file, a column or an option is not what the command needs; one line, exit code 2."""


def quoted(names: list, limit: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
