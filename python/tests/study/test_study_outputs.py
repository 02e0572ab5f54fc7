"""`study from-outputs`: what Terraform says of a lab becomes a study."""

import json
import shlex
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fathometer.errors import FathometerError
from fathometer.study.command import study_app
from fathometer.study.outputs import known_hosts_commands, read_lab, study_text
from fathometer.study.read import parse, read_study
from fathometer.study.toml_text import toml_text


def lab(**changes):
    value = {
        "format": 1,
        "lab": "fathom-zones",
        "jump": {"address": "198.51.100.7", "user": "azureuser"},
        "hosts": [
            {"name": "client", "address": "10.60.1.10", "user": "azureuser"},
            {"name": "server", "address": "10.60.1.20", "user": "azureuser"},
        ],
        "scenarios": [
            {
                "label": "same-zone-lb",
                "from": "client",
                "to": "server",
                "via": "load balancer",
                "address": "10.60.1.100",
                "port": 7007,
                "tags": {"zone-from": "1", "zone-to": None},
            }
        ],
    }
    return {**value, **changes}


def outputs(value):
    return {"fathometer": {"sensitive": False, "type": ["object", {}], "value": value}, "other": {"value": 1}}


def run(*args, given=None):
    return CliRunner().invoke(study_app, ["from-outputs", *map(str, args)], input=given)


def test_a_study_is_made_of_what_terraform_prints(tmp_path):
    study = tmp_path / "lab.toml"
    done = run("-", "--output", study, given=json.dumps(outputs(lab())))
    assert done.exit_code == 0, done.output
    made = read_study(study)
    assert made.name == "fathom-zones"
    client, server = made.host
    assert (client.ssh.address, client.ssh.user) == ("10.60.1.10", "azureuser")
    assert client.ssh.jump == server.ssh.jump == "azureuser@198.51.100.7"
    (path,) = made.scenario
    assert (path.label, path.source, path.to) == ("same-zone-lb", "client", "server")
    assert (path.via, path.address, path.port) == ("load balancer", "10.60.1.100", 7007)
    assert path.tags == {"zone-from": "1"}
    (probe,) = made.probe
    assert (probe.every_ns, probe.for_ns) == (100_000_000, 25_000_000_000)


def test_the_output_alone_is_taken_too(tmp_path):
    (tmp_path / "o.json").write_text(json.dumps(lab()))
    assert run(tmp_path / "o.json", "-o", tmp_path / "s.toml").exit_code == 0
    assert read_study(tmp_path / "s.toml").name == "fathom-zones"


def test_another_study_says_what_is_measured(tmp_path):
    (tmp_path / "of-others").mkdir()
    (tmp_path / "of-others/none.toml").write_text("")
    like = tmp_path / "of-others/like.toml"
    like.write_text(
        'format = 1\nname = "like"\nseed = 7\nrepetitions = 3\n'
        '[[host]]\nname = "here"\nlocal = true\n'
        '[[scenario]]\nlabel = "alone"\nfrom = "here"\nto = "here"\n'
        '[[probe]]\nname = "sizes"\nmode = "tcp-ping-pong"\nsizes = [64, "1KiB"]\ncount = 200\n'
        '[[policy]]\nname = "none"\nfile = "none.toml"\nfor = "1m"\n'
        '[schedule]\nhours = ["09:00-17:00"]\n[limits]\nallow-high-rate = true\n'
    )
    study = tmp_path / "lab.toml"
    assert run("-", "-o", study, "--like", like, given=json.dumps(outputs(lab()))).exit_code == 0
    made, model = read_study(study), read_study(like)
    assert [s.label for s in made.scenario] == ["same-zone-lb"]
    assert [h.name for h in made.host] == ["client", "server"]
    same = ("seed", "repetitions", "probe", "schedule", "limits")
    assert [getattr(made, name) for name in same] == [getattr(model, name) for name in same]
    # From its own directory, where the policy's file is another way.
    assert [p.file for p in made.policy] == ["of-others/none.toml"]


def test_without_a_jump_host_hosts_are_reached_directly(tmp_path):
    text = study_text(read_lab(json.dumps(lab(jump=None)).encode(), "x"), None, "/keys/lab", tmp_path)
    ssh = [host["ssh"] for host in tomllib.loads(text)["host"]]
    assert ssh[0] == {"address": "10.60.1.10", "user": "azureuser", "key": "/keys/lab"}
    (scan,) = known_hosts_commands(read_lab(json.dumps(lab(jump=None)).encode(), "x"), None)
    assert scan == "ssh-keyscan 10.60.1.10 10.60.1.20 >> ~/.ssh/known_hosts"


def test_hidden_hosts_are_scanned_from_jump_host():
    first, then = known_hosts_commands(read_lab(json.dumps(lab()).encode(), "x"), "/my keys/lab")
    assert first == "ssh-keyscan 198.51.100.7 >> ~/.ssh/known_hosts"
    assert shlex.split(then)[:5] == ["ssh", "-i", "/my keys/lab", "azureuser@198.51.100.7", "ssh-keyscan"]


def test_ipv6_jump_host_and_port_are_accepted(tmp_path):
    value = lab(jump={"address": "2001:db8::7", "user": "azureuser"})
    value["scenarios"][0]["port"] = 7008
    made, problems = parse(study_text(read_lab(json.dumps(value).encode(), "x"), None, None, tmp_path))
    assert problems == []
    assert made.host[0].ssh.jump == "azureuser@[2001:db8::7]"
    assert made.scenario[0].port == 7008


def test_a_study_that_is_there_is_not_overwritten(tmp_path):
    study = tmp_path / "lab.toml"
    study.write_text("mine")
    done = run("-", "-o", study, given=json.dumps(outputs(lab())))
    assert done.exit_code != 0
    assert isinstance(done.exception, FathometerError)
    assert "is there already" in str(done.exception)
    assert study.read_text() == "mine"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"{}", "has no output `fathometer`"),
        (b"[1]", "`fathometer`"),
        (b'{"fathometer": 3}', "`fathometer`"),
        (json.dumps(outputs(lab(format=2))).encode(), "`fathometer.format`"),
        (json.dumps(outputs(lab(format=True))).encode(), "`fathometer.format`"),
        (json.dumps(outputs(lab(hosts=[]))).encode(), "`fathometer.hosts`"),
        (json.dumps(outputs(lab(surprise=1))).encode(), "`fathometer.surprise`"),
        (
            json.dumps(outputs(lab(jump={"address": "-oProxyCommand=x", "user": "a"}))).encode(),
            "jump.address",
        ),
        (json.dumps(outputs(lab(jump={"address": "10.0.0.1", "user": "-x"}))).encode(), "jump.user"),
        (b'{"fathometer": {"value": {"lab": "\\ud800"}}}', "`fathometer"),
        (b" " * (4 << 20) + b"{}", "larger than 4 MiB"),
    ],
)
def test_invalid_output_of_lab_is_refused(data, says):
    with pytest.raises(FathometerError) as error:
        read_lab(data, "lab.json")
    assert "lab.json" in str(error.value)
    assert says in str(error.value)


def test_path_to_missing_host_is_refused(tmp_path):
    path = {"label": "a", "from": "client", "to": "nowhere"}
    made = read_lab(json.dumps(lab(scenarios=[path])).encode(), "x")
    with pytest.raises(FathometerError, match='no host is called "nowhere"'):
        study_text(made, None, None, tmp_path)


def test_ssh_port_is_refused_with_reason(tmp_path):
    """The study was written, and its reflector found the port taken on each host."""
    value = lab()
    value["scenarios"][0]["port"] = 22
    done = run("-", "-o", tmp_path / "s.toml", given=json.dumps(outputs(value)))
    assert "the path same-zone-lb is to be measured at port 22, which is SSH's" in str(done.exception)
    assert not (tmp_path / "s.toml").exists()


def test_a_key_that_is_not_there_is_named(tmp_path):
    study = tmp_path / "s.toml"
    done = run("-", "-o", study, "--key", tmp_path / "none", given=json.dumps(outputs(lab())))
    assert f"{tmp_path}/none: there is no such file, which --key names" in str(done.exception)
    assert not study.exists()
    (tmp_path / "none").touch()
    assert run("-", "-o", study, "--key", tmp_path / "none", given=json.dumps(outputs(lab()))).exit_code == 0


_TEXT = st.text(st.characters(codec="utf-8"))
_PLAIN = st.one_of(_TEXT, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
_INLINE = st.recursive(_PLAIN, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=6)
_TABLE = st.dictionaries(_TEXT, _INLINE, max_size=3)


_TABLES = st.dictionaries(_TEXT, st.one_of(_INLINE, _TABLE, st.lists(_TABLE, max_size=3)), max_size=4)


@settings(max_examples=40)
@given(_TABLES)
def test_tables_are_read_as_they_were_written(tables):
    assert tomllib.loads(toml_text(tables)) == tables


@pytest.mark.acceptance
@settings(max_examples=300)
@given(_TABLES)
def test_many_tables_are_read_as_written(tables):
    assert tomllib.loads(toml_text(tables)) == tables


def test_the_usual_probe_is_one(tmp_path):
    made, problems = parse(study_text(read_lab(json.dumps(lab()).encode(), "x"), None, None, tmp_path))
    assert problems == []
    assert made.rounds == 1
