"""Where recordings lie: directories of this machine, and prefixes of an object store.

An object store is reached through pyarrow's file systems (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``),
and through fsspec's for whatever else it knows. `RemotePath` has the few operations of `pathlib.Path` that
reading a recording needs, so that the readers do not ask where they read.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path as FilePath
from typing import Any, Final

import pyarrow as pa

from fathometer.errors import FathometerError
from fathometer.reading import regular

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


class RemotePath:
    """An object, or a prefix of objects."""

    def __init__(self, system: Any, path: str, url: str) -> None:  # noqa: ANN401 - a FileSystem of pyarrow
        self._system, self._path, self._url = system, path.rstrip("/"), url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self._system, f"{self._path}/{name}", f"{self._url}/{name}")

    def __hash__(self) -> int:
        return hash(self._url)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._url == other._url

    @property
    def name(self) -> str:
        """What stands after the last slash."""
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        """The prefix that it is in."""
        return RemotePath(self._system, self._path.rpartition("/")[0], self._url.rpartition("/")[0])

    def resolve(self) -> RemotePath:
        """Itself: there are no links."""
        return self

    @cached_property
    def _info(self) -> Any:  # noqa: ANN401 - a FileInfo of pyarrow
        with _told(self):
            return self._system.get_file_info(self._path)

    @property
    def size(self) -> int:
        """Bytes of an object; raises `OSError` where there is none."""
        if not self.is_file():
            raise FileNotFoundError(2, "no such object", str(self))
        return int(self._info.size)

    def exists(self) -> bool:
        """Whether it is an object or a prefix of some."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether it is an object."""
        return bool(self._info.is_file)

    def is_dir(self) -> bool:
        """Whether it is a prefix of objects."""
        return bool(self._info.type.name == "Directory")

    def read_bytes(self, most: int | None = None) -> bytes:
        """An object's content, the first `most` bytes of it; raises `OSError`."""
        with self._system.open_input_stream(self._path) as file:
            return bytes(file.read() if most is None else file.read(most))

    def file(self) -> pa.NativeFile:
        """For reading here and there in it; raises `OSError`."""
        return self._system.open_input_file(self._path)

    def walk(self) -> Iterator[tuple[RemotePath, list[str]]]:
        """Every prefix with objects directly in it, and their names, sorted."""
        from pyarrow import fs

        with _told(self):
            every = self._system.get_file_info(
                fs.FileSelector(self._path, recursive=True, allow_not_found=True)
            )
        below: dict[str, list[str]] = {}
        for info in every:
            if info.is_file:
                directory, _, name = info.path.rpartition("/")
                below.setdefault(directory, []).append(name)
        for directory in sorted(below):
            rest = directory[len(self._path) :]
            yield RemotePath(self._system, directory, self._url + rest), sorted(below[directory])


Place = FilePath | RemotePath


@contextmanager
def _told(place: RemotePath) -> Iterator[None]:
    """Errors of a store as one line of ours."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FathometerError(
            "read object store",
            f"{place}: {reason[:300]}",
            "check the name, the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE ...) and the endpoint "
            "(AWS_ENDPOINT_URL)",
        ) from None


def is_url(text: str | os.PathLike[str] | RemotePath) -> bool:
    """Whether it names something that is not on this machine."""
    return isinstance(text, str) and bool(_URL.match(text)) and not text.lower().startswith("file://")


def place_of(given: str | os.PathLike[str] | RemotePath) -> Place:
    """A path of this machine, or a URL; raises `FathometerError`."""
    if isinstance(given, RemotePath):
        return given
    if isinstance(given, str) and is_url(given):
        system, root = _system(*_parted(given))
        return RemotePath(system, root, given.partition("?")[0])
    return FilePath(given)


def _parted(url: str) -> tuple[str, str]:
    return url, os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


@cache
def _system(url: str, endpoint: str) -> tuple[Any, str]:
    from pyarrow import fs

    scheme = url.partition(":")[0].lower()
    # Some servers speak no TLS; pyarrow takes that from the URL only.
    if scheme == "s3" and endpoint and "endpoint_override" not in url:
        kind, _, host = endpoint.rpartition("://")
        joint = "&" if "?" in url else "?"
        url += f"{joint}endpoint_override={host}&scheme={kind or 'https'}"
    try:
        system, path = fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return _by_fsspec(url, scheme, error)
    except OSError as error:
        raise _unreachable(url, str(error)) from None
    return system, path


def _by_fsspec(url: str, scheme: str, error: Exception) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        import fsspec
    except ImportError:
        raise _unreachable(url, f"{error}; fsspec might know {scheme}://, and is not installed") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as problem:
        raise _unreachable(url, str(problem)) from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _unreachable(url: str, reason: str) -> FathometerError:
    first = reason.splitlines()[0] if reason else "no reason is given"
    return FathometerError(
        "read object store",
        f"{url.partition('?')[0]}: {first[:300]}",
        "name an object store as s3://bucket/prefix, gs://bucket/prefix or abfs://container@account/prefix",
    )


def size_of(place: Place) -> int:
    """Bytes of a file; raises `OSError`."""
    return place.size if isinstance(place, RemotePath) else place.stat().st_size


def read_at_most(place: Place, most: int) -> bytes:
    """The first bytes of a file; raises `OSError`."""
    if isinstance(place, RemotePath):
        return place.read_bytes(most)
    with regular(place) as file:
        return file.read(most)


def names_in(place: Place) -> list[str]:
    """The files of a directory; raises `OSError`."""
    if isinstance(place, RemotePath):
        return next((names for directory, names in place.walk() if directory == place), [])
    return os.listdir(place)  # noqa: PTH208 - names are wanted, not paths


def walk(place: Place) -> Iterator[tuple[Place, list[str], list[str]]]:
    """As `os.walk`: a directory, the names of those below, which may be cleared, and its files."""
    if isinstance(place, RemotePath):
        left: RemotePath | None = None
        for directory, names in place.walk():
            if left is not None and str(directory).startswith(f"{left}/"):
                continue
            below = ["everything"]
            yield directory, below, names
            left = directory if not below else left
        return
    for local, inside, files in os.walk(place):
        inside.sort()
        yield FilePath(local), inside, files


def footer_of(place: Place) -> Any:  # noqa: ANN401 - a file that pyarrow reads
    """A Parquet file for reading its footer only."""
    return place.file() if isinstance(place, RemotePath) else pa.OSFile(str(place))


def lines_of(place: Place) -> io.BufferedIOBase:
    """A text file as bytes, to be read by lines; raises `OSError`."""
    return io.BytesIO(place.read_bytes()) if isinstance(place, RemotePath) else regular(place)


def regular_for_arrow(place: FilePath) -> pa.OSFile:
    """As `regular`, read by Arrow itself. A file of Python's would be read by Arrow's threads through the
    interpreter, and one that still read at the end of the process ended it by SIGABRT.
    """
    regular(place).close()
    return pa.OSFile(str(place))
