"""A lab as `terraform output -json` tells of it, measured over real sshd by way of its jump host."""

import json

import pytest

from support.lab import ended


@pytest.mark.acceptance
def test_a_lab_behind_its_jump_host_is_measured(lab, tmp_path):
    """The client has no route to `b` and `c` but by `a`, and knows no host's key."""
    machines = lab.machines
    (machines.client.home / ".ssh" / "known_hosts").unlink()
    value = {
        "format": 1,
        "lab": "fathom-zones",
        "jump": {"address": machines.address["a"], "user": "root"},
        "hosts": [
            {"name": "client", "address": machines.beyond["b"], "user": "root"},
            {"name": "server", "address": machines.beyond["c"], "user": "root"},
        ],
        "scenarios": [
            {"label": "cross-zone", "from": "client", "to": "server", "port": 7008, "tags": {"zone-to": "2"}}
        ],
    }
    outputs, like = tmp_path / "outputs.json", tmp_path / "like.toml"
    outputs.write_text(json.dumps({"fathometer": {"value": value}}))
    like.write_text(
        'format = 1\nname = "like"\n[[host]]\nname = "here"\nlocal = true\n'
        '[[scenario]]\nlabel = "here"\nfrom = "here"\nto = "here"\n[[probe]]\nevery = "5ms"\ncount = 40\n'
    )
    words = ["--output", lab.file, "--like", like, "--key", machines.key]
    told = ended(lab.popen("from-outputs", outputs, *words), 0)
    assert "is not known" in lab.run(code=1)
    # What it says to do makes it go.
    commands = [line.strip() for line in told.splitlines() if line.startswith("    ")]
    assert len(commands) == 2
    for command in commands:
        machines.client.run(command)
    lab.run()
    recording = lab.recording("cross-zone")
    assert recording.totals.samples == 40
    assert recording.manifest.reflector["resolved"] == f"{machines.beyond['c']}:7008"
    assert recording.manifest.path.tags["zone-to"] == "2"
    lab.assert_nothing_left()
