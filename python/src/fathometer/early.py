"""Ctrl-C while the program is still being read: it ends as any other program, and not with a traceback.

The command line imports this first and calls `imported` when it has read the rest. `fathom` holds Ctrl-C back
while the interpreter starts, as nothing of ours runs yet; here it is let through.

And what numpy looks at but once, when it is imported.
"""

import contextlib
import os
import signal
import sys

# In another thread than the main one signals are not ours to set.
with contextlib.suppress(ValueError):
    _before = signal.getsignal(signal.SIGINT)
    if _before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

# Our products of matrices take milliseconds. Threads that then spin for the next one nearly double what a
# report costs, and the processors may be those of a measurement.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

FROM_FATHOM = False
"""Whether `fathom` started this program: it alone holds Ctrl-C back."""
if sys.platform != "win32":
    FROM_FATHOM = signal.SIGINT in signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def imported() -> None:
    """Ctrl-C is a `KeyboardInterrupt` again, with which commands end in order."""
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
