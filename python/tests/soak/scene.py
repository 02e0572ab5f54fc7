"""A fabric with a probe and a reflector in it, for one fault whose truth is known."""

import json
import signal
import subprocess
import sys
import time

PORT = 7007
LIMIT = 30
"""Seconds after which a step counts as stuck."""
PLAIN = f"""import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while read := self.request.recv(8192):
            self.request.sendall(read)
socketserver.ThreadingTCPServer.request_queue_size = 50
server = socketserver.ThreadingTCPServer(("", {PORT}), Echo)
print("listening", flush=True)
server.serve_forever()
"""
"""An echo server as there are many: it stamps nothing, and its kernel holds small echoes back (Nagle)."""
HOSTS = """format = 1
name = "{name}"
seed = {seed}
host = [{{ name = "client", address = "10.9.1.4" }}, {{ name = "server", address = "10.9.2.4" }}]
path = [{{ label = "p", from = "client", to = "server", {via}both = {{ delay = "{delay}us"{more} }} }}]
"""


class StuckError(RuntimeError):
    """A step did not come to its end."""


class Scene:
    """The network of one run. Leaving it takes down what it made."""

    def __init__(self, fathom, directory, name, rng):
        self.fathom, self.directory, self.name, self.rng = fathom, directory, name, rng
        self.processes, self.reflector, self.probe, self.truth = [], None, None, {}
        directory.mkdir(parents=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(LIMIT)
        subprocess.run(
            [self.fathom, "fabric", "down", self.name], capture_output=True, timeout=LIMIT, check=False
        )

    def number(self, what, low, high):
        """A random one, which the account of the run names."""
        self.truth[what] = round(self.rng.uniform(low, high), 2)
        return self.truth[what]

    def one(self, what, choices):
        """One of these, likewise."""
        self.truth[what] = self.rng.choice(choices)
        return self.truth[what]

    def up(self, *, box="", more=""):
        """Makes the network; `box`: what a firewall on the way is like."""
        seed, delay = self.rng.randrange(1 << 30), self.rng.choice([200, 1000, 8000])
        via = 'via = ["box"], ' if box else ""
        text = HOSTS.format(name=self.name, seed=seed, via=via, delay=delay, more=more)
        text += f'[[middlebox]]\nname = "box"\nkind = "firewall"\n{box}\n' if box else ""
        scenario = self.directory / "scenario.toml"
        scenario.write_text(text)
        self.call("fabric", "up", scenario, "--name", self.name, "--wait", "sleep", "--cpu-latency", "off")

    def call(self, *words):
        words = [self.fathom, *map(str, words)]
        outcome = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT)
        if outcome.returncode:
            raise StuckError(f"{' '.join(words)}: {outcome.stderr.strip()}")

    def inside(self, host, *words):
        """A command line that runs at a host."""
        return [self.fathom, "fabric", "exec", "--name", self.name, host, "--", *map(str, words)]

    def begin(self, host, *words):
        """Starts a program at a host."""
        log = (self.directory / f"{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                self.inside(host, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process, self.directory / f"{len(self.processes) - 1}.log"

    def reflect(self, *options):
        """Starts the reflector, and waits until it listens."""
        self.reflector, log = self.begin("server", self.fathom, "echo", "--json", *options)
        self.until(lambda: b"listening" in log.read_bytes(), "the reflector listens")

    def serve_plainly(self):
        """The same with a server of another make."""
        self.reflector, log = self.begin("server", sys.executable, "-c", PLAIN)
        self.until(lambda: b"listening" in log.read_bytes(), "the server listens")

    def measure(self, *options, every="100ms"):
        """Starts the probe, and waits until samples have told what is usual."""
        record = ["--record", self.directory / "recording", "--every", every]
        self.probe, _ = self.begin("client", self.fathom, "probe", "server", "-q", *record, *options)
        self.until(lambda: self.has("connection.opened"), "the probe connects")
        time.sleep(self.number("before_s", 4, 6))

    def start(self, *options, reflector=(), box="", more="", every="100ms"):
        self.up(box=box, more=more)
        self.reflect(*reflector)
        self.measure(*options, every=every)

    def event(self, *words):
        self.call("fabric", "event", "--name", self.name, *words)

    def filter(self, host, hook, *rules):
        """Rules of a host's own filter; none takes them away."""
        text = "add table inet soak\ndelete table inet soak\n"
        if rules:
            text += f"table inet soak {{ chain c {{ type filter hook {hook} priority 0\n"
            text += "\n".join(rules) + "\n}\n}\n"
        nft = self.inside(host, "nft", "-f", "-")
        subprocess.run(nft, input=text, check=True, capture_output=True, text=True, timeout=LIMIT)

    def events(self):
        file = self.directory / "recording" / "events.jsonl"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def has(self, kind):
        return any(e["kind"] == kind for e in self.events())

    def until(self, holds, what):
        end = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > end:
                raise StuckError(what)
            time.sleep(0.05)

    def dead(self):
        """Waits until the connection has ended and that is explained."""
        self.until(lambda: self.has("connection.explained") and self.has("connection.closed"), "it ends")

    def stop(self, process, seconds):
        """Has a process stand still."""
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def kill(self):
        self.reflector.kill()
        self.reflector.wait(LIMIT)

    def end(self):
        """Ends the probe as a person does."""
        if self.probe is not None and self.probe.poll() is None:
            self.probe.send_signal(signal.SIGINT)
            self.probe.wait(LIMIT)
