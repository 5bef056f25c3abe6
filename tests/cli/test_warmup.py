"""The command that compiles ahead."""

from typer.testing import CliRunner

from vicinal._kernels.local._polynomials import ridge_equivalent_kernels, ridge_slopes
from vicinal._kernels.neighbors._nearest import listed_distances, nearest_rows
from vicinal.cli._app import app


def test_warmup_compiles_what_larger_tables_need():
    result = CliRunner().invoke(app, ["warmup"])
    assert result.exit_code == 0, result.output
    assert "two classes" in result.output
    assert "kept in" in result.output
    for kernel in (ridge_equivalent_kernels, ridge_slopes, listed_distances, nearest_rows):
        assert kernel.signatures, kernel.__name__
