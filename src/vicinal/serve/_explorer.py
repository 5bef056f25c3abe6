"""The page on which one moves the columns of a row and sees what the model says."""

import json
from importlib import resources

from vicinal.report import ExplorerReport
from vicinal.serve._served_model import ServedModel


def explorer_page(served: ServedModel) -> str:
    """Return the page, whole: controls for every column, answers asked of the server."""
    template = resources.files("vicinal.serve").joinpath("templates/explorer.html").read_text()
    controls = ExplorerReport.controls(served.background, served.columns)
    content = {**served.metadata(), "controls": controls}
    # Inside a script element only this sequence could end it.
    data = json.dumps(content).replace("<", "\\u003c")
    return template.replace("/*DATA*/null", data)
