"""A host over SSH that was taken over: its real sshd runs a program of the attacker's instead of what is
asked for (a forced command), which does as it is told but for some questions.
"""

import base64
import json
import shlex
import sys

BEGIN = b'\n{"is":"fathom-host","format":1}\n'
END = b'{"is":"end"}\n'
RUNNING = b'{"is":"state","state":"running"}\n'
EXITED = b'{"is":"state","state":"exited","code":0}\n'

_PROGRAM = """\
import base64, json, os, subprocess, sys
command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
attacks = json.load(open(sys.argv[1]))
given, asked = b"", command
if command == "sh":
    given, asked = sys.stdin.buffer.read(), "shell"
elif command.endswith(" host answer"):
    given = sys.stdin.buffer.readline()
    asked = json.loads(given)["ask"]["verb"]
attack = attacks.get(asked)
if attack is None:
    if given:
        sys.exit(subprocess.run(["sh", "-c", command], input=given).returncode)
    os.execvp("sh", ["sh", "-c", command])
out, err = (base64.b64decode(attack[k]) for k in ("out", "err"))
try:
    sys.stderr.buffer.write(err)
    sys.stderr.buffer.flush()
    while True:
        sys.stdout.buffer.write(out)
        if not attack["endless"]:
            break
    sys.stdout.buffer.flush()
except BrokenPipeError:
    os._exit(0)
sys.exit(attack["code"])
"""


def attack(out=b"", err=b"", *, endless=False, code=0):
    """What is said instead of an answer; `endless`: again and again."""
    words = {"out": out, "err": err}
    return {k: base64.b64encode(v).decode() for k, v in words.items()} | {"endless": endless, "code": code}


def answer(*lines, end=END):
    """An answer of the protocol, of lines and of bytes of files."""
    return attack(BEGIN + b"".join(lines) + end)


def file(name, size=5, data=None, **more):
    """A line that names a file, or, with bytes, a piece of it with these bytes."""
    line = {"is": "file", "name": name, "inode": 7, "size": size, "modified_ns": 1} | more
    if data is not None:
        line |= {"is": "piece", "offset": 0, "length": len(data)}
    return json.dumps(line).encode() + b"\n" + (data or b"")


def take_over(machine, key, attacks):
    """From now on a machine answers these questions, by their verbs (`shell`: the lines for its shell), as
    the attacker wants.
    """
    program, table = machine.directory / "hostile.py", machine.directory / "attacks.json"
    program.write_text(_PROGRAM)
    table.write_text(json.dumps(attacks))
    command = shlex.join([sys.executable, str(program), str(table)])
    keys = machine.home / ".ssh" / "authorized_keys"
    keys.write_text(f'command="{command}" {key}')
