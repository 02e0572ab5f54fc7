"""A terminal with a program on it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from support.watched import environment

CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE_S = 60
HOME = b"\x1b[H"
OTHER_PAGE, OWN_PAGE, CURSOR_OFF, CURSOR_ON = (
    f"\x1b[?{c}".encode() for c in ("1049h", "1049l", "25l", "25h")
)


class Terminal:
    """Begins a program on a terminal of so many columns and lines."""

    def __init__(self, argv, columns, lines):
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            # The size first: what is begun must not see another one.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvpe(argv[0], argv, environment())
        self.written = b""

    def resize(self, columns, lines):
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys):
        os.write(self._file, keys)

    def pictures(self):
        """Each picture drawn so far, as lines of text; the last may be half there."""
        return [
            CODES.sub(b"", part).decode(errors="replace").splitlines() for part in self.written.split(HOME)
        ]

    def left(self):
        """The lines that stay when the program has given the terminal back."""
        return CODES.sub(b"", self.written.rpartition(OWN_PAGE)[2]).decode().splitlines()

    def read_until(self, wanted):
        """Reads until a whole picture is as wanted; gives it. One that draws others for too long fails."""
        seen = 0
        given_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < given_up and self._read():
            pictures = self.pictures()[:-1]
            for picture in pictures[seen:]:
                if wanted(picture):
                    return picture
            seen = len(pictures)
        raise AssertionError(f"it never showed that: {self.written[-2000:]!r}")

    def read_all(self):
        """What a program that has been stopped had written until then, with all before."""
        while select.select([self._file], [], [], 0)[0] and self._read():
            pass
        return self.written

    def end(self):
        """Reads to the end; the exit code."""
        while self._read():
            pass
        os.close(self._file)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self):
        # Linux tells of a terminal whose last program has gone by EIO.
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self._file, 1 << 16)
        self.written += data
        return bool(data)
