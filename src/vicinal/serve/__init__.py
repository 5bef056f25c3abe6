"""HTTP server of a fitted model: predictions, explanations, and an interactive page."""

from vicinal.serve._app import create_app
from vicinal.serve._server import serve

__all__ = ["create_app", "serve"]
