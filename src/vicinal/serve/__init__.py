"""A fitted model behind HTTP: predictions, reasons, and a page to play with."""

from vicinal.serve._app import create_app, serve

__all__ = ["create_app", "serve"]
