#!/usr/bin/env python3
"""When each byte of a connection left one host and came to the other, by captures at both ends, which have one clock.

As a program it captures in the network namespace that it is started in, until it is ended: `wire.py PORT FILE` (it prints a line once
it does). As root.
"""

import bisect
import dataclasses
import signal
import socket
import struct
import sys

ETH_P_ALL, PACKET_OUTGOING = 3, 4
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
"""Of Linux (asm-generic/socket.h)."""
KEPT = 400
"""Bytes of a payload that are kept."""
RECORD = struct.Struct("<QBHHIIH")


@dataclasses.dataclass(frozen=True)
class Packet:
    at_ns: int
    is_out: bool
    source: int
    target: int
    seq: int
    length: int
    payload: bytes


def capture(port, path):
    """Every TCP packet with data from or to this port, with the kernel's time."""
    with (
        open(path, "wb") as out,
        socket.socket(
            socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)
        ) as packets,
    ):
        packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        packets.settimeout(0.1)
        over = []
        signal.signal(signal.SIGTERM, lambda *_: over.append(True))
        print("ready", flush=True)
        while True:
            try:
                data, ancillary, _, address = packets.recvmsg(1 << 17, 256)
            except TimeoutError:
                if over:
                    return
                continue
            if data[0] >> 4 != 4 or data[9] != socket.IPPROTO_TCP:
                continue
            tcp = data[(data[0] & 15) * 4 : int.from_bytes(data[2:4], "big")]
            source, target, seq = struct.unpack_from("!HHI", tcp)
            payload = tcp[(tcp[12] >> 4) * 4 :]
            if not payload or port not in (source, target):
                continue
            seconds, ns = struct.unpack("qq", ancillary[0][2])
            kept = payload[:KEPT]
            is_out = address[2] == PACKET_OUTGOING
            out.write(
                RECORD.pack(
                    seconds * 10**9 + ns,
                    is_out,
                    source,
                    target,
                    seq,
                    len(payload),
                    len(kept),
                )
                + kept
            )


def read(path):
    packets = []
    with open(path, "rb") as records:
        while head := records.read(RECORD.size):
            *fields, kept = RECORD.unpack(head)
            packets.append(Packet(*fields, records.read(kept)))
    return packets


class Way:
    """One direction of a connection: when it was known at the sender's and at the receiver's host to have gone up to a byte."""

    def __init__(self, sent, received):
        self.first = sent[0].seq
        self.left, self.came = self._edges(sent), self._edges(received)
        self.packets = sent

    def end(self, packet):
        """The number of the byte behind it; of connections below 2 GiB."""
        return ((packet.seq - self.first) & 0xFFFFFFFF) + packet.length

    def _edges(self, packets):
        ends, times, most = [], [], 0
        for packet in sorted(packets, key=lambda packet: packet.at_ns):
            if (end := self.end(packet)) > most:
                ends.append(end)
                times.append(packet.at_ns)
                most = end
        return ends, times

    def left_ns(self, end):
        return self._when(self.left, end)

    def came_ns(self, end):
        return self._when(self.came, end)

    @staticmethod
    def _when(edges, end):
        return edges[1][bisect.bisect_left(edges[0], end)]

    def came_by(self, at_ns):
        """How many bytes had come."""
        place = bisect.bisect_right(self.came[1], at_ns)
        return self.came[0][place - 1] if place else 0


def connection(at_client, at_server, is_asked):
    """(the way there, the way back) of the connection on which the client sent what this is true of."""
    of = next(
        packet.source for packet in at_client if packet.is_out and is_asked(packet)
    )

    def picked(packets, is_out, is_there):
        return [
            packet
            for packet in packets
            if packet.is_out == is_out
            and (packet.source if is_there else packet.target) == of
        ]

    there = Way(picked(at_client, True, True), picked(at_server, False, True))
    return there, Way(picked(at_server, True, False), picked(at_client, False, False))


if __name__ == "__main__":
    capture(int(sys.argv[1]), sys.argv[2])
