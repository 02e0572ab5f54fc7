"""The view as a page: one file, no network but for itself, read only."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from fathometer.clean import all_cleaned
from fathometer.errors import FathometerError
from fathometer.study.live.follow import StudyFollower, follow
from fathometer.study.watch.listen import listening, may_be_called, own_names
from fathometer.study.watch.told import told
from fathometer.writing import replace

PERIOD_S: Final = 1.0
CONNECTIONS: Final = 32
"""Open at once. Where one more comes, that one is closed which has been silent for the longest time: whoever
opens connections and asks nothing must not keep others out."""
IDLE_S: Final = 30.0
"""After which a connection without a request is closed."""
_SMALL: Final = 1024
"""Bytes below which packing is not worth it."""


def serve(output: Path, http: str, port_file: Path | None, say: Callable[[str], None]) -> None:
    """Follows a study and serves its page until interrupted. Raises `FathometerError` where there is no
    study, or no such address.
    """
    address, port = listening(http)
    boards = Boards(follow(output))
    boards.look()
    try:
        server = _Server((address, port), boards)
    except (OSError, OverflowError) as error:
        raise FathometerError(
            "watch a study",
            f"listening on {address} port {port}: {getattr(error, 'strerror', None) or error}",
            "choose another address or port with --http",
        ) from None
    with server:
        bound = int(server.server_address[1])
        if not _is_loopback(address):
            say(f"{address} is not this machine alone: whoever reaches it can read this study")
        if port_file is not None:
            _write(port_file, bound)
        shown = f"[{address}]" if ":" in address else address
        say(f"http://{shown}:{bound}/ (Ctrl-C ends it; the study goes on)")
        threading.Thread(target=server.serve_forever, name="page", daemon=True).start()
        try:
            while True:
                time.sleep(PERIOD_S)
                boards.look()
        finally:
            server.shutdown()


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _write(port_file: Path, port: int) -> None:
    try:
        # In one step, so that a reader never gets half a number.
        replace(port_file, f"{port}\n".encode(), shared=True)
    except OSError as error:
        raise FathometerError(
            "watch a study", f"--port-file {port_file}: {error.strerror}", "name a file that can be written"
        ) from None


class Boards:
    """The study as it was at the last look, in bytes. One look, however many ask."""

    def __init__(self, follower: StudyFollower) -> None:
        self._follower = follower
        self._lock = threading.Lock()
        self._now_ns = 0
        self._made: dict[bool, Answer] = {}

    def look(self) -> None:
        """Reads what is new."""
        more = True
        while more:
            with self._lock:
                more = self._follower.poll()
                self._follower.happenings()
                self._now_ns = time.time_ns()
                self._made.clear()

    def answer(self, *, recent: bool) -> Answer:
        """The board with the series of the last ten minutes, or of all the time."""
        with self._lock:
            answer_ = self._made.get(recent)
            if answer_ is None:
                live, now_ns = self._follower.live, self._now_ns
                board = live.board(now_ns, alive=self._follower.alive())
                value = told(board, live.series(recent=recent), now_ns)
                text = json.dumps(all_cleaned(value), separators=(",", ":"), ensure_ascii=False)
                answer_ = self._made[recent] = Answer(text.encode(), "application/json")
            return answer_


class Answer:
    """What is sent, plain and packed, and a name for just these bytes."""

    def __init__(self, body: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        self.body = body
        self.kind = f"{kind}; charset=utf-8"
        self.policy = policy
        self.packed = gzip.compress(body, 3) if len(body) > _SMALL else None
        self.tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'


@cache
def page() -> Answer:
    """The page, with a policy that lets it run its own script, ask us, and do nothing else."""
    files = resources.files("fathometer.study.watch").joinpath("page")
    html, style, chart, script = (
        files.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html", "style.css", "chart.js", "page.js")
    )
    script = f'"use strict";\n{chart}{script}'
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    )
    body = html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
    return Answer(body.encode(), "text/html", policy)


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "fathometer"
    sys_version = ""
    timeout = IDLE_S
    server: _Server

    def do_GET(self) -> None:
        self.server.asked(self.connection)
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not may_be_called(hosts[0], self.server.names):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this page is asked for by address or as localhost")
            return
        asked = urlsplit(self.path)
        if asked.scheme or asked.netloc:
            self._refuse(HTTPStatus.BAD_REQUEST, "no proxy here")
        elif asked.path == "/":
            self._send(page())
        elif asked.path == "/board.json":
            span = parse_qs(asked.query).get("span", ["recent"])
            self._send(self.server.boards.answer(recent=span != ["all"]))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is / and /board.json")

    def _not_allowed(self) -> None:
        # Whatever comes with the request is not read: the connection ends with the answer.
        self.close_connection = True
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "GET is all there is", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _not_allowed  # noqa: N815

    def _send(self, answer: Answer) -> None:
        if self.headers.get("If-None-Match") == answer.tag:
            self._begin(HTTPStatus.NOT_MODIFIED, answer, 0)
            return
        packed = answer.packed if "gzip" in self.headers.get("Accept-Encoding", "") else None
        body = answer.body if packed is None else packed
        self._begin(HTTPStatus.OK, answer, len(body), packed=packed is not None)
        self.wfile.write(body)

    def _begin(self, status: HTTPStatus, answer: Answer, length: int, *, packed: bool = False) -> None:
        self.send_response(status)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(length))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("ETag", answer.tag)
        for name, value in (
            ("Content-Security-Policy", answer.policy),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, words: str, **headers: str) -> None:
        body = f"{words}\n".encode()
        self.send_response(status)
        for name, value in {
            **headers,
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(body)),
        }.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the library has it
        """Says nothing: standard error is the user's."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], boards: Boards) -> None:
        self.boards = boards
        self.names = own_names()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._guard = threading.Lock()
        self._open: dict[socket.socket, None] = {}
        """In the order in which they last asked, or were opened."""
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Serves a connection in a thread of its own."""
        silent = None
        with self._guard:
            self._open[request] = None
            if len(self._open) > CONNECTIONS:
                silent = next(iter(self._open))
                del self._open[silent]
        if silent is not None:
            # Its thread reads or writes there, finds the end, and closes it.
            with contextlib.suppress(OSError):
                silent.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def asked(self, request: socket.socket) -> None:
        """A request has come on a connection."""
        with self._guard:
            if request in self._open:
                del self._open[request]
                self._open[request] = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Makes room again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._open.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A browser that went away in the middle is no error of ours."""
