"""A terminal with a program on it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
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
            # They are ignored in a background job and under nohup, and so would be in what tests start.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
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

    def read_until_written(self, text):
        """Reads until a program that draws no pictures has written the text."""
        given_up = time.monotonic() + PATIENCE_S
        while text not in CODES.sub(b"", self.written).decode(errors="replace"):
            assert time.monotonic() < given_up, self.written[-2000:]
            assert self._read(), self.written[-2000:]

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

    def go_away(self):
        """The terminal is gone, as when SSH is cut."""
        os.close(self._file)

    def ended(self):
        """The exit code of a program whose terminal has gone; one that does not end fails."""
        given_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < given_up:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("it went on without its terminal")

    def _read(self):
        # Linux tells of a terminal whose last program has gone by EIO. One that draws nothing
        # more is not waited for for ever.
        data = b""
        if not select.select([self._file], [], [], PATIENCE_S)[0]:
            return False
        with contextlib.suppress(OSError):
            data = os.read(self._file, 1 << 16)
        self.written += data
        return bool(data)


class Screen:
    """What a program that draws only what has changed shows now, from what it wrote to its terminal: where it
    puts the cursor, what it writes there, and when it wipes the page.
    """

    CURSOR_ASKED, CURSOR_IS = "\x1b[6n", b"\x1b[1;1R"

    def __init__(self, terminal, columns, lines):
        self.terminal = terminal
        self._columns, self._lines = columns, lines
        self._seen = 0
        self._wipe()

    def _wipe(self):
        self._cells = [[" "] * self._columns for _ in range(self._lines)]
        self._row = self._column = 0

    def lines(self):
        return ["".join(cells).rstrip() for cells in self._cells]

    def read_until(self, wanted):
        """Reads until what is shown is as wanted; gives it."""
        given_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < given_up and self.terminal._read():
            self._draw()
            if wanted(self.lines()):
                return self.lines()
        raise AssertionError("it never showed that:\n" + "\n".join(self.lines()))

    def _draw(self):
        # A character or a sequence whose end has not come yet waits for the next time.
        text = self.terminal.written[self._seen :].decode(errors="surrogateescape")
        drawn = 0
        for found in SEQUENCES.finditer(text):
            if (
                found.end() == len(text)
                and ("\x1b" in found[0] or text[-1] >= "\udc80")
                and not found["kind"]
            ):
                break
            self._take(found)
            drawn = found.end()
        self._seen += len(text[:drawn].encode(errors="surrogateescape"))

    def _take(self, found):
        if found[0] == self.CURSOR_ASKED:
            self.terminal.type(self.CURSOR_IS)
        elif found["kind"] == "H":
            row, column = (int(n or 1) for n in (found["values"] or "1;1").split(";"))
            self._row, self._column = row - 1, column - 1
        elif found["kind"] == "J":
            self._wipe()
        elif "\x1b" not in found[0]:
            if self._row < self._lines and self._column < self._columns:
                self._cells[self._row][self._column] = found[0]
            self._column += 1


SEQUENCES = re.compile(r"\x1b\[(?P<values>[0-9;?]*)(?P<kind>[A-Za-z])|\x1b.?|.", re.DOTALL)
