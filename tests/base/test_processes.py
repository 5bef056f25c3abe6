"""Processes that are started ahead are handed out, and none outlives its block."""

from vicinal._base._processes import processes_ahead, take_process


def test_processes_are_taken_once_and_the_others_end_with_the_block():
    with processes_ahead("http.server", 2):  # would never end by itself
        taken = take_process("http.server", 2)
        other = take_process("platform", 2)
        left = take_process("http.server", 2)
        assert len({taken.pid, other.pid, left.pid}) == 3
        for process in (taken, left):
            process.kill()
    with processes_ahead("http.server", 1):
        pass
    assert other.communicate()[0]
    for process in (taken, other, left):
        process.communicate()
        process.log.close()


def test_those_not_taken_are_ended(monkeypatch):
    from vicinal._base import _processes

    started = []
    make = _processes._started
    monkeypatch.setattr(
        _processes, "_started", lambda *given: started.append(make(*given)) or started[-1]
    )
    with processes_ahead("http.server", 2):
        assert [process.poll() for process in started] == [None, None]
    assert all(process.returncode is not None for process in started)
