"""Hosts of a study that are reached over SSH: by the system's own ``ssh``, with the user's own configuration.

OpenSSH and no library of Python's: ``~/.ssh/config``, agents, known hosts, hardware keys and jump hosts work
as they do by hand, and no dependency comes with it (asyncssh is EPL, and brings OpenSSL). One connection
a host is shared by all commands (``ControlMaster``), so that a look at a run costs no handshake.

| | |
|---|---|
| `connection` | one host's ``ssh``: a question, a file |
| `trouble` | from what ``ssh`` said to one line that says how to mend it |
| `shell` | what its shell is asked before a binary is there: a few lines |
| `answers` | what a host answers, read strictly: it may be somebody else's by now |
| `remote` | the questions, and which binary it gets (`binary`) |
| `mirror` | a recording that grows there, here |
| `place` | reflectors and probes there |
| `fleet` | all hosts of a study |

The host's side is `fathom host` of the binary that is copied there; the protocol is written down in
``crates/fathom-host``.
"""
