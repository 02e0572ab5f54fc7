"""A STAMP peer of its own, from the text of RFC 8762 and RFC 8972, against which fathom's is tested.

    stamp_peer.py reflect stateful|stateless ntp|ptp     prints its port, then answers until its input ends
    stamp_peer.py send PORT COUNT EXTENSIONS_HEX         sends, and prints one JSON object an answer
"""

import json
import select
import socket
import struct
import sys
import time

NTP_EPOCH = 2_208_988_800
SENDER = struct.Struct("!IIIBBH28x")
REFLECTOR = struct.Struct("!IIIBBHIIIIIBB2xB3x")
assert SENDER.size == REFLECTOR.size == 44


def now(ptp: bool) -> tuple[int, int]:
    seconds, ns = divmod(time.time_ns(), 10**9)
    return (seconds, ns) if ptp else (seconds + NTP_EPOCH, (ns << 32) // 10**9)


def reflect(stateful: bool, ptp: bool) -> None:
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.bind(("127.0.0.1", 0))
    print(here.getsockname()[1], flush=True)
    answers: dict[tuple[object, int], int] = {}
    while True:
        ready, _, _ = select.select([here, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        packet, peer = here.recvfrom(65_535)
        received = now(ptp)
        if len(packet) < 44:
            continue
        number, seconds, fraction, error, multiplier, session = SENDER.unpack(packet[:44])
        own = answers.get((peer, session), 0) if stateful else number
        answers[peer, session] = own + 1
        # S set, the Z bit as the format is; 2^-20 s, which is about a microsecond.
        flags = 0x80 | (0x40 if ptp else 0) | 12
        answer = REFLECTOR.pack(
            own, *now(ptp), flags, 1, session, *received, number, seconds, fraction, error, multiplier, 255
        )
        here.sendto(answer + packet[44:], peer)


def send(port: int, count: int, extensions: bytes) -> None:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 77)
    there.connect(("127.0.0.1", port))
    there.settimeout(20)
    for number in range(count):
        sent = now(ptp=False)
        packet = SENDER.pack(number, *sent, 0x80 | 12, 1, 0xBEEF) + extensions
        there.send(packet)
        answer = there.recv(65_535)
        own, sent_s, sent_f, flags, multiplier, session, received_s, received_f, of, of_s, of_f, e, m, ttl = (
            REFLECTOR.unpack(answer[:44])
        )
        print(
            json.dumps(
                {
                    "length": len(answer) - len(packet),
                    "own": own,
                    "session": session,
                    "of": of,
                    "repeats": [of_s, of_f, e, m] == [*sent, 0x80 | 12, 1],
                    "ttl": ttl,
                    "ptp": bool(flags & 0x40),
                    "multiplier": multiplier,
                    "in_order": sent <= (received_s, received_f) <= (sent_s, sent_f) <= now(ptp=False),
                    "zeros": answer[38:40] == b"\0\0" and answer[41:44] == b"\0\0\0",
                    "extensions": answer[44:].hex(),
                }
            )
        )


if sys.argv[1] == "reflect":
    reflect(sys.argv[2] == "stateful", sys.argv[3] == "ptp")
else:
    send(int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4]))
