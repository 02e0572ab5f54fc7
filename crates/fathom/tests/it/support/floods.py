"""Strangers who flood a reflector from addresses of their own, each slowly enough not to fill a small machine.

    floods.py ADDRESS ECHO_PORT THROUGHPUT_PORT SOURCE...    floods until its input ends; prints what it did, as JSON

Of the sources the last makes connections and asks for throughput tests, the others send datagrams. Prints `begun` once each of
them has got through.
"""

import json
import socket
import struct
import sys
import threading
import time

DATAGRAMS_A_SECOND = 1500  # of each source, evenly: a burst would leave gaps in which others get through
CONNECTIONS_A_SECOND = 50
TESTS_A_SECOND = 10
KEPT = 800  # connections that are held open, the oldest given up for the next
LONGEST_S = 90

over = threading.Event()
done = {"datagrams": 0, "connections": 0, "tests": 0}
asks = [
    b'{"tcp":true,"time":10,"parallel":4294967295,"len":131072,"bidirectional":true,"client_version":"3.12"}',
    b'{"tcp":true,"time":4294967295,"omit":4294967295}',
    b"{" * 1000,
]


def paced(a_second: int, at_once: int):
    """Counts up at this rate; after a time without the processor it does not catch up with more than `at_once`."""
    began, told = time.monotonic(), 0
    while not over.wait(1 / a_second):
        due = int((time.monotonic() - began) * a_second)
        told = max(told, due - at_once)
        for number in range(told, due):
            yield number
        told = due


def datagrams(to: tuple[str, int], source: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind((source, 0))
        for number in paced(DATAGRAMS_A_SECOND, 25):
            stranger.sendto(struct.pack("!Q", number) * 8, to)
            done["datagrams"] += 1


def connect(to: tuple[str, int], source: str) -> socket.socket | None:
    try:
        return socket.create_connection(to, 5, (source, 0))
    except OSError:  # It is refused, or reset at once: that may be.
        return None


def connections(to: tuple[str, int], source: str) -> None:
    kept: list[socket.socket] = []
    for number in paced(CONNECTIONS_A_SECOND, 5):
        if stranger := connect(to, source):
            kept.append(stranger)
            done["connections"] += 1
            if number % 2:
                try:
                    stranger.send(b"x")
                except OSError:
                    pass
        if len(kept) > KEPT:
            kept.pop(0).close()


def tests(to: tuple[str, int], source: str) -> None:
    for number in paced(TESTS_A_SECOND, 2):
        if not (stranger := connect(to, source)):
            continue
        with stranger:
            try:
                stranger.sendall(b"strangerstrangerstrangerstranger2345\0")
                # PARAM_EXCHANGE, unless another has the place.
                if stranger.recv(1) == b"\x09":
                    text = asks[number % len(asks)]
                    stranger.sendall(struct.pack("!I", len(text)) + text)
                    stranger.recv(16)
            except OSError:
                pass
            done["tests"] += 1


def main(address: str, echo: str, throughput: str, *sources: str) -> None:
    *senders, last = sources
    parts = [(datagrams, (address, int(echo)), source) for source in senders]
    parts += [(connections, (address, int(echo)), last), (tests, (address, int(throughput)), last)]
    threads = [threading.Thread(target=what, args=rest) for what, *rest in parts]
    for thread in threads:
        thread.start()
    until = time.monotonic() + LONGEST_S
    while not all(done.values()) and time.monotonic() < until:
        time.sleep(0.01)
    print("begun", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    over.wait(max(0.0, until - time.monotonic()))
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
