"""All hosts of a study that are reached over SSH: made ready, cleared, and found again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from fathometer.errors import FathometerError
from fathometer.study.journal import Journal, SshLeft, ssh_left
from fathometer.study.model import Host, SshHost, Study
from fathometer.study.policy_file import contents, needed_on, on_host
from fathometer.study.processes import Processes
from fathometer.study.ssh.binary import Binary
from fathometer.study.ssh.connection import SshConnection, control_directory, end_connections, socket_name
from fathometer.study.ssh.place import RemotePlace
from fathometer.study.ssh.remote import Remote
from fathometer.study.ssh.trouble import HostError, Lost
from fathometer.study.together import together

_SHA256: Final = TypeAdapter(Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")])
Progress = Callable[[str], None]


def ssh_hosts(study: Study) -> list[Host]:
    """The hosts over SSH that a scenario uses."""
    used = {name for s in study.scenario for name in (s.source, s.to)}
    return [h for h in study.host if h.ssh is not None and h.name in used]


@dataclass(frozen=True)
class Cleared:
    """What was ended on hosts, and what was not."""

    processes: int
    hosts: tuple[str, ...]
    errors: tuple[str, ...]


class Fleet:
    """The hosts over SSH of a study that runs."""

    def __init__(self, study_id: str, processes: Processes, journal: Journal, progress: Progress) -> None:
        self._id = study_id
        self._processes = processes
        self._journal = journal
        self._progress = progress
        self._connects = False
        self._remotes: dict[str, Remote] = {}
        """Those that answered, and may have something to clear."""

    async def up(
        self,
        study: Study,
        directory: Path,
        given: dict[str, Binary],
        keep: Set[str],
        left: Mapping[str, SshLeft],
    ) -> tuple[dict[str, RemotePlace], set[str]]:
        """Makes each host ready: its greeting, its binary. Returns the places by name, and which of the jobs
        to `keep` a crash left there that still go on or ended well; whatever else it left is ended. `left`
        has the hosts that it did not clear.
        """
        hosts = ssh_hosts(study)
        if hosts:
            await end_connections(self._id, self._processes)
        before = {name: host.sha256 for name, host in self._known(left).items()}
        remotes = [self._remote(h.name, self._resolved(h, directory), before.get(h.name, "")) for h in hosts]
        places: dict[str, RemotePlace] = {}
        resumed: set[str] = set()
        policies = contents(study, directory)
        files = {h.name: [policies[f] for f in needed_on(study, h.name)] for h in hosts}
        await together(
            self._one(remote, given, files[remote.name], keep, places, resumed) for remote in remotes
        )
        return places, resumed

    def _resolved(self, host: Host, directory: Path) -> SshHost:
        """With its files' paths as they are here."""
        ssh = host.ssh
        if ssh is None:
            raise AssertionError(host.name)
        if ssh.known_hosts is not None:
            known = directory / Path(ssh.known_hosts).expanduser()
            ssh = ssh.model_copy(update={"known_hosts": str(known)})
        if ssh.key is None:
            return ssh
        key = directory / Path(ssh.key).expanduser()
        if not key.is_file():
            what = f'host "{host.name}": there is no key {key}'
            raise HostError(
                "reach a host", what, "check `key`; its path goes from the study file's directory"
            )
        return ssh.model_copy(update={"key": str(key)})

    def _remote(self, name: str, ssh: SshHost, sha256: str = "") -> Remote:
        self._connects = True
        control = control_directory(self._id) / socket_name(name)
        connection = SshConnection(name, ssh, self._id, control, self._processes)
        return Remote(connection, lambda what: self._told(name, what), sha256)

    def _told(self, name: str, what: str) -> None:
        self._journal.note(f"ssh.{what}", host=name)
        words = "lost; what runs there goes on, and it is tried again" if what == "lost" else "reached again"
        self._progress(f'host "{name}" was {words}')

    async def _one(
        self,
        remote: Remote,
        given: dict[str, Binary],
        files: Sequence[bytes],
        keep: Set[str],
        places: dict[str, RemotePlace],
        resumed: set[str],
    ) -> None:
        binary, greeting = await remote.identify(given)
        # Noted before anything is left there: `study stop` must find what a crash in between leaves.
        self._journal.note("ssh.using", host=remote.name, ssh=as_noted(remote.connection.ssh))
        self._remotes[remote.name] = remote
        await remote.bring(binary, greeting)
        for file in files:
            await remote.connection.send(file, on_host(self._id, file))
        for job, state in (await remote.jobs()).items():
            if job in keep and (state.running or state.succeeded):
                resumed.add(job)
            elif not (job.startswith("reflector-") and state.running):
                await remote.drop(0.0, job)
        address = await remote.connection.real_address()
        self._journal.note(
            "ssh.ready",
            host=remote.name,
            machine=binary.machine,
            sha256=binary.sha256,
            free_kib=greeting.free_kib,
        )
        places[remote.name] = RemotePlace(remote, address)

    async def clear(self) -> Cleared:
        """Ends whatever the study has on its hosts, all of them at once, and lets go of them."""
        remotes = list(self._remotes.values())
        answers = await asyncio.gather(*(self._clear(r) for r in remotes), return_exceptions=True)
        ended, hosts, errors = 0, [], []
        for remote, answer in zip(remotes, answers, strict=True):
            if isinstance(answer, FathometerError):
                errors.append(f"{answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                ended += answer
                hosts.append(remote.name)
                del self._remotes[remote.name]
        if self._connects:
            await end_connections(self._id, self._processes)
        return Cleared(ended, tuple(hosts), tuple(errors))

    async def _clear(self, remote: Remote) -> int:
        try:
            ended = await remote.clear()
        except Lost:
            # What is left of a connection that was lost is in the way of a new one.
            await remote.connection.close()
            ended = await remote.clear()
        finally:
            await remote.connection.close()
        self._journal.note("ssh.cleared", host=remote.name)
        return ended

    def remember(self, entries: Iterable[dict[str, Any]]) -> None:
        """Takes up the hosts that a journal leaves open."""
        for name, host in self._known(ssh_left(entries)).items():
            self._remotes[name] = self._remote(name, SshHost.model_validate(host.ssh), host.sha256)

    def _known(self, left: Mapping[str, SshLeft]) -> Mapping[str, SshLeft]:
        """The same, when all of them are what a journal of ours says."""
        for name, host in left.items():
            try:
                SshHost.model_validate(host.ssh)
                # It becomes part of a command line.
                _SHA256.validate_python(host.sha256)
            except ValidationError:
                raise FathometerError(
                    "read the study's journal", f'host "{name}" is not understood', "is it another version's?"
                ) from None
        return left


def as_noted(ssh: SshHost) -> dict[str, Any]:
    """For the journal: what was given, and no defaults, which are ``~/.ssh/config``'s to say."""
    return ssh.model_dump(mode="json", exclude_unset=True, by_alias=True)


async def clear_left(study_id: str, entries: list[dict[str, Any]], journal: Journal) -> Cleared:
    """Ends what a journal says may be left on hosts."""
    processes = Processes(study_id)
    fleet = Fleet(study_id, processes, journal, lambda _: None)
    try:
        await end_connections(study_id, processes)
        fleet.remember(entries)
        return await fleet.clear()
    finally:
        await processes.stop_all()
