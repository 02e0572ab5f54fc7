"""The key that SSH logs in with: looked at before anything is made, as one that opens no host is found out
only when all of them are there and paid for.
"""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import subprocess
from pathlib import Path
from typing import Final

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.errors import FathometerError

USUAL: Final = ("id_ed25519", "id_rsa")
_LONGEST_S: Final = 30
_OPERATION: Final = "make the lab"
_ED25519_BYTES: Final = 32
_RSA_BITS: Final = 2048
"""Azure takes no shorter ones, nor does AWS."""


def home() -> Path:
    """Where OpenSSH looks for its user's files: by the account, whatever $HOME says. These differ under `sudo
    -E`, and in containers.
    """
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # `ssh` refuses to work for an account that nobody knows, and says so.
        return Path.home()


def _expanded(path: str) -> Path:
    """A path as `ssh` has it in its settings."""
    first, _, rest = path.partition("/")
    return home() / rest if first == "~" else Path(path).expanduser()


def public_file(private: Path) -> Path:
    """Where the public half of a private key is."""
    return private if private.suffix == ".pub" else private.with_name(f"{private.name}.pub")


def must_be_public_key(text: str, where: object) -> None:
    """Raises `FathometerError` where a text is no public key that hosts of every cloud take."""
    problem = _problem(text)
    if problem is not None:
        raise FathometerError(
            _OPERATION,
            f"{where}: {problem}",
            "give one line as `ssh-keygen -t ed25519` writes it into FILE.pub, with --key FILE",
        )


def _problem(text: str) -> str | None:
    lines = text.strip().splitlines()
    if len(lines) != 1:
        return f"it has {count(len(lines), 'line')}, and is to be one public key"
    kind, _, rest = lines[0].partition(" ")
    if kind not in {"ssh-ed25519", "ssh-rsa"}:
        return (
            f"{cleaned(kind)[:40]} is no kind of key that the clouds take, which are ssh-ed25519 and ssh-rsa"
        )
    broken = f"it is no public key of the kind {kind}: what follows that is broken"
    try:
        parts = _parts(base64.b64decode(rest.split()[0], validate=True))
    except (IndexError, binascii.Error, ValueError):
        return broken
    if not parts or parts[0] != kind.encode() or len(parts) != (2 if kind == "ssh-ed25519" else 3):
        return broken
    if kind == "ssh-ed25519":
        return None if len(parts[1]) == _ED25519_BYTES else broken
    bits = int.from_bytes(parts[2]).bit_length()
    return None if bits >= _RSA_BITS else f"it has {bits} bits, and the clouds take {_RSA_BITS} at least"


def _parts(data: bytes) -> list[bytes]:
    """Strings with their lengths before them (RFC 4251, 5). Raises `ValueError`."""
    parts = []
    while data:
        length = int.from_bytes(data[:4])
        if len(data) < 4 + length:
            raise ValueError("cut short")
        parts.append(data[4 : 4 + length])
        data = data[4 + length :]
    return parts


def must_log_in(public: str, private: str | None) -> None:
    """Raises `FathometerError` where nothing here can log in by a public key: neither the private key's file
    nor `ssh`'s agent. `private` None: `ssh` takes one of its usual files.
    """
    wanted = _essence(public)
    agent, files = _settings()
    if wanted in {_essence(line) for line in _said(["ssh-add", "-L"], agent=agent)[0].splitlines()}:
        _must_not_be_anothers(wanted, private)
        return
    files = [Path(private)] if private is not None else files
    there = [file for file in files if os.path.lexists(file)]
    if not there:
        raise FathometerError(
            _OPERATION,
            f"the private key of {_name(files[0])} is not there, and no agent of ssh has it",
            "name the one whose .pub the hosts are to let in: --key FILE; or `ssh-add` it",
        )
    problems = []
    for file in there:
        # An empty passphrase: it asks nobody.
        out, err = _said(["ssh-keygen", "-y", "-P", "", "-f", str(file)])
        if _essence(out) == wanted:
            return
        problems.append((file, _other(file) if out.strip() else err))
    file, why = problems[0]
    if "passphrase" in why:
        raise FathometerError(
            _OPERATION,
            f"{file} has a passphrase, nobody is asked for it, and no agent of ssh has it open",
            f"`ssh-add {file}`, then the same command",
        )
    raise FathometerError(
        _OPERATION,
        f"by {file} nobody could log in: {cleaned(why)}",
        f"see that {_name(file)} is its public half (`ssh-keygen -y -f FILE`), or name another with --key",
    )


def _settings() -> tuple[str | None, list[Path]]:
    """`ssh`'s own, for any host: another agent than the environment's, and the files that it tries."""
    settings = [line.split(" ", 1) for line in _said(["ssh", "-G", "fathom"])[0].splitlines() if " " in line]
    agents = [value for name, value in settings if name == "identityagent" and "/" in value]
    files = [_expanded(value) for name, value in settings if name == "identityfile"]
    return next(iter(agents), None), files or [home() / ".ssh" / name for name in USUAL]


def _must_not_be_anothers(wanted: tuple[str, ...], private: str | None) -> None:
    """The agent has the key; but `ssh -i` goes by what the named file is."""
    if private is None or not os.path.lexists(private):
        return
    # A file with a passphrase tells its public half without it.
    named = _said(["ssh-keygen", "-l", "-f", private])[0].split()[1:2]
    public = _said(["ssh-keygen", "-l", "-f", "-"], " ".join(wanted) + "\n")[0].split()[1:2]
    if named and named != public:
        raise FathometerError(
            _OPERATION,
            f"by {private} nobody could log in: {_other(Path(private))}",
            "name the private key that belongs to it with --key",
        )


def _other(file: Path) -> str:
    return f"it is not the private half of {_name(file)}"


def _name(file: Path) -> str:
    return str(public_file(file))


def _essence(line: str) -> tuple[str, ...]:
    """Kind and key, without a comment."""
    return tuple(line.split()[:2])


def _said(argv: list[str], text: str = "", agent: str | None = None) -> tuple[str, str]:
    """What it prints, and the last line of what it complains of."""
    own = {"SSH_AUTH_SOCK": str(_expanded(agent))} if agent else {}
    try:
        done = subprocess.run(  # noqa: S603 - OpenSSH's own
            argv,
            input=text,
            env={**os.environ, **own},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return "", f"{argv[0]} took too long"
    except OSError as error:
        raise FathometerError(
            "look at the key for SSH", f"{argv[0]}: {error.strerror}", "install OpenSSH"
        ) from None
    words = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return (done.stdout if done.returncode == 0 else ""), (words or ["it said nothing"])[-1]
