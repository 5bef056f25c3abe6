"""The process behind :mod:`vicinal.inspection.compare._folds`, which runs folds on request.

Messages are pickles on standard input and output. The parent's death closes standard input, and
then the process ends at once, whatever it is computing.
"""

import os
import pickle
import queue
import sys
import threading
import warnings


def main() -> None:
    """Read a :class:`FoldRunner`, then tasks, until the parent closes the pipe."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what models print must not mix with the results
    requests: queue.Queue = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    warnings.simplefilter("ignore")  # convergence of a candidate is no concern of the leaderboard
    runner = requests.get()
    _send(results, "ready")
    while True:
        name, fold, seconds = requests.get()
        runner.encode(name, fold)
        _send(results, "started")  # only now does the clock of the model run
        _send(results, runner.run(name, fold, seconds))


def _listen(requests) -> None:
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def _send(stream, message) -> None:
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


if __name__ == "__main__":
    main()
