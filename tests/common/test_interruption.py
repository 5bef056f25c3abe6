"""Slow fits stop at a signal, within two seconds, and leave the object unfitted."""

import signal
import sys

import pytest

from tests.common.discovery import public_estimators
from tests.common.interruption import outcomes

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the CPU clock of a process, on Linux only"
)

SLOW = (
    "SpacePartitioningClassifier",
    "BootstrapEnsembleClassifier",
    "AutoClassifier",
)


def late(found):
    return {name: seconds for name, (_, seconds) in found.items() if seconds >= 2.0}


def test_ctrl_c_stops_slow_fits_and_leaves_them_unfitted():
    found = outcomes(signal.SIGINT, SLOW)
    assert {name: outcome for name, (outcome, _) in found.items()} == dict.fromkeys(SLOW, "stopped")
    assert not late(found)


def test_a_process_told_to_end_ends_during_a_slow_fit():
    found = outcomes(signal.SIGTERM, ["AutoClassifier"])
    assert found["AutoClassifier"][0] == "ended"
    assert not late(found)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("number", "right"), [(signal.SIGINT, "stopped"), (signal.SIGTERM, "ended")]
)
def test_every_fit_that_takes_long_obeys_signals(number, right):
    found = outcomes(number, public_estimators())
    obeyed = {name for name, (outcome, _) in found.items() if outcome == right}
    assert {outcome for outcome, _ in found.values()} == {right, "done"}, found
    assert len(obeyed) > 25
    assert not late(found)
