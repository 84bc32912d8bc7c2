"""A program with pull workers, as a user would write it; it is killed at any time.

    python pulling_program.py URL LEDGER NAME SUBSCRIPTION...

It works for each subscription in a thread. Each message is {"n"}. What a handler did is a line of the ledger,
a file that all programs append to:

    begin NAME CALL PATH FIRST LAST NOW UNTIL     when it was called, until when its lease is good for sure
    end   NAME CALL NOW LOST                      when it returned, and whether the lease was lost by then

Times are those of the machine's monotonic clock, which all processes share.
"""

import itertools
import os
import random
import sys
import threading
import time

from millstream.subscriptions import PullWorker, Work

MAX_WORK_S = 0.05


class Ledger:
    """Appends lines to a file; a line is one write, so lines of several processes do not mix."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def main(url: str, ledger_path: str, name: str, *subscriptions: str) -> None:
    ledger = Ledger(ledger_path)
    calls = itertools.count()

    def handle(work: Work) -> None:
        call = next(calls)
        until = work.lease._until_s  # a heartbeat may have moved it on: then it is good for longer
        numbers = [message["n"] for message in work.items]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), numbers
        ledger.write("begin", name, call, work.path, numbers[0], numbers[-1], time.monotonic(), until)
        time.sleep(random.random() * MAX_WORK_S)
        ledger.write("end", name, call, time.monotonic(), int(work.is_lost))

    def work(subscription: str) -> None:
        PullWorker(url, subscription, handle, worker=name).run()

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in subscriptions]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    sys.exit("a worker has ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
