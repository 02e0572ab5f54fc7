"""A study over real sshd, between four machines in namespaces."""

import hashlib
import json
import shutil

from typer.testing import CliRunner

from fathometer.dataset import open_recordings
from fathometer.study.command import study_app
from support.programs import fathom


def test_two_hosts_and_this_one_are_measured(lab):
    lab.write([("a", "b"), ("here", "a")])
    sha256 = hashlib.sha256(lab.binary.read_bytes()).hexdigest()
    bins = {name: lab.hosts[name].home / ".fathom" / "bin" / f"fathom-{sha256[:16]}" for name in "ab"}
    # A host that has another file of the binary's name gets the binary, too.
    for name in bins:
        shutil.rmtree(lab.hosts[name].home / ".fathom", ignore_errors=True)
    bins["b"].parent.mkdir(parents=True)
    bins["b"].write_text("#!/bin/sh\necho another\n")
    bins["b"].chmod(0o700)
    lab.run()
    recordings = list(open_recordings([lab.output]))
    assert len(recordings) == 2
    for recording in recordings:
        source, to = recording.label.split("-")
        assert recording.totals.samples == 40
        assert recording.damage == ()
        assert not recording.running
        assert recording.manifest.reflector["resolved"] == f"{lab.machines.address[to]}:7007"
        assert source in ("a", "here")
    assert {e["host"] for e in lab.entries if e["kind"] == "ssh.ready"} == {"a", "b"}
    for path in bins.values():
        assert path.read_bytes() == lab.binary.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o700
    lab.assert_nothing_left()


def test_check_and_plan_contact_no_host(tmp_path, monkeypatch):
    programs, called, file = tmp_path / "bin", tmp_path / "called", tmp_path / "study.toml"
    programs.mkdir()
    (programs / "ssh").write_text(f"#!/bin/sh\n: >{called}\n")
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    hosts = "".join(f"[[host]]\nname = '{n}'\nssh = {{ address = '{n}.invalid' }}\n" for n in "ab")
    file.write_text(
        f"format = 1\nname = 'far'\n{hosts}[[scenario]]\nlabel = 'a-b'\nfrom = 'a'\nto = 'b'\n"
        "[[probe]]\ncount = 10\n"
    )
    for words in (["check"], ["plan"], ["plan", "--json"]):
        done = CliRunner().invoke(study_app, [*words, str(file)])
        assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["study"] == "far"
    assert not called.exists()
    # A run does call that program.
    words = ["run", str(file), "-o", str(tmp_path / "out"), "--fathom", fathom(), "--remote-binary", fathom()]
    assert CliRunner().invoke(study_app, words).exit_code == 1
    assert called.exists()
