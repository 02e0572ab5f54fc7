"""A study of which one host was taken over. It may lie about itself, and nothing more: no file outside the
study, no memory, no time without end, nothing that a terminal obeys; it is named in one line, and the others
go on. `test_study_ssh_answers` has more lies.
"""

import hashlib
import os
import signal
from pathlib import Path

import pytest

from fathometer.dataset import open_recording
from support.hostile import BEGIN, END, EXITED, RUNNING, answer, attack, file, take_over
from support.lab import ended

pytestmark = pytest.mark.acceptance

ESCAPE = b"\x1b]0;owned\x07\x1b[2J"
MIB = 1 << 20


@pytest.fixture
def hostile(lab):
    """Takes the host `b` over; and what the study then comes to, in which `a` is as it should be."""

    def run(attacks, code=1):
        take_over(lab.hosts["b"], lab.machines.key.with_suffix(".pub").read_text(), attacks)
        lab.write([("b", "c"), ("a", "c")])
        process = lab.begin()
        return ended(process, code)

    yield run
    # What it was told to keep.
    for job in lab.hosts["b"].jobs():
        os.kill(job, signal.SIGKILL)


def files(directory, *without):
    return {p for p in directory.rglob("*") if not any(p.is_relative_to(w) for w in without)}


def assert_the_others_went_on(lab, said, what):
    """`a` was measured; `b` failed, in a line that names it and says what."""
    assert lab.recording("a-c").totals.samples == 40
    (reason,) = lab.reasons()
    for line in (reason, said.strip().splitlines()[-1]):
        assert 'host "b"' in line
        assert what in line
        assert len(line) < 1000
    assert "Traceback" not in said
    assert lab.machines.client.marked(lab.study_id) == []


OUTSIDE = {
    "above": "../../../owned.arrows",
    "absolute": "/tmp/fathom-test-owned.arrows",
    "escape": "samples-00000.parquet\x1b]0;owned\x07",
}


@pytest.mark.parametrize("name", OUTSIDE.values(), ids=OUTSIDE)
def test_outside_name_writes_no_file(lab, hostile, tmp_path, name):
    """Names were joined as they came: `../` and absolute ones were written outside of the study."""
    before = files(tmp_path)
    lies = answer(EXITED, file(name), file(name, data=b"owned"))
    said = hostile({"look": lies})
    assert_the_others_went_on(lab, said, "its answer is not understood")
    assert "\x1b" not in said
    kept = [lab.output, lab.output.with_name("out.unfinished"), lab.file, lab.hosts["b"].directory]
    assert files(tmp_path, *kept) == before - files(tmp_path, lab.output)
    assert not Path("/tmp/fathom-test-owned.arrows").exists()
    assert not list(lab.output.rglob("*owned*"))


def peak_of(lab, attacks, hostile):
    """What is said, and the runner's largest memory, in MiB."""
    where = lab.file.with_name("peak")
    program = "from fathometer.cli import main\nimport re\ntry:\n main()\nfinally:\n"
    program += " peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
    program += f" open({str(where)!r}, 'w').write(peak)"
    popen = lab.popen
    lab.popen = lambda *words: popen(*words, program=program)
    try:
        said = hostile(attacks)
    finally:
        lab.popen = popen
    return said, int(where.read_text()) / 1024


def test_an_answer_without_end_is_cut(lab, hostile):
    """The runner took what came: 8.4 GB."""
    refuses = {"look": answer(b'{"is":"error","message":"no"}\n', end=b"")}
    _, usual = peak_of(lab, refuses, hostile)
    for number, endless in enumerate(
        (
            attack(BEGIN + EXITED, endless=True),
            attack(b"y\n" * 4096, endless=True),
            attack(err=b"", out=b"\0" * 65536, endless=True),
        )
    ):
        lab.output = lab.output.with_name(f"endless-{number}")
        said, peak = peak_of(lab, {"look": endless}, hostile)
        assert_the_others_went_on(lab, said, "its answer does not end, and was cut at 1,310,720 bytes")
        assert peak - usual < 64


def test_excess_error_output_is_cut(lab, hostile):
    noisy = attack(err=b"warning\n" * (1 << 20))
    assert_the_others_went_on(lab, hostile({"look": noisy}), "was cut at 1,310,720 bytes")


MALFORMED = {
    "no answer": attack(b"\x00\xff" * 500),
    "no end": attack(BEGIN + RUNNING),
    "depth": attack(BEGIN + b"[" * 4000 + b"\n" + END),
    "what cannot be": answer(RUNNING, file("samples-00000.arrows", 1 << 60)),
    "too many files": answer(EXITED, *(file(f"samples-{n:05d}.arrows") for n in range(10_001))),
}


@pytest.mark.parametrize("lies", MALFORMED.values(), ids=MALFORMED)
def test_malformed_answer_is_one_line(lab, hostile, lies):
    """Answers were taken apart without a guard: a traceback ended the study."""
    assert_the_others_went_on(lab, hostile({"look": lies}), "")


@pytest.mark.parametrize("verb", ["start", "said", "sums", "drop"])
def test_malformed_answer_causes_no_traceback(lab, hostile, verb):
    assert_the_others_went_on(lab, hostile({verb: answer(b'{"is":"state"}\n')}), "not understood")


@pytest.mark.parametrize("verb", ["shell", "hello", "clear"])
def test_host_lying_at_begin_or_end_is_named(lab, hostile, verb):
    said = hostile({verb: attack(b"\nfathom-shell 1\nLin\x1b]0;ux\n" + ESCAPE)})
    assert 'host "b"' in said.strip().splitlines()[-1]
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert lab.hosts["a"].jobs(lab.study_id) == []


def test_escapes_never_reach_the_terminal(lab, hostile):
    """What a host said was shown as it came."""
    message = b'{"is":"error","message":"\\u001b]0;owned\\u0007 \\u202e \\u009b2J"}\n'
    summary = b'{"format":1,"samples":"\\u001b]0;owned\\u0007","answered":1,"rtt_ns":{"mean":"\\u001b[2J"}}\n'
    last = ESCAPE + b" the end"
    for number, attacks in enumerate(
        (
            {"look": answer(message, end=b"")},
            {"look": attack(err=last, code=3)},
            {
                "look": answer(b'{"is":"state","state":"exited","code":3}\n'),
                "said": answer(file("err", len(last), data=last)),
            },
            {"said": answer(file("out", len(summary), data=summary), file("err", len(last), data=last))},
            {"sums": answer(b'{"is":"sum","name":"\\u001b]0;owned\\u0007","sha256":""}\n')},
        )
    ):
        lab.output = lab.output.with_name(f"escapes-{number}")
        # The fourth is a run that ends well: its figures are the host's to say.
        said = hostile(attacks, 0 if number == 3 else 1)
        told = ended(lab.popen("watch", lab.output), 0 if number == 3 else 1)
        for text in (said, told):
            assert not {
                c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"
            }, text
            assert "Traceback" not in text


def test_malformed_recording_is_one_line(lab, hostile):
    """It arrives as it is there, and is not what the plan says."""
    manifest = b'{"format":1,"label":"\\u001b]0;owned\\u0007"}'
    events = b'{"kind":"\xff"}\n' + b"[" * 3000 + b"\n"
    parquet = b"PAR1" + bytes(range(256)) + b"PAR1"
    whole = {"recording.json": manifest, "events.jsonl": events, "samples-00000.parquet": parquet}
    lines = [file(name, len(data)) for name, data in whole.items()]
    lines += [file(name, len(data), data=data) for name, data in whole.items()]
    sums = [
        b'{"is":"sum","name":"%s","sha256":"%s"}\n' % (n.encode(), hashlib.sha256(d).hexdigest().encode())
        for n, d in whole.items()
    ]
    said = hostile({"look": answer(EXITED, *lines), "sums": answer(*sums)})
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert lab.recording("a-c").totals.samples == 40
    assert len(lab.reasons()) == 1


def test_runner_machine_can_be_ssh_host(lab):
    """What ended it on the host by the study's mark ended the runner's own `ssh`, which bears it: always
    "interrupted".
    """
    client = lab.machines.client
    if client.sshd is None or client.sshd.poll() is not None:
        client.serve()
    keys, known = client.home / ".ssh" / "authorized_keys", client.home / ".ssh" / "known_hosts"
    keys.write_text(lab.machines.key.with_suffix(".pub").read_text())
    with known.open("a") as file:
        file.write(f"10.77.0.1 {client.public_key}\n")
    try:
        own = {"own": "address = '10.77.0.1', user = 'root'"}
        lab.write([("own", "own"), ("own", "a")], ssh=own)
        lab.run()
        assert lab.recording("own-own").totals.samples == 40
        assert lab.kinds()[-1] == "study.ended"
        assert not (client.home / ".fathom" / "studies").exists()
        lab.assert_nothing_left()
        # And one that is ended by hand, and goes on.
        lab.output = lab.output.with_name("again")
        lab.write([("own", "own")], "every = '10ms'\ncount = 100", ssh=own, repetitions=2)
        process = lab.begin()
        lab.noted("run.finished")
        process.send_signal(signal.SIGINT)
        assert "the same command goes on" in ended(process, 1)
        lab.run()
        assert lab.kinds()[-1] == "study.ended"
        assert open_recording(lab.output / "label=own-own" / "run=02").totals.samples == 100
    finally:
        client.cut()


@pytest.mark.parametrize("verb", ["shell", "hello"])
def test_host_output_is_not_mistaken_for_ssh(hostile, verb):
    """A host that ended with `ssh`'s own exit code could have its user told to trust another's key."""
    words = b"No ED25519 host key is known for evil.example and you have requested strict checking.\n"
    said = hostile({verb: attack(err=words, code=255)})
    line = said.strip().splitlines()[-1]
    assert 'host "b"' in line
    assert "exit code 255" in line
    assert "ssh-keyscan" not in said
    assert "known_hosts" not in said
    assert "Traceback" not in said
