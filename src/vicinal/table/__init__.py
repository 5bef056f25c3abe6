"""Tables of mixed columns as numbers, and back."""

from vicinal.table._table_encoder import TableEncoder

__all__ = ["TableEncoder"]
