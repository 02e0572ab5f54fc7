"""From what ``ssh`` said to one line: which host, what is wrong, how to mend it. Text in, errors out.

OpenSSH has one exit code (255) for whatever keeps it from its host, and a host may give the same; the reason
is in `ssh`'s words, which are not translated, and are those of OpenSSH 7 to 10.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.hosts import MOST_WORDS
from fathometer.study.model import SshHost

MOST_LOOKED_AT: Final = 4096
"""Characters of what `ssh` said that are looked at; the last ones have the reason."""
MOST_OF_A_LINE: Final = 300
"""Characters of each line of it: none of its own has as many, and the end of one has the reason."""


class HostError(FathometerError):
    """Something is wrong with one host: its runs fail, and others' go on."""


class Lost(HostError):  # noqa: N818 - what befell, as cancelled is
    """The host was not reached this time; it may be, the next."""


def _where(ssh: SshHost) -> str:
    user = f"{ssh.user}@" if ssh.user else ""
    port = f" port {ssh.port}" if ssh.port is not None and ssh.port != 22 else ""
    return f"{user}{ssh.address}{port}"


def by_hand(ssh: SshHost) -> str:
    """The command with which a person reaches the host."""
    argv = ["ssh"]
    argv += ["-p", str(ssh.port)] if ssh.port is not None and ssh.port != 22 else []
    argv += ["-i", ssh.key] if ssh.key else []
    argv += ["-o", f"UserKnownHostsFile={ssh.known_hosts}"] if ssh.known_hosts else []
    argv += ["-J", ssh.jump] if ssh.jump else []
    return shlex.join([*argv, f"{ssh.user}@{ssh.address}" if ssh.user else ssh.address])


def explain(name: str, ssh: SshHost, output: str, said: str = "") -> HostError:
    """The error for a connection that was not made, or was lost. `output` are `ssh`'s own words; `said` is
    what the host said last, of which nothing is believed.
    """

    def error(what: str, remedy: str, kind: type[HostError] = HostError) -> HostError:
        return kind("reach a host", f'host "{name}" ({_where(ssh)}): {what}', remedy)

    hand = by_hand(ssh)
    known = "~/.ssh/known_hosts" if ssh.known_hosts is None else shlex.quote(ssh.known_hosts)
    of = "" if ssh.known_hosts is None else f"-f {known} "
    output = "\n".join(line[-MOST_OF_A_LINE:] for line in output[-MOST_LOOKED_AT:].splitlines())
    if match := re.search(r"ey for (\S+) has changed", output):
        other = match[1]
        return error(
            "its host key is not the one that is known",
            f"find out why; if that is meant, `ssh-keygen {of}-R {shlex.quote(other)}` and then `{hand}`",
        )
    # What it may be told to type holds nothing that a shell would read: a host has a say in these words.
    if match := re.search(r"No ([\w-]+) host key is known for ([\w.:%\[\]-]+)", output):
        port = re.fullmatch(r"\[(.*)\]:(\d+)", match[2])
        scan = f"ssh-keyscan -p {port[2]} {port[1]}" if port else f"ssh-keyscan {match[2]}"
        return error(
            f"its host key ({match[1]}, of {match[2]}) is not known, and is not taken unseen",
            f"compare its fingerprint by `{hand}`, or `{scan} >> {known}`",
        )
    if "Host key verification failed" in output:
        return error("its host key could not be verified", f"see what `{hand}` says")
    if "UNPROTECTED PRIVATE KEY FILE" in output:
        return error(f"the key {ssh.key} can be read by others", f"chmod 600 {ssh.key}")
    if match := re.search(r"(\S+): Permission denied \((.*)\)", output):
        key = f"the key {ssh.key}" if ssh.key else "every key of the agent and the configuration"
        copy = hand.replace("ssh ", "ssh-copy-id ", 1)
        return error(f"{match[1]} refused {key} ({match[2]})", f"`{copy}` lets it in, or name another `key`")
    if "Too many authentication failures" in output:
        return error("it refused too many keys of the agent's", "name the one with `key`")
    if match := re.search(r"Could not resolve hostname (\S+?):", output):
        return error(f"the name {match[1]} is not known", "check `address` and `jump`, or ~/.ssh/config")
    for words, what, remedy in (
        ("Connection refused", "it refuses the connection", "is sshd running there, on that port?"),
        ("No route to host", "there is no route to it", "is it up, and this network's firewall open?"),
        ("Network is unreachable", "its network cannot be reached", "check this machine's routes"),
        ("timed out", "it does not answer", "is it up, and port and firewall open?"),
        ("timeout", "it does not answer", "is it up, and port and firewall open?"),
        ("not responding", "it no longer answers", "is it up?"),
    ):
        if words in output:
            return error(what, f"{remedy} Try `{hand}`", Lost)
    last = [line.strip() for line in output.splitlines() if line.strip()]
    if last:
        what = f"the connection was lost ({last[-1][:MOST_WORDS]})"
    elif said:
        what = f"what it ran ended with exit code 255, as a lost connection does; its last words: {said}"
    else:
        what = "the connection was lost"
    return error(what, f"try `{hand}`", Lost)
