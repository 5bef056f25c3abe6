"""Bodies of requests as plain values, within limits."""

import threading

import pytest

from vicinal._base._parallel import WorkStoppedError, stopped_by
from vicinal.serve._requests import DEFAULT_LIMITS, Limits, RequestError, read_csv, read_json

LIMITS = Limits(max_bytes=10**9, max_rows=5, max_cells=40_000)


@pytest.mark.parametrize(
    "body",
    [b"{", b"[" * 100_000, b"[NaN]", b"[Infinity]", b'["\\ud800"]', b"\xff", b"", b"[1] 2"],
)
def test_what_is_no_json_is_refused(body):
    with pytest.raises(RequestError, match="not valid JSON") as refused:
        read_json(body, DEFAULT_LIMITS)
    assert refused.value.status == 400


def test_json_is_read():
    text = '{"rows": [[1, -2.5e3, null, true], ["\\u00e9\\ud83d\\ude00", "a,b"]]}'
    assert read_json(text.encode(), DEFAULT_LIMITS) == {
        "rows": [[1, -2500.0, None, True], ["é😀", "a,b"]]
    }


def test_limits_hold_before_the_whole_is_read():
    """What comes after the limit cannot be read, and is not seen."""
    with pytest.raises(RequestError, match="more than 40000 cells"):
        read_json(b"[[" + b"1," * 100_000 + b"!", LIMITS)
    with pytest.raises(RequestError, match="more than 5 rows"):
        read_csv(b"a\n" + b"1\n" * 6 + b'"', ["a"], LIMITS)
    with pytest.raises(RequestError, match="more than 40000 cells"):
        read_csv(b"a" * 10 + b"," * 50_000, ["a"], LIMITS)


def test_reading_stops_when_the_client_is_gone():
    event = threading.Event()
    event.set()
    with stopped_by(event), pytest.raises(WorkStoppedError):
        read_csv(b"a\n1\n", ["a"], DEFAULT_LIMITS)
    assert read_csv(b"a\n1\n", ["a"], DEFAULT_LIMITS) == {"a": [1.0]}
    assert read_csv(b"a;b\n1,5;2\n", ["b", "a"], DEFAULT_LIMITS) == {"b": [2.0], "a": ["1,5"]}


@pytest.mark.parametrize(
    "text",
    ['{"rows": [[1], [2]', '{"rows": [[1] [2]]}', "[[1], NaN]", "[[1]]}", '{"rows": [[1],]}'],
)
def test_bodies_that_are_not_json_are_refused(text):
    with pytest.raises(RequestError, match="not valid JSON"):
        read_json(text.encode(), LIMITS)
