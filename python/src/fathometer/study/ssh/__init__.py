"""Hosts of a study that are reached over SSH: by the system's own ``ssh``, with the user's own configuration.

OpenSSH and no library of Python's: ``~/.ssh/config``, agents, known hosts, hardware keys and jump hosts work
as they do by hand, and no dependency comes with it (asyncssh is EPL, and brings OpenSSL). One connection
a host is shared by all commands (``ControlMaster``), so that a look at a run costs no handshake.

| | |
|---|---|
| `connection` | one host's ``ssh``: a command, a file |
| `trouble` | from what ``ssh`` said to one line that says how to mend it |
| ``host.sh`` | what is done there, in POSIX sh |
| `remote` | its verbs, and which binary it gets (`binary`) |
| `mirror` | a recording that grows there, here |
| `place` | reflectors and probes there |
| `fleet` | all hosts of a study |
"""
