"""Bodies read in pieces: the same values as Python's reader, within limits."""

import json
import random

import pytest

from vicinal._base._stopping import WorkStoppedError
from vicinal.serve import _reading, _writing
from vicinal.serve._errors import RequestError
from vicinal.serve._reading import DEFAULT_LIMITS, Limits, read_csv, read_json


@pytest.mark.parametrize("piece", [3, 10, 40, 2**15])
def test_json_is_read_as_python_reads_it(monkeypatch, piece):
    monkeypatch.setattr(_reading, "_PIECE", piece)
    rng = random.Random(0)
    n_refused = 0
    for _ in range(3000):
        value = _simulated(rng, 4)
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
        assert read_json(text.encode(), DEFAULT_LIMITS) == value
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice('a"\\,[]{}:1 ') + text[at + 1 :]
        expected, found = _read_by_python(damaged), _read(damaged)
        assert expected == found, damaged
        n_refused += found == "refused"
    assert 1000 < n_refused < 3000


def _simulated(rng, depth):
    kind = rng.randrange(9 if depth else 6)
    if kind < 3:
        return [rng.gauss(0, 1e9), rng.randrange(-99, 99), rng.choice([None, True, False])][kind]
    if kind < 6:
        return "".join(rng.choices('a"\\,[]{}:é\n 😀', k=rng.randrange(6)))
    if kind == 6:
        return {str(_simulated(rng, 0)): _simulated(rng, depth - 1) for _ in range(3)}
    return [_simulated(rng, depth - 1) for _ in range(rng.randrange(5))]


def _read_by_python(text):
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return "refused"
    return value


def _read(text):
    try:
        return read_json(text.encode(), DEFAULT_LIMITS)
    except RequestError:
        return "refused"


def test_limits_hold_before_the_whole_is_read():
    """What comes after the limit is not JSON, and is not seen."""
    limits = Limits(max_bytes=10**9, max_rows=5, max_cells=40_000)
    with pytest.raises(RequestError, match="at most 5 rows"):
        read_json(b"[" + b"[1]," * 50_000 + b"!", limits)
    with pytest.raises(RequestError, match="at most 40000 cells"):
        read_json(b"[[" + b"1," * 100_000 + b"!", limits)
    with pytest.raises(RequestError, match="more than 5 deep"):
        read_json(b"[" * 100_000, limits)
    with pytest.raises(RequestError, match="at most 5 rows"):
        read_csv(b"a\n" + b"1\n" * 6 + b'"', ["a"], limits)
    with pytest.raises(RequestError, match="at most 40000 cells"):
        read_csv(b"a" * 10 + b"," * 50_000, ["a"], limits)


def test_reading_stops_when_nobody_waits():
    import threading

    from vicinal._base._stopping import stopped_by

    event = threading.Event()
    event.set()
    for read in (
        lambda: read_json(b"[[1]]", DEFAULT_LIMITS),
        lambda: read_csv(b"a\n1\n", ["a"], DEFAULT_LIMITS),
    ):
        with stopped_by(event), pytest.raises(WorkStoppedError):
            read()
        read()


@pytest.mark.parametrize("piece", [1, 2, 500])
def test_json_is_written_as_python_writes_it(monkeypatch, piece):
    monkeypatch.setattr(_writing, "_PIECE", piece)
    rng = random.Random(0)
    for value in [_simulated(rng, 4) for _ in range(300)] + [{True: 1, None: 2}, {1: [2, 3, 4]}]:
        expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert _writing.json_bytes(value) == expected.encode()
