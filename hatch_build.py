"""Complete the relative addresses in README.md, which a package index could not follow."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


def absolute_links(text, repository):
    """Return Markdown with links to files of the repository written in full."""
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{repository}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]!]*\]\()(?!https?:|#)", rf"\g<1>{repository}/blob/main/", text)


class CompleteReadme(MetadataHookInterface):
    """The hook that hatchling calls."""

    def update(self, metadata):
        """Set the description of the package."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute_links(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
