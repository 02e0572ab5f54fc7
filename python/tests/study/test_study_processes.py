"""The processes of a study: what they may say, and that they end."""

import asyncio
import os
import sys

import pytest

from fathometer.study.processes import OutputTooLong, Processes, end_marked, marked

ENDLESS = "import os\nwhile True: os.write({}, b'y' * 65536)"


def exchanged(program, given=None, most=1 << 20):
    """What a program answers; and nothing of it is left."""
    study = f"test-{os.getpid()}"

    async def run():
        processes = Processes(study)
        try:
            return await processes.exchange([sys.executable, "-c", program], given, most)
        finally:
            assert marked(study) == []

    return asyncio.run(run())


@pytest.mark.parametrize("output", [1, 2])
def test_endless_output_is_cut_and_fails(output):
    """All that came was kept: a host could take the runner's memory."""
    with pytest.raises(OutputTooLong) as cut:
        exchanged(ENDLESS.format(output))
    assert cut.value.most == 1 << 20


def test_pipe_held_by_other_process_is_ignored():
    """As the master of a shared connection of ``ssh`` does, which is in no group of its client's."""
    # Before the first output: what is still in its group when that is too long is ended with it.
    holder = "import os, signal\nr, w = os.pipe()\nif os.fork() == 0:\n os.setsid()\n os.close(w)\n"
    holder += " signal.pause()\nos.close(w)\nos.read(r, 1)\n"

    async def run():
        processes = Processes(f"test-{os.getpid()}")
        argv = [sys.executable, "-c", holder + ENDLESS.format(1)]
        with pytest.raises(OutputTooLong):
            await processes.exchange(argv, most=1 << 20)

    asyncio.run(asyncio.wait_for(run(), 40))
    assert end_marked(f"test-{os.getpid()}") == 1


def test_program_may_leave_input_unread():
    said = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read(2)); sys.stderr.write('e')"
    assert exchanged(said, b"ab" * (1 << 20)) == (0, b"ab", b"e")
    echo = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert exchanged(echo, b"x" * (1 << 20)) == (0, b"x" * (1 << 20), b"")
    assert exchanged("raise SystemExit(3)") == (3, b"", b"")
