r"""The environment's secrets, found in what a tool says however they are written there.

A provider quotes a secret as it was answered: in JSON (Go writes `&` as `\u0026`), in JSON within JSON, in a
URL, in a header (base64), wrapped after so many columns. So a secret is looked for as a pattern in which each
character may stand in any of these ways.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

_SECRET: Final = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|TOKEN|CREDENTIAL|CERTIFICATE|ACCESS_KEY|PRIVATE_KEY|API_?KEY|SAS"
    r"|(?:^|_)PAT(?:$|_)|(?<=.)_PWD$|(?:(?<!PUBLIC_)KEY|PASS)(?:$|_)|CONNECTION_?STRING"
    r"|(?:^|_)(?:O?AUTH2?|COOKIES?|ENCRYPTION|DSN)(?:$|_)",
    re.IGNORECASE,
)
_FILE: Final = re.compile(r"(?:_PATH|_FILE|_DIR|_SOCK|ASKPASS|_APPLICATION_CREDENTIALS)$", re.IGNORECASE)
"""Where one is, and not what it is."""
_ASSIGNED: Final = re.compile(r"""\b(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^"';\s]+))""")
"""In the settings of OpenTofu's encryption, or a connection string: a name and its value."""
_PROXY: Final = re.compile(r"\w*_PROXY", re.IGNORECASE)
_URL: Final = re.compile(r"[\w+.-]+://[^/@\s]*:[^/\s]*@")
USUAL: Final = 6
"""Characters of a secret that is looked for everywhere; a shorter one stands in too many words."""
_SHORTEST: Final = 3
_LINE: Final = 16
"""Characters of a secret's line, or of a text in one that is JSON, which is a secret by itself."""
_CORE: Final = 7
"""Characters of base64 that are no accident."""
_NEVER_ESCAPED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_SHORT_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_HTML: Final = {"&": ["amp"], "<": ["lt"], ">": ["gt"], '"': ["quot", "#34"], "'": ["apos", "#39", "#x27"]}
_BREAK: Final = r"(?:\r?\n[ \t│|]*|(?:\\+r)?\\+n)?"
"""A line may end anywhere, also where it is part of a string, and the next begin with a frame."""
_RUNS: Final = {"\\": r"\\|%(?:25)*5[Cc]|u005[Cc]", " ": r"[\s│|+]|%(?:25)*20|\\+u0020"}
"""Words are wrapped at blanks, which are "+" in a form."""
_KEPT: Final = frozenset({"type", "@level", "severity", "action"})
"""What the objects of a tool are told apart by."""


class Withheld:
    """Takes secrets out of texts."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # As a template, in which a backslash has a meaning.
        self._patterns = [
            (pattern, f"[{name}]".replace("\\", r"\\"))
            for text, name in secrets_of(environment)
            for pattern in _patterns(text)
        ]

    def text(self, text: str) -> str:
        """Without them; the names of their variables stand there."""
        for pattern, name in self._patterns:
            text = pattern.sub(name, text)
        return text

    def value(self, value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
        """As `text`, for each text in a tree."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(k): v if k in _KEPT else self.value(v) for k, v in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value


def secrets_of(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Values of the environment that nobody may read, with their variables' names; the longest first."""
    found: set[tuple[str, str]] = set()
    for name, value in environment.items():
        if _SECRET.search(name) and not _FILE.search(name):
            found |= {(text, name) for text in (value, *_within(value)) if len(text.strip()) >= _SHORTEST}
        if _PROXY.fullmatch(name) or _URL.match(value):
            found |= {(text, name) for text in _in_url(value)}
    return sorted(found, key=lambda one: (-len(one[0]), one))


def _within(value: str) -> Iterator[str]:
    """Parts that are secrets by themselves: the lines of a key, the texts of a JSON of credentials, the
    password of a connection string.
    """
    texts = [value]
    with contextlib.suppress(ValueError):
        texts += _texts(json.loads(value))
    for text in texts:
        lines = text.splitlines()
        parts = lines if len(lines) > 1 else [text] if text is not value else []
        # `-----BEGIN PRIVATE KEY-----` tells nothing.
        yield from (part for part in parts if len(part) >= _LINE and not part.startswith("-----"))
    for name, *ways in _ASSIGNED.findall(value):
        if _SECRET.search(name) or name.lower() == "pwd":
            yield "".join(ways)


def _texts(value: Any, name: str = "") -> list[str]:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, dict):
        return [text for k, v in value.items() for text in _texts(v, str(k))]
    return [value] if isinstance(value, str) and _SECRET.search(name) else []


def _in_url(url: str) -> Iterator[str]:
    """Whom a URL (a proxy's may lack its scheme) lets in, as it stands there and as it is meant."""
    user = url.split("://", 1)[-1].split("/", 1)[0].rpartition("@")[0]
    for text in {user, unquote(user)} - {""}:
        # With its "@" also a short one is found nowhere else.
        yield text if len(text) >= USUAL else f"{text}@"
        password = text.partition(":")[2]
        if len(password) >= USUAL:
            yield password


def _patterns(secret: str) -> list[re.Pattern[str]]:
    """What finds one, most of it first."""
    plain = _any_way(secret)
    if len(secret) >= USUAL:
        return [re.compile(plain), *(re.compile(one) for one in _base64(secret))]
    # Where it stands by itself, and is no word or number; as a word where it is a value.
    found = [rf"(?:(?<={one})){plain}(?=[\"'`\\,;&%}}\])\s]|$)" for one in ('"', "'", "`", "=")]
    if re.search(r"\W|_", secret) or (re.search(r"\d", secret) and re.search(r"[^\W\d]", secret)):
        found.append(rf"(?<!\w){plain}(?!\w)" if re.fullmatch(r"\w.*\w", secret) else plain)
    return [re.compile("|".join(found))]


def _any_way(text: str) -> str:
    # A run of these as a whole: each may be many characters, and their sum must not be guessed.
    runs = [(char, len(list(run))) for char, run in itertools.groupby(text)]
    return _BREAK.join(
        f"(?:{_RUNS[char]}){{{number},}}" if char in _RUNS else _BREAK.join([_char(char)] * number)
        for char, number in runs
    )


def _char(char: str) -> str:
    if char in _NEVER_ESCAPED:
        return re.escape(char)
    # "\ud800" alone is no character, but may be in an environment.
    octets = char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
    units = char.encode("utf-16-be", "surrogatepass").hex()
    ways = [
        re.escape(char),
        r"\\+" + re.escape(_SHORT_ESCAPES.get(char, char)),
        "".join(rf"\\+u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)),
        rf"\\+U(?i:{ord(char):08x})",
        "".join(rf"%(?:25)*(?i:{octet:02x})" for octet in octets),
        *(f"&{name};" for name in _HTML.get(char, ())),
    ]
    return f"(?:{'|'.join(ways)})"


def _base64(secret: str) -> Iterator[str]:
    """Of the secret, wherever it begins in what was written so: `user:secret` in a header."""
    octets = secret.encode("utf-8", "surrogateescape")
    for before in range(3):
        text = base64.b64encode(b"\0" * before + octets).decode()
        # Characters that hold bits of a neighbour, too, are left to the pattern's ends.
        core = text[-(-before * 8 // 6) : (before + len(octets)) * 8 // 6]
        if len(core) < _CORE:
            continue
        sign, fill = r"[A-Za-z0-9+/_-]", r"(?:=|%3[Dd]|\\+u003[Dd])"
        end = rf"(?:{sign}|{_BREAK}{sign}(?={_BREAK}{fill}))?(?:{_BREAK}{fill}){{0,2}}"
        ways = {"+": r"(?:[+\-]|%2[Bb]|\\+u002[Bb])", "/": r"(?:[/_]|\\+/|%2[Ff]|\\+u002[Ff])"}
        yield _BREAK.join(ways.get(char, char) for char in core) + end
