"""Requests at a steady rate, whatever became of those before.

It knows no library. `ask(sent)` is one request of a caller: it calls `sent()` once there is a connection and
the question goes out, and returns None when the answer is there, or else the class of the error.
"""

import json
import threading
import time

SECOND = 1_000_000_000


class Request:
    """One request. Whoever comes first, its answer or the caller's deadline, ends it."""

    def __init__(self, n, due_ns, begin_ns, tell):
        self.n, self.due_ns, self.begin_ns, self.tell = n, due_ns, begin_ns, tell
        self.sent = False
        self.over = False
        self.lock = threading.Lock()

    def end(self, *, answered, error):
        """Only the first call counts."""
        with self.lock:
            if self.over:
                return
            self.over = True
            end = "answered" if answered else "ambiguous" if self.sent else "failed"
        waited = time.monotonic_ns() - self.begin_ns - self.due_ns
        row = {"n": self.n, "due_ns": self.due_ns, "end": end, "waited_ns": waited, "error": error}
        self.tell(row)

    def is_sent(self):
        """From here the server may do it."""
        with self.lock:
            self.sent = True

    def run(self, ask):
        """What a caller does; it may go on after its deadline, as a thread that nobody can interrupt does."""
        error = ask(self.is_sent)
        self.end(answered=error is None, error=error)


def run(options, ask):
    """All requests that are due within the time: the n-th at n / rate. Their sums."""
    count = {"answered": 0, "failed": 0, "ambiguous": 0}
    ended = threading.Semaphore(0)
    lock = threading.Lock()

    def tell(row):
        with lock:
            count[row["end"]] += 1
            print(json.dumps(row), flush=True)
        ended.release()

    begin_ns = time.monotonic_ns()
    if options.begin:
        begin_ns += options.begin * 1_000_000 - time.time_ns()
    due = 0
    while due / options.rate < options.lasts:
        request = Request(due, round(due / options.rate * SECOND), begin_ns, tell)
        at_ns = begin_ns + request.due_ns
        time.sleep(max(0, at_ns - time.monotonic_ns()) / SECOND)
        left = (at_ns - time.monotonic_ns()) / SECOND + options.deadline
        caller = threading.Timer(left, request.end, kwargs={"answered": False, "error": "deadline"})
        caller.daemon = True
        caller.start()
        threading.Thread(target=request.run, args=(ask,), daemon=True).start()
        due += 1
    for _ in range(due):
        ended.acquire()
    return {"due": due, **count}
