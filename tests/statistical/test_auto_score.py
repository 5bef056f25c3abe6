"""The score of the first call is honest: labels of a coin cannot be predicted."""

import numpy as np
import pytest

from vicinal.auto import AutoClassifier


def coin_score(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.normal(size=(100, 4)), rng.permutation(np.repeat([0, 1], 50))
    return AutoClassifier(random_state=seed).fit(X, y).score_


@pytest.mark.statistical
def test_the_score_of_coin_labels_is_chance():
    scores = [coin_score(seed) for seed in range(50)]
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - 0.5) <= error
