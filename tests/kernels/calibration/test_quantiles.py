import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.calibration._quantiles import weighted_quantile


@pytest.mark.parametrize("n", [1, 2, 5, 10, 37])
def test_unit_weights_give_numpys_averaged_inverse(n, rng):
    values, q = rng.normal(size=n), np.array([0.05, 0.1, 0.25, 0.5, 0.9, 0.95])
    expected = np.quantile(values, q, method="averaged_inverted_cdf")
    assert_allclose(weighted_quantile(values, q, np.ones(n)), expected)


def test_weights_equal_repetition(rng):
    values, times = rng.normal(size=20), rng.randint(1, 5, size=20)
    q = np.linspace(0.05, 0.95, 19)
    repeated = np.repeat(values, times)
    assert_allclose(
        weighted_quantile(values, q, times.astype(float)),
        weighted_quantile(repeated, q, np.ones(len(repeated))),
    )


def test_result_does_not_depend_on_the_scale_of_weights(rng):
    values, weights = rng.normal(size=9), rng.uniform(0.1, 1.0, size=9)
    q = np.array([0.2, 0.5, 0.8])
    assert_allclose(
        weighted_quantile(values, q, weights), weighted_quantile(values, q, 1e-9 * weights)
    )
