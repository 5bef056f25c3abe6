"""Serve the model of a container; the settings are environment variables."""

import os

from vicinal.io import info, load
from vicinal.serve import serve

if __name__ == "__main__":
    path = os.environ.get("VICINAL_MODEL", "/models/model.vicinal")
    rows = y = None
    target = info(path).metadata.get("target")
    if os.environ.get("VICINAL_TABLE"):
        import pandas

        rows = pandas.read_csv(os.environ["VICINAL_TABLE"])
        y = rows.pop(target).to_numpy() if target in rows else None
    serve(
        load(path),
        host="0.0.0.0",
        token=os.environ["VICINAL_TOKEN"],
        target=target,
        table=rows,
        y=y,
    )
