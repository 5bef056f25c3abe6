import numpy as np
import pytest

from vicinal.partition import vc_bound


@pytest.mark.parametrize(
    ("n_regions", "n_features", "expected"),
    [(2, 2, 54.5), (5, 16, 1411), (5, 617, 51311), (1, 10, 11)],
)
def test_values_of_the_specification(n_regions, n_features, expected):
    assert vc_bound(n_regions, n_features) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("n_regions", range(2, 40))
def test_the_argument_behind_the_bound_holds_in_base_two(n_regions):
    """At the bound, Sauer's lemma leaves fewer than all labelings: m log 2 exceeds their log."""
    n_half_spaces = 2 * n_regions - 1
    m = vc_bound(n_regions, 7)
    assert n_half_spaces * 8 * np.log2(np.e * m / 8) < m


@pytest.mark.parametrize("n_regions", [2, 3, 5])
def test_with_the_natural_logarithm_it_would_not(n_regions):
    n_half_spaces = 2 * n_regions - 1
    m = vc_bound(n_regions, 7) * np.log(2)
    assert n_half_spaces * 8 * np.log2(np.e * m / 8) >= m


def test_no_regions_is_an_error():
    with pytest.raises(ValueError, match="n_regions"):
        vc_bound(0, 3)
