"""The page: what it answers, whom, and what a browser shows."""

import contextlib
import gzip
import http.client
import json
import re
import signal
import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fathometer.errors import ExitCode, FathometerError
from fathometer.study.live.follow import follow
from fathometer.study.lock import locked
from fathometer.study.watch import serve
from fathometer.study.watch.listen import listening, may_be_called
from fathometer.study.watch.serve import Boards, _Server, page
from support.chromium import chromium
from support.command_line import run as command
from support.growing import StudyDirectory
from support.recordings import START, UNANSWERED
from support.watched import PROGRAM, begin, read_until, running

SECOND = 1_000_000_000
PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ("127.0.0.1", 8080)),
        (":0", ("127.0.0.1", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:8080", ("::1", 8080)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_listening_address_is_read(text, address):
    assert listening(text) == address


@pytest.mark.parametrize("text", ["8080", "", ":", ":x", ":65536", "::1:80", "http://a:80", "a b"])
def test_invalid_address_is_refused(text):
    with pytest.raises(FathometerError, match="is no address to listen on") as raised:
        listening(text)
    assert raised.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8080", True),
        ("127.0.0.1", True),
        ("localhost:9999", True),
        ("LOCALHOST:1", True),
        ("[::1]:8080", True),
        ("192.0.2.7:8080", True),
        ("this-machine:80", True),
        ("evil.example:8080", False),
        ("localhost.evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost:8080@evil.example", False),
        ("", False),
        (":8080", False),
        ("localhost:", False),
    ],
)
def test_host_header_must_name_this_machine(host, allowed):
    assert may_be_called(host, frozenset({"localhost", "this-machine"})) is allowed


@contextmanager
def served(output):
    """The page of a study, in this process."""
    boards = Boards(follow(output))
    boards.look()
    with _Server(("127.0.0.1", 0), boards) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield SimpleNamespace(port=server.server_address[1], look=boards.look)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def study(tmp_path):
    made = StudyDirectory(tmp_path)
    paths = [{"directory": f"label={n}", "runs": 2, "run_ns": 60 * SECOND} for n in ("near", "far", "<b>odd")]
    made.note(START, "study.started", study="s <i>", runs=6, plan={"order": "one-by-one", "paths": paths})
    recording = made.begin(START, "label=near/run=01", probe={"count": 400})
    recording.samples([100_000 + 10 * i for i in range(300)] + [UNANSWERED] * 3)
    recording.event(START + SECOND, "note", text="<script>alert(1)</script>")
    with locked(made.output):
        yield made


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return SimpleNamespace(status=answer.status, headers=answer.headers, body=answer.read())
    finally:
        connection.close()


def test_page_and_board_are_answered(study):
    with served(study.output) as site:
        top = ask(site.port)
        assert (top.status, top.body) == (200, page().body)
        policy = top.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert top.headers["X-Content-Type-Options"] == "nosniff"
        assert top.headers["Access-Control-Allow-Origin"] is None
        board = ask(site.port, "/board.json")
        told = json.loads(board.body)
        assert [r["title"] for r in told["rows"]] == ["near", "far", "<b>odd"]
        assert told["rows"][0]["state"] == "running"
        assert told["series"][0]["low_ns"][0] == 100_000
        assert sum(told["series"][0]["lost"]) == 3
        packed = ask(site.port, "/board.json", Accept_Encoding="gzip")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(packed.body)) == told
        # What has not changed is not sent again; what has, is.
        again = ask(site.port, "/board.json", If_None_Match=board.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
        study.note(START + SECOND, "run.failed", run="label=near/run=01", reason="no")
        site.look()
        assert ask(site.port, "/board.json", If_None_Match=board.headers["ETag"]).status == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"Host": "evil.example"}, 421),
        ("/board.json", {"Host": "evil.example:8080"}, 421),
        ("/", {"Host": "localhost:1"}, 200),
        ("/journal.jsonl", {}, 404),
        ("/../journal.jsonl", {}, 404),
        ("/%2e%2e/journal.jsonl", {}, 404),
        ("http://evil.example/", {}, 421),
        ("http://evil.example/", {"Host": "localhost"}, 400),
        ("/board.json?span=all", {}, 200),
        ("/board.json/", {}, 404),
    ],
)
def test_only_two_paths_are_answered(study, path, headers, status):
    with served(study.output) as site:
        assert ask(site.port, path, **headers).status == status


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_is_allowed(study, method):
    with served(study.output) as site:
        answer = ask(site.port, "/board.json", method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


def test_longest_silent_connection_makes_room(study, monkeypatch):
    most = 4
    monkeypatch.setattr(serve, "CONNECTIONS", most)
    with served(study.output) as site, contextlib.ExitStack() as stack:
        asking = stack.enter_context(
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=20))
        )

        def asked():
            asking.request("GET", "/")
            return asking.getresponse().read() == page().body

        def silent(count):
            address = ("127.0.0.1", site.port)
            return [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(count)]

        assert asked()
        held = silent(most - 2)
        # Connections are taken in their order: this one is served when all of those are open.
        assert ask(site.port).status == 200
        assert asked()
        silent(most - 2)
        assert ask(site.port).status == 200
        assert held[0].recv(1) == b""
        assert asked(), "the one that asked after those were opened is kept"


def test_watch_serves_the_page_until_ended(study, tmp_path):
    words = ["study", "watch", str(study.output), "--http", ":0", "--port-file", str(tmp_path / "port")]
    with begin([*PROGRAM, *words]) as watcher:
        said = read_until(watcher.stderr, "http://")
        port = int((tmp_path / "port").read_text())
        assert f"http://127.0.0.1:{port}/ " in said
        assert ask(port).body == page().body
        assert json.loads(ask(port, "/board.json").body)["rows"][0]["title"] == "near"
        watcher.send_signal(signal.SIGTERM)
        assert watcher.communicate(timeout=30)[0] == ""
    assert watcher.returncode == 0


def test_taken_port_and_missing_study_fail(study, tmp_path):
    with served(study.output) as site:
        done = command("study", "watch", study.output, "--http", f":{site.port}")
        assert done.returncode == 1
        assert "choose another address or port with --http" in done.stderr
    assert "holds no study" in command("study", "watch", tmp_path, "--http", ":0").stderr
    assert command("study", "watch", study.output, "--http", "8080").returncode == ExitCode.USAGE


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def until(tab, condition, patience_s=60):
    """Waits until it holds. Playwright's own way evaluates strings, which the page's policy forbids."""
    for _ in range(10 * patience_s):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(100)
    pytest.fail(f"never: {condition}")


@contextmanager
def opened(browser, url, size=DESKTOP, scheme="light"):
    """A page, with everything that it says and asks for."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        tab = context.new_page()
        said, asked = [], set()
        # Its advice about reading pictures back is for us, who do, and not for the page.
        tab.on("console", lambda m: said.append(m.text) if "willReadFrequently" not in m.text else None)
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.add(request.url.partition("?")[0]))
        tab.goto(url)
        until(tab, "document.body.dataset.drawn > 0")
        yield SimpleNamespace(page=tab, said=said, asked=asked)
    finally:
        context.close()


INK = """colour => {
    const canvas = document.querySelector('#chart');
    const c = document.createElement('canvas').getContext('2d');
    c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(colour);
    c.fillRect(0, 0, 1, 1);
    const [r, g, b] = c.getImageData(0, 0, 1, 1).data;
    const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let found = 0;
    for (let i = 0; i < dots.length; i += 4) {
        found += dots[i + 3] > 250 && Math.abs(dots[i] - r) + Math.abs(dots[i + 1] - g) + Math.abs(dots[i + 2] - b) < 12;
    }
    return found;
}"""  # noqa: E501


@pytest.mark.acceptance
@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")])
def test_page_follows_a_running_study(browser, tmp_path, size, scheme):
    with running(tmp_path, probe="every = '20ms'\nfor = '10m'", top="order = 'side-by-side'"):
        argv = [*PROGRAM, "study", "watch", str(tmp_path / "out"), "--http", ":0"]
        watcher = begin([*argv, "--port-file", str(tmp_path / "port")])
        try:
            line = read_until(watcher.stderr, "http://")
            url = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
            assert (tmp_path / "port").read_text() == f"{url.split(':')[2].rstrip('/')}\n"
            with opened(browser, url, size, scheme) as shown:
                tab = shown.page
                until(tab, "document.body.dataset.drawn == 2")
                samples = "[...document.querySelectorAll('#rows td:nth-child(8)')].map(td => Number(td.textContent.replace(',', '')))"  # noqa: E501
                first = tab.evaluate(samples)
                # Figures change while the study goes on, and the lines grow.
                until(tab, f"{samples}.every((n, i) => n > {first}[i])")
                until(tab, "board.series.every(s => s.t_ms.length > 2)")
                assert tab.evaluate(INK, "--c0") > 20
                assert tab.evaluate(INK, "--c1") > 20
                assert tab.locator("#state").text_content() == "running"
                assert re.match(r"0 of 40 runs, about ", tab.locator("#progress").text_content())
                assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
                assert shown.said == []
                assert shown.asked - {"data:,"} == {url, f"{url}board.json"}
        finally:
            watcher.send_signal(signal.SIGTERM)
            watcher.communicate(timeout=30)
        assert watcher.returncode == 0


def test_markup_in_names_is_shown_as_text(browser, study):
    with served(study.output) as site, opened(browser, f"http://127.0.0.1:{site.port}/") as shown:
        tab = shown.page
        assert tab.locator("#rows th").nth(2).text_content() == "<b>odd"
        assert tab.locator("#study").text_content() == "s <i>"
        assert tab.locator("#events").text_content().count("<script>alert(1)</script>") == 1
        assert tab.locator("#rows tr").first.locator("td").last.text_content() == "<script>alert(1)</script>"
        assert shown.said == []


@pytest.mark.acceptance
def test_page_hides_paths_and_shows_values(browser, study):
    recording = study.begin(START + 3600 * SECOND, "label=far/run=01")
    recording.samples([5_000_000] * 100)
    with served(study.output) as site, opened(browser, f"http://127.0.0.1:{site.port}/") as shown:
        tab = shown.page
        assert tab.evaluate("chart.shown.paths.map(s => s.title)") == ["near", "far"]
        # Of what was measured an hour and more ago ten minutes show nothing; all the time does.
        assert tab.evaluate(INK, "--c0") == 0
        tab.locator("[data-span=all]").click()
        until(tab, f"({INK})('--c0') > 0 && ({INK})('--c1') > 0")
        tab.locator("#rows button").first.click()
        assert tab.evaluate("chart.shown.paths.map(s => s.title)") == ["far"]
        assert tab.evaluate(INK, "--c0") == 0
        box = tab.locator("#chart").bounding_box()
        at = tab.evaluate("chart.x(chart.shown.paths[0].t_ms[0])")
        tab.mouse.move(box["x"] + at, box["y"] + 50)
        assert "far 5 ms (5 ms to 5 ms)" in tab.locator("#readout").text_content()
        assert shown.said == []


@pytest.mark.acceptance
def test_page_shows_end_and_lost_server(browser, study):
    with served(study.output) as site, opened(browser, f"http://127.0.0.1:{site.port}/") as shown:
        study.note(START + 90 * SECOND, "study.interrupted", reason="enough")
        site.look()
        until(shown.page, "document.querySelector('#state').textContent == 'interrupted'")
        assert "enough" in shown.page.locator("#events li").first.text_content()
        assert not shown.page.locator("#trouble").is_visible()
        shown.page.route("**/board.json*", lambda route: route.abort())
        shown.page.wait_for_selector("#trouble", state="visible")


def test_long_scenarios_stay_small(tmp_path):
    made = StudyDirectory(tmp_path)
    made.note(START, "study.started", study="s", runs=4)
    for n in range(4):
        recording = made.begin(START, f"label=path-{n:02}/run=01")
        for first in range(0, 72_000, 24_000):
            recording.samples([10**6 + first] * 24_000)
        recording.event(START, "note", text="x")
    with served(made.output) as site:
        for span in ("recent", "all"):
            told = ask(site.port, f"/board.json?span={span}", Accept_Encoding="gzip")
            columns = json.loads(gzip.decompress(told.body))["series"]
            # Two hours of ten samples a second: a bin a second would be 7,200.
            assert all(300 <= len(s["t_ms"]) <= 600 for s in columns)
            assert len(told.body) < 30_000
