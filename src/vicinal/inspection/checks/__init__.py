"""Checks of a table for problems that mislead a model or its evaluation."""

from vicinal.inspection.checks._check import duplicate_rows as duplicate_rows
from vicinal.inspection.checks._findings import html_table as html_table
from vicinal.inspection.checks._findings import shortened as shortened
from vicinal.inspection.checks._profile import EncodedTable as EncodedTable
from vicinal.inspection.checks._profile import profile as profile
from vicinal.inspection.checks._targets import is_classification as is_classification
from vicinal.inspection.checks._targets import leaking_columns as leaking_columns
