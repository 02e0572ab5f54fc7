"""The keys of a lab's new hosts: fetched, shown, and known to `ssh` once somebody took them.

They are kept in the lab's directory and not in ``~/.ssh/known_hosts``: the next lab has other hosts at the
same addresses.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.outputs import Lab
from fathometer.study.ssh.connection import STRICT, known_hosts_option

PATIENCE_S: Final = 300.0
"""How long sshd of a new host may take to answer."""
PAUSE_S: Final = 2.0
ANSWER_S: Final = 10
"""How long one look waits for an answer, in whole seconds."""
REFUSED_S: Final = 60.0
"""How long a host that answers may refuse a login: its user is made some time after its sshd starts."""
_FIRST_S: Final = 2
"""How long the first look waits: whoever waits longer is told for what."""
_CALL_S: Final = 120.0
_REFUSES: Final = "Permission denied"
"""As `ssh` ends where a host takes none of its keys."""


def fetch(lab: Lab, key: str | None, into: Path, say: Callable[[str], None]) -> None:
    """Writes the keys of a lab's hosts into a file; raises `FathometerError` where one does not answer."""
    missing, words = _fetch(lab, key, into, PATIENCE_S, say)
    if missing:
        raise FathometerError(
            "fetch the keys of the lab's hosts",
            f"{', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not answer to SSH{words}",
            "see that you come from the network that `ssh_from` names, and with the right --key; "
            "the same command tries it again",
        )


def silent(lab: Lab, key: str | None, into: Path, patience_s: float, say: Callable[[str], None]) -> list[str]:
    """The addresses of a lab's hosts that do not answer to SSH; the jump host's alone where it is one."""
    return _fetch(lab, key, into, patience_s, say)[0]


def _fetch(
    lab: Lab, key: str | None, into: Path, patience_s: float, say: Callable[[str], None]
) -> tuple[list[str], str]:
    """As `fetch`. Tells who did not answer, and what was said of that, in brackets. Raises `FathometerError`
    where the jump host answers and lets nobody in.
    """
    until = time.monotonic() + patience_s
    into.unlink(missing_ok=True)
    into.touch(mode=0o600)
    if lab.jump is not None:
        missing, words = _scan([], [lab.jump.address], into, until, say)
        if missing:
            return missing, words
    through = []
    if lab.jump is not None:
        options = [word for option in (*STRICT, known_hosts_option(str(into))) for word in ("-o", option)]
        identity = ["-i", key, "-o", "IdentitiesOnly=yes"] if key is not None else []
        # Brackets belong into a study's `jump` alone.
        through = ["ssh", "-T", *options, *identity, "-l", lab.jump.user, "--", lab.jump.address]
    return _scan(through, [host.address for host in lab.hosts], into, until, say)


def _scan(
    before: list[str], addresses: list[str], into: Path, until: float, say: Callable[[str], None]
) -> tuple[list[str], str]:
    missing, told, refused_at = list(addresses), None, None
    answer_s = min(_FIRST_S, ANSWER_S)
    while True:
        done = _call([*before, "ssh-keyscan", "-T", str(answer_s), *missing])
        answer_s = ANSWER_S
        lines = [line for line in done.stdout.splitlines() if _is_key(line, missing)]
        with into.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        there = {line.split()[0] for line in lines}
        missing = [address for address in missing if address not in there]
        if not missing:
            return [], ""
        words = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("#")]
        why = f" ({words[-1].strip()})" if words else ""
        now = time.monotonic()
        if _REFUSES not in why:
            refused_at = None
        elif now - (refused_at := now if refused_at is None else refused_at) >= REFUSED_S or now > until:
            raise _refused(before, why)
        if now > until:
            return missing, why
        if why != told:
            say(f"waiting for {', '.join(missing)} to answer to SSH{why}")
            told = why
        time.sleep(PAUSE_S)


def _refused(before: list[str], why: str) -> FathometerError:
    # With a terminal, as somebody types it.
    login = [word for word in before if word not in {"-T", "--"}]
    return FathometerError(
        "fetch the keys of the lab's hosts",
        f"the jump host {before[-1]} answers, and refuses the login{why}",
        f"see that the lab was made with a key of yours: `{shlex.join(['ssh', '-v', *login[1:]])}` shows"
        " which it tries. If it makes its user late, the same command tries it again; `--key FILE` with"
        " `fathom cloud up` makes the hosts anew with another key",
    )


def _call(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - ssh-keyscan, with addresses that `Lab` has checked
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_CALL_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", "it took too long")
    except OSError as error:
        raise FathometerError("fetch the keys", f"{argv[0]}: {error.strerror}", "install OpenSSH") from None


def _is_key(line: str, addresses: list[str]) -> bool:
    """A line of `known_hosts` for one of these, and not for a host that nobody asked about."""
    parts = line.split()
    return len(parts) == 3 and parts[0] in addresses and parts[1].startswith(("ssh-", "ecdsa-", "sk-"))


def fingerprints(file: Path) -> list[str]:
    """As `ssh-keygen -l` writes them."""
    return _call(["ssh-keygen", "-l", "-f", str(file)]).stdout.splitlines()
