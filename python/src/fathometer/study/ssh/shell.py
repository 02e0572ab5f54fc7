"""What is asked of a host's own shell: what must be known, and done, before a binary of ours is there.

Every other thing is `fathom host`'s. The lines are read by ``sh`` from its standard input, because a person's
login shell may be another. What is put into them has letters, digits, dots, dashes and slashes alone.
"""

from __future__ import annotations

from typing import Final

_BEGIN: Final = "umask 077; cd || exit 1; printf '\\nfathom-shell 1\\n'\n"


def binary_path(sha256: str) -> str:
    """Where a binary is, from the home on, by its SHA-256."""
    return f".fathom/bin/fathom-{sha256[:16]}"


def part_path(study_id: str, attempt: str) -> str:
    """Where a binary is on its way. The name is this attempt's own: an earlier one may still be writing."""
    return f".fathom/bin/.part-{study_id}-{attempt}"


def greet(sha256: str) -> str:
    """Asks for system, machine, room, and the binary that is there (`answers.read_greeting`)."""
    path = binary_path(sha256)
    return f"""{_BEGIN}uname -s && uname -m && mkdir -p .fathom/bin || exit 1
df -Pk .fathom/bin | tail -n 1
if [ -x {path} ]; then sha256sum <{path}; else echo none; fi
"""


def install(part: str, sha256: str) -> str:
    """What was sent becomes the binary, at once or not at all."""
    return f"""{_BEGIN}set -- $(sha256sum <{part})
[ "$1" = {sha256} ] || {{ echo 'what arrived is not what was sent' >&2; exit 1; }}
chmod 700 {part} && mv -f {part} {binary_path(sha256)}
"""


def attempt(sha256: str) -> str:
    """Whether the binary runs there. Asked of the shell, which knows what a program was ended by."""
    return f"{_BEGIN}{binary_path(sha256)} host --help >/dev/null\n"


def forget(study_id: str) -> str:
    """Takes away what was left of binaries that did not arrive whole."""
    return f"{_BEGIN}rm -f .fathom/bin/.part-{study_id}-*\n"


def reflectors(port: int) -> str:
    """Asks which jobs of whatever study reflect at a port, which process each said it is, and what that is
    now (`holders.read_holders`).
    """
    return f"""{_BEGIN}cat /proc/sys/kernel/random/boot_id || exit 1
for job in .fathom/studies/*/*/jobs/reflector-*-{port}; do
  pid=$(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' "$job/program" 2>/dev/null)
  if [ -n "$pid" ] && [ -r "/proc/$pid/stat" ]; then
    echo "$job"; cat "$job/program"; echo; cat "/proc/$pid/stat"
  fi
done
:
"""
