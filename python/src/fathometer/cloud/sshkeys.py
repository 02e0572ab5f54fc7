"""The keys of SSH: the user's, which is tried before hosts cost money, and those of the new hosts.

The keys of hosts are kept in the lab's directory: the next lab has other hosts at the same addresses.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fathometer.cloud.journal import private
from fathometer.errors import FathometerError
from fathometer.study.outputs import Lab
from fathometer.study.ssh.connection import STRICT, known_hosts_option

PATIENCE_S: Final = 300.0
"""The time that the SSH server of a new host may take to answer."""
PAUSE_S: Final = 0.5
_ANSWER_S: Final = 5
_CALL_S: Final = 120.0
_USUAL: Final = ("id_ed25519", "id_rsa")
_PUBLIC: Final = re.compile(r"ssh-(ed25519|rsa) [A-Za-z0-9+/=]+( .*)?")
"""A public key, in one line, of the kinds that all three clouds take."""
_MAKE: Final = "make the lab"


def key_pair(named: Path | None) -> tuple[str, str]:
    """The file of the private key, and the public key; raises `FathometerError`."""
    files = [Path.home() / ".ssh" / name for name in _USUAL]
    if named is not None:
        file = named.expanduser().absolute()
        files = [file.with_suffix("") if file.suffix == ".pub" else file]
    for file in files:
        public = file.with_name(f"{file.name}.pub")
        try:
            text = public.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if not _PUBLIC.fullmatch(text):
            raise FathometerError(
                _MAKE, f"{public} is no public key that all clouds take", "`ssh-keygen -t ed25519` makes one"
            )
        return str(file), text
    how = "name the key for SSH: --key FILE, with FILE.pub beside it (`ssh-keygen -t ed25519` makes one)"
    raise FathometerError(_MAKE, f"there is no public key {files[0]}.pub", how)


def must_log_in(public: str, private: str) -> None:
    """Raises `FathometerError` where neither `ssh`'s agent nor the private key's file opens a public key."""
    wanted = public.split()[:2]
    agent = _call(["ssh-add", "-L"]).stdout.splitlines()
    if wanted in [line.split()[:2] for line in agent]:
        return
    # The empty passphrase keeps it from asking for one.
    own = _call(["ssh-keygen", "-y", "-P", "", "-f", private])
    if own.stdout.split()[:2] != wanted:
        why = (own.stderr.strip().splitlines() or [f"{private}.pub is not its public half"])[-1]
        how = f"`ssh-add {private}` where it has a passphrase, or name another key with --key FILE"
        raise FathometerError(_MAKE, f"nobody could log in by {private}: {why}", how)


def fetch(lab: Lab, key: str | None, into: Path, say: Callable[[str], None]) -> None:
    """Writes the keys of a lab's hosts into a file; raises `FathometerError` where a host does not answer."""
    until = time.monotonic() + PATIENCE_S
    private(into)
    through: list[str] = []
    if lab.jump is not None:
        _scan([], [lab.jump.address], into, until, say)
        options = [word for one in (*STRICT, known_hosts_option(str(into))) for word in ("-o", one)]
        identity = ["-i", key, "-o", "IdentitiesOnly=yes"] if key else []
        through = ["ssh", "-T", *options, *identity, "-l", lab.jump.user, "--", lab.jump.address]
    _scan(through, [host.address for host in lab.hosts], into, until, say)


def _scan(
    through: Sequence[str], addresses: list[str], into: Path, until: float, say: Callable[[str], None]
) -> None:
    missing: list[str] = addresses
    said: str | None = None
    while True:
        done = _call([*through, "ssh-keyscan", "-T", str(_ANSWER_S), *missing])
        lines = [line for line in done.stdout.splitlines() if line.partition(" ")[0] in missing]
        with into.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        missing = [one for one in missing if one not in {line.split()[0] for line in lines}]
        if not missing:
            return
        words = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("#")]
        why = f" ({words[-1].strip()})" if words else ""
        if time.monotonic() > until:
            what = f"no answer to SSH from {', '.join(missing)}{why}"
            how = "see that you come from the network of --from, and by your own key; then try it again"
            raise FathometerError("fetch the keys of the lab's hosts", what, how)
        if why != said:
            say(f"waiting for {', '.join(missing)} to answer to SSH{why}")
            said = why
        time.sleep(PAUSE_S)


def _call(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - OpenSSH, with addresses that `Lab` has checked
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_CALL_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"{argv[0]} took too long")
    except OSError as error:
        raise FathometerError("use SSH", f"{argv[0]}: {error.strerror}", "install OpenSSH") from None


def fingerprints(file: Path) -> list[str]:
    """The fingerprints of keys, as `ssh-keygen -l` writes them."""
    return _call(["ssh-keygen", "-l", "-f", str(file)]).stdout.splitlines()
