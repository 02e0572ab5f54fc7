# ruff: noqa: E501 - tables as their tools print them
"""Each peer's output, by hand from the documented shapes."""

import json

ECHO = """packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us
1,2025-03-20T11:04:08.000000,1742465048000000000,1742465048000315250,315.25
2,2025-03-20T11:04:09.000000,1742465049000000000,1742465049000400000,400.0
3,2025-03-20T11:04:10.000000,1742465050000000000,,
4,2025-03-20T11:04:20.000000,1742465060000000000,1742465060000300000,300.0
"""
ECHO_LOG = """2025-03-20 11:04:08,000 - INFO - connected
2025-03-20 11:04:15,500 - ERROR - TCP CONNECTION DROP: Socket timeout - server not responding
"""
SOCKPERF = """------------------------------
test was performed using the following parameters: --mps=100 --burst=1 --reply-every=1 --msg-size=128 --time=1
------------------------------
sockperf: \x1b[2;35m====> avg-latency=40.0 (std-dev=2.0)\x1b[0m
sockperf: # dropped messages = 1; # duplicated messages = 0
------------------------------
packet, txTime(sec), rxTime(sec), {column}(usec)
0, 2.441193388, 2.441274749, {first}
1, 2.451193388, 2.451293388, 50.000
3, 2.471193388, 2.471273388, 40.000
------------------------------
"""
SOCKPERF_SUMMARY = """sockperf: == version #3.7 ==
sockperf: ====> avg-latency=81.361 (std-dev=2.500)
sockperf: Summary: Latency is 81.361 usec
sockperf: Total 110 observations; each percentile contains 1.10 observations
sockperf: ---> <MAX> observation =  100.000
sockperf: ---> percentile 99.900 =   99.000
sockperf: ---> percentile 50.000 =   80.500
sockperf: ---> <MIN> observation =   70.000
"""
# As printed in a patch on KVM's list of 29 August 2024 (latte -c -udp -a ADDR -i 10000000 -hist -hl 1000 -hc 30), with
# the byte order mark of the example in microsoft/VirtualClient.
LATTE = """\ufeffProtocol      UDP
SendMethod    Blocking
ReceiveMethod Blocking
SO_SNDBUF     Default
SO_RCVBUF     Default
MsgSize(byte) 4
Iterations    10000000
Latency(usec) 67.66
CPU(%)        1.6
CtxSwitch/sec 32869     (2.22/iteration)
SysCall/sec   69366     (4.69/iteration)
Interrupt/sec 50693     (3.43/iteration)

Interval(usec)   Frequency
      0          9999972
   1000          27
   2000          1
"""
# As PsPing 2.10 printed it (psping -l 1500 -n 300 -h 10), published with "how to use psping under microsoft" (2019).
PSPING = """PsPing v2.10 - PsPing - ping, latency, bandwidth measurement utility

TCP latency test connecting to 119.28.177.46:443: Connected
305 iterations (warmup 5) sending 1500 bytes TCP latency test: 100%

TCP roundtrip latency statistics (post warmup):
  Sent = 300, Size = 1500, Total Bytes: 450000,
  Minimum = 41.58ms, Maxiumum = 50.88ms, Average = 42.97ms

Latency Count
41.58   106
42.62   147
43.65   36
44.68   7
45.72   0
46.75   0
47.78   1
48.82   1
49.85   1
50.88   1
"""
# The same, psping -4 -n 10 -w 2 -h 10 HOST:443.
PSPING_CONNECT = """TCP connect to 47.56.65.222:443:
12 iterations (warmup 2) ping test:

TCP connect statistics for 47.56.65.222:443:
  Sent = 10, Received = 10, Lost = 0 (0% loss),
  Minimum = 38.30ms, Maximum = 43.91ms, Average = 41.42ms

Latency Count
38.30   1
38.92   2
39.55   0
40.17   1
40.79   2
41.41   0
42.04   0
42.66   0
43.28   3
43.91   1
"""
QPERF = """tcp_lat:
    latency   =  16.3 us
    msg_size  =   64 bytes
tcp_lat:
    latency   =  1.2 ms
    msg_size  =    1 KiB
"""
NETPERF = """MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 127.0.0.1 () port 0 : demo
Request Size Bytes,99th Percentile Latency Microseconds,50th Percentile Latency Microseconds,\
Mean Latency Microseconds
1,44,19,21.5
"""
NETPERF_KEYED = "MIGRATED TCP REQUEST/RESPONSE TEST\nP99_LATENCY=18\nP50_LATENCY=9\nMEAN_LATENCY=10.25\n"
NEPER = """timestamp,thread_id,flow_id,rtt
1750000000.000100000,0,0,0.000100
1750000000.000200000,0,1,0.000050
1750000001.000100000,0,0,0.000099
"""
NEPER_TABLE = "num_transactions,latency_max,latency_min,latency_mean\n200,0.0009,0.00001,0.000025\n"
STREAM = {"rtt": 104, "rttvar": 56, "retransmits": 2, "snd_cwnd": 1, "omitted": False, "end": 1.0}
IPERF3 = {
    "start": {"version": "iperf 3.12", "test_start": {"blksize": 131072, "protocol": "TCP"}},
    "intervals": [{"streams": [{**STREAM, "rtt": 900, "omitted": True}]}, {"streams": [STREAM]},
                  {"streams": [{**STREAM, "rtt": 96, "end": 2.0}]}],
    "end": {}, "error": "unable to send control message",
}  # fmt: skip
IPERF3_LINES = "\n".join(
    json.dumps(e)
    for e in [{"event": "start", "data": IPERF3["start"]}]
    + [{"event": "interval", "data": i} for i in IPERF3["intervals"]]
)


def trip(seq, lost, send, receive, stay):
    at = 1_750_000_000_000_000_000
    return {
        "seqno": seq, "lost": lost,
        "timestamps": {"client": {"send": {"wall": at + send, "monotonic": send}, **(
                           {"receive": {"wall": at + receive, "monotonic": receive}} if receive else {})},
                       "server": {"receive": {"monotonic": 5}, "send": {"monotonic": 5 + stay}} if receive else {}},
        "delay": {"rtt": receive - send - stay} if receive else {},
    }  # fmt: skip


IRTT = {"version": {}, "config": {"params": {"interval": 10_000_000, "length": 60}, "remote_address": "h:2112"},
        "round_trips": [trip(0, "false", 100, 112_377, 4_457), trip(1, "true_down", 10_000_100, 0, 0),
                        trip(2, "false", 20_000_100, 20_100_100, 3_000)]}  # fmt: skip
FLENT = {
    "version": 4, "metadata": {}, "x_values": [0, 1], "results": {"Ping (ms) ICMP": [1.5, None]},
    "raw_values": {"Ping (ms) ICMP": [{"t": 1750000000.25, "dur": 0.0, "val": 1.5}, {"t": 1750000000.5, "val": 1.25}],
                   "Ping (ms) UDP BE": [{"t": 1750000000.0, "dur": 0.2, "val": 2000.0},
                                        {"t": 1750000000.2, "dur": 0.2, "val": 1000.0}],
                   "TCP upload": [{"t": 1750000000.0, "val": 3.0}]},
}  # fmt: skip
ETHR_ROTATED = {"Time": "t", "Type": "LatencyResult", "Protocol": "TCP", "Avg": "20us", "Min": "10us",
                "P50": "90us", "P90": "15us", "P95": "20us", "P99": "30us", "P999": "40us", "P9999": "50us",
                "Max": "60us"}  # fmt: skip
ETHR_RIGHT = {**ETHR_ROTATED, "P50": "15us", "P90": "20us", "P95": "30us", "P99": "40us", "P999": "50us",
              "P9999": "60us", "Max": "90us"}  # fmt: skip
PING = """PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.
[1750000000.500000] 64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.500 ms
[1750000002.500000] 64 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time=0.250 ms
[1750000002.500001] 64 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time=0.260 ms (DUP!)

--- 127.0.0.1 ping statistics ---
4 packets transmitted, 2 received, 50% packet loss, time 3003ms
"""

FPING = """[1750000000.000590] 10.0.0.9 : [0], 64 bytes, 0.590 ms (0.590 avg, 0% loss)
[1750000001.500000] 10.0.0.9 : [1], timed out (0.590 avg, 50% loss)
[1750000002.000480] 10.0.0.9 : [2], 64 bytes, 0.480 ms (0.535 avg, 33% loss)

10.0.0.9 : xmt/rcv/%loss = 3/2/33%, min/avg/max = 0.480/0.535/0.590
"""

CASES = {
    "echo-client": ECHO,
    "sockperf": SOCKPERF.format(column="rtt", first="81.361"),
    "latte": LATTE,
    "psping": PSPING,
    "qperf": QPERF,
    "netperf": NETPERF,
    "neper": NEPER,
    "iperf3": json.dumps(IPERF3),
    "irtt": json.dumps(IRTT),
    "flent": json.dumps(FLENT),
    "ethr": json.dumps(ETHR_ROTATED) + "\n",
    "ping": PING,
    "fping": FPING,
}
