"""A key that opens no host is refused before a host is made, with OpenSSH's own programs; and a host that
opens to no key.
"""

import json
import os
import subprocess
from types import SimpleNamespace

import pytest

from fathometer.cloud import keys
from fathometer.cloud.settings import _key
from fathometer.cloud.sshkey import must_be_public_key, must_log_in
from fathometer.errors import FathometerError
from fathometer.study.outputs import read_lab
from support.lab_of_namespaces import stand_in_for_ssh
from support.programs import make_key, tool


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Of somebody without an agent, where the account says that it is."""
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def agent(home, monkeypatch):
    """One of their own, by its socket."""
    socket = home / "agent"
    process = subprocess.Popen([tool("ssh-agent"), "-D", "-a", socket], stdout=subprocess.PIPE)
    process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield socket
    process.terminate()
    process.communicate()


def public(private):
    return private.with_name(f"{private.name}.pub").read_text()


def add(private):
    """Into the agent, by the passphrase `open`."""
    ask = private.with_name("ask")
    ask.write_text("#!/bin/sh\necho open\n")
    ask.chmod(0o755)
    env = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(["ssh-add", "-q", private], check=True, env=env, stdin=subprocess.DEVNULL)


def keygen(*words):
    return subprocess.run(["ssh-keygen", *words], check=True, capture_output=True, text=True).stdout


def test_what_is_no_public_key_is_refused(home):
    make_key(home / "a")
    good = public(home / "a")
    must_be_public_key(good, "a.pub")
    keygen("-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(home / "rsa"))
    must_be_public_key(public(home / "rsa"), "rsa.pub")
    keygen("-q", "-t", "rsa", "-b", "1024", "-N", "", "-f", str(home / "short"))
    keygen("-q", "-t", "ecdsa", "-N", "", "-f", str(home / "ecdsa"))
    for text, what in (
        ("ssh-ed25519 !!!!", "what follows that is broken"),
        ("ssh-ed25519", "what follows that is broken"),
        (good.replace("ssh-ed25519", "ssh-rsa", 1), "what follows that is broken"),
        (f"ssh-ed25519 {good.split()[1][:40]} me", "what follows that is broken"),
        (good + good, "it has 2 lines"),
        ("", "it has 0 lines"),
        (public(home / "ecdsa"), "ecdsa-sha2-nistp256 is no kind of key that the clouds take"),
        (public(home / "short"), "it has 1024 bits"),
        ((home / "a").read_text(), "lines"),
    ):
        with pytest.raises(FathometerError, match=what):
            must_be_public_key(text, "a.pub")


def test_a_key_that_is_there_logs_in(home):
    usual = home / ".ssh/id_ed25519"
    make_key(usual)
    must_log_in(public(usual), None)
    must_log_in(public(usual), str(usual))


def test_missing_or_mismatched_private_key_is_refused(home):
    make_key(home / "mine")
    make_key(home / "other")
    with pytest.raises(FathometerError, match="it is not the private half of"):
        must_log_in(public(home / "other"), str(home / "mine"))
    text = public(home / "mine")
    (home / "mine").unlink()
    with pytest.raises(FathometerError, match=r"private key of .*mine\.pub is not there, and no agent"):
        must_log_in(text, str(home / "mine"))
    with pytest.raises(FathometerError, match="is not there, and no agent"):
        must_log_in(text, None)


@pytest.mark.usefixtures("agent")
def test_key_with_passphrase_must_be_in_agent(home):
    key = home / "closed"
    make_key(key, "-N", "open")
    with pytest.raises(FathometerError, match=f"{key} has a passphrase.*; `ssh-add {key}`"):
        must_log_in(public(key), str(key))
    add(key)
    must_log_in(public(key), str(key))
    # `ssh -i` goes by what the named file is, though its agent has the other.
    make_key(home / "mine", "-N", "open")
    with pytest.raises(FathometerError, match="it is not the private half of"):
        must_log_in(public(key), str(home / "mine"))
    # The agent alone has it.
    text = public(key)
    key.unlink()
    must_log_in(text, str(key))
    must_log_in(text, None)


def test_the_home_that_counts_is_where_ssh_looks(home, tmp_path, monkeypatch):
    """As `sudo -E` leaves $HOME: the lab let in a key that `ssh` never tried (a stranger)."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(elsewhere))
    theirs, accounts = elsewhere / ".ssh/id_ed25519", home / ".ssh/id_ed25519"
    make_key(theirs)
    with pytest.raises(FathometerError, match="is not there, and no agent"):
        must_log_in(public(theirs), None)
    # By its name `ssh` finds it.
    assert _key(None) == (str(theirs), public(theirs).strip())
    make_key(accounts)
    must_log_in(public(accounts), None)
    assert _key(None) == (None, public(accounts).strip())


@pytest.fixture
def behind(tmp_path, monkeypatch):
    """A lab behind a jump host that answers, and `ssh` by way of it ends as these words of shell do."""

    def make(words):
        (tmp_path / "bin").mkdir()
        stand_in_for_ssh(tmp_path / "bin")
        (tmp_path / "bin/ssh").write_text(f"#!/bin/sh\n{words}\n")
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        monkeypatch.setattr(keys, "PAUSE_S", 0.01)
        lab = {"format": 1, "lab": "own", "jump": {"address": "192.0.2.1", "user": "u"}}
        lab["hosts"] = [{"name": "a", "address": "10.0.0.1", "user": "u"}]
        lab["scenarios"] = [{"label": "path", "from": "a", "to": "a"}]
        return read_lab(json.dumps(lab).encode(), "the lab")

    return make


DENIED = "echo 'u@192.0.2.1: Permission denied (publickey).' >&2; exit 255"


def test_refused_login_is_reported_before_timeout(behind, tmp_path, monkeypatch):
    """It took five silent minutes, and was told as a host that does not answer (a stranger)."""
    monkeypatch.setattr(keys, "REFUSED_S", 0.0)
    refusal = r"the jump host 192.0.2.1 answers, and refuses the login \(u@192.0.2.1: Permission denied"
    with pytest.raises(FathometerError, match=refusal) as told:
        keys.fetch(behind(DENIED), "/k", tmp_path / "known", str)
    assert "-i /k -o IdentitiesOnly=yes -l u 192.0.2.1` shows which it tries" in told.value.remedy


def test_waiting_shows_reason_until_login_succeeds(behind, tmp_path):
    said = []
    counts = f"echo >>{tmp_path}/n; n=$(grep -c '' {tmp_path}/n); "
    first = "[ $n -gt 2 ] || { echo 'ssh: Connection reset by peer' >&2; exit 255; }; "
    keys.fetch(
        behind(f"{counts}{first}[ $n -gt 4 ] || {{ {DENIED}; }}; echo 10.0.0.1 ssh-ed25519 AAAA"),
        None,
        tmp_path / "known",
        said.append,
    )
    waiting = "waiting for 10.0.0.1 to answer to SSH"
    assert said == [
        f"{waiting} (ssh: Connection reset by peer)",
        f"{waiting} (u@192.0.2.1: Permission denied (publickey).)",
    ]
