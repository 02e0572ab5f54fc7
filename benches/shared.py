"""What the benchmarks of this directory share."""

import contextlib
import json
import struct
import subprocess


@contextlib.contextmanager
def reflector(fathom, *options):
    """`fathom echo` on core 1; gives its address."""
    command = [fathom, "echo", "--json", "--tcp-only", "--listen", "127.0.0.1:0", "--cpu", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


@contextlib.contextmanager
def awake(wanted):
    """No deep idle states while this lasts (Linux, Documentation/power/pm_qos_interface.rst)."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) if wanted else contextlib.nullcontext() as handle:
        if handle:
            handle.write(struct.pack("i", 0))
        yield
