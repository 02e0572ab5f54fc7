"""No secret of the environment is in what was said, however it is written there."""

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fathometer.cloud.withheld import Withheld, secrets_of


def go_json(text):
    """As encoding/json writes a string (its documentation: `<`, `>`, `&`, U+2028 and U+2029 are escaped)."""
    for char in "&<>\u2028\u2029":
        text = text.replace(char, f"\x00{ord(char):04x}")
    return json.dumps(text, ensure_ascii=False)[1:-1].replace(r"\u0000", r"\u")


def python_json(text):
    return json.dumps(text)[1:-1]


WAYS = {
    "plain": str,
    "Go's JSON": go_json,
    "Python's JSON": python_json,
    "JSON in JSON": lambda text: go_json('{"body":"' + go_json(text) + '"}'),
    "JSON in JSON of Python": lambda text: python_json(json.dumps(text)),
    "a URL": lambda text: quote(text, safe=""),
    "a URL's path": quote,
    "a form": quote_plus,
    "a URL in small letters": lambda text: re.sub("%..", lambda m: m[0].lower(), quote(text, safe="")),
    "HTML": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a URL": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "a header": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "a header of somebody": lambda text: base64.b64encode(f"a:{text}:b".encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
}
PRINTABLE = st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co"))
SECRETS = st.text(PRINTABLE, min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6)
AROUND = st.text(PRINTABLE, max_size=8)
FEW = settings(max_examples=25)
"""Each example makes the patterns of a secret anew."""


def cleaned(secret, text):
    return Withheld({"A_TOKEN": secret}).text(text)


@FEW
@given(SECRETS, st.sampled_from(sorted(WAYS)), AROUND, AROUND)
def test_secret_is_redacted_in_any_encoding(secret, way, before, after):
    written = WAYS[way](secret)
    # A separator, so that it is known what it was written beside.
    said = cleaned(secret, f"{before} {written} {after}")
    assert "[A_TOKEN]" in said
    assert secret not in said.replace("[A_TOKEN]", "")
    assert written.strip("=") not in said


@FEW
@example("000000 ", "plain", 1)
@example(" 000000", "plain", 1)
@given(SECRETS, st.sampled_from(["plain", "Go's JSON", "Python's JSON", "base64"]), st.integers(1, 39))
def test_secret_split_across_lines_is_redacted(secret, way, at):
    signs = [WAYS[way](char) for char in secret] if way != "base64" else list(WAYS[way](secret))
    at = min(at, len(signs) - 1)
    halves = "".join(signs[:at]), "".join(signs[at:])
    for end in ("\n", "\r\n", "\n│ ", "\\n"):
        said = cleaned(secret, f"it was {halves[0]}{end}{halves[1]} indeed")
        # One that begins or ends in a blank may take the blank beside it, too: words are wrapped at blanks.
        blank = r"\s*" if secret[0].isspace() else r" \s*"
        assert re.fullmatch(rf"it was{blank}\[A_TOKEN\]\s*indeed", said), said


@FEW
@given(SECRETS)
def test_redaction_keeps_json_structure(secret):
    line = json.dumps({"type": "diagnostic", "diagnostic": {"severity": "error", "detail": f"a {secret} b"}})
    found = Withheld({"A_TOKEN": secret, "B_TOKEN": "diagnostic"}).value(json.loads(line))
    assert found["type"] == "diagnostic"
    assert "[A_TOKEN]" in str(found)


@FEW
@given(st.text(PRINTABLE, min_size=6, max_size=30), st.text(alphabet="xyz \n", max_size=200))
def test_other_text_stays(secret, text):
    if not set(secret) <= set("xyz \n"):
        assert cleaned(secret, text) == text


@pytest.mark.parametrize(
    "secret", ["\\" * 40, "\\u0026" * 12, "a\\" * 30, " " * 10 + "xyz", "%25%25%25%25", "\\n" * 20]
)
def test_none_takes_for_ever(secret):
    """Ends at all: a pattern that tries every sum of backslashes does not."""
    assert cleaned(secret, secret[:-1] * 60 + "!") is not None
    assert "[A_TOKEN]" in cleaned(secret, f"x{secret}x")


def test_short_secret_is_redacted_unless_ordinary_word():
    assert (
        cleaned("a1b2", 'it was a1b2, "a1b2" and TOKEN=a1b2')
        == 'it was [A_TOKEN], "[A_TOKEN]" and TOKEN=[A_TOKEN]'
    )
    assert cleaned("a1b2", "0xa1b2f is a number") == "0xa1b2f is a number"
    assert cleaned("test", "a test of testing, token=test") == "a test of testing, token=[A_TOKEN]"
    assert cleaned("to", 'nothing to "to"') == 'nothing to "to"'


def test_which_variables_are_secret():
    certificate = base64.b64encode(bytes(range(200))).decode()
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQ", "EFAASCBKcwggSjAgEAAoIBAQC7"]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    environment = {
        "ARM_CLIENT_CERTIFICATE": certificate,
        "ARM_CLIENT_CERTIFICATE_PATH": "/home/somebody/certificate.pfx",
        "DATABASE_URL": "postgres://somebody:hunter-two@db/x?y=z@",
        "GITHUB_PAT": "ghp_0123456789",
        "GOOGLE_CREDENTIALS": json.dumps({"type": "service_account", "private_key": key}),
        "PWD": "/home/somebody",
        "PATH": "/usr/bin:/bin",
    }
    found = {name for _, name in secrets_of(environment)}
    assert found == {"ARM_CLIENT_CERTIFICATE", "DATABASE_URL", "GITHUB_PAT", "GOOGLE_CREDENTIALS"}
    clean = Withheld(environment)
    lines = "\n".join(certificate[at : at + 76] for at in range(0, len(certificate), 76))
    assert clean.text(f"got {lines}.") == "got [ARM_CLIENT_CERTIFICATE]."
    assert clean.text("at postgres://somebody:hunter-two@db") == "at postgres://[DATABASE_URL]@db"
    assert clean.text("password hunter-two") == "password [DATABASE_URL]"
    assert clean.text("MIIEvQIBADANBgkqhkiG9w0BAQ") == "[GOOGLE_CREDENTIALS]"
    assert clean.text("a service_account in /home/somebody") == "a service_account in /home/somebody"


NAMES = [
    "DB_PASS",
    "SSHPASS",
    "SIGNING_KEY",
    "APIKEY",
    "NPM_AUTH",
    "OAUTH",
    "SESSION_COOKIE",
    "TF_ENCRYPTION",
]


@pytest.mark.parametrize("name", [*NAMES, "SENTRY_DSN", "AZURE_STORAGE_CONNECTION_STRING", "db_pass"])
def test_variable_name_marks_a_secret(name):
    assert Withheld({name: "correct-horse"}).text("said correct-horse") == f"said [{name}]"


@pytest.mark.parametrize(
    "name",
    [
        "SSH_AUTH_SOCK",
        "GIT_ASKPASS",
        "TF_VAR_ssh_public_key",
        "AUTHOR",
        "COMPASSES",
        "KEYBOARD",
        "MY_KEY_FILE",
    ],
)
def test_similar_variable_names_are_not_secret(name):
    assert Withheld({name: "/tmp/correct"}).text("said /tmp/correct") == "said /tmp/correct"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("A_CONNECTION_STRING", "Endpoint=x;AccountName=lab;AccountKey=correct+horse==;Suffix=y"),
        ("A_DSN", "host=db user=lab password='correct+horse==' port=5432"),
        ("A_DSN", "Server=db;Uid=lab;Pwd=correct+horse=="),
        ("TF_ENCRYPTION", 'key_provider "pbkdf2" "lab" { passphrase = "correct+horse==" }'),
    ],
)
def test_password_in_connection_string_is_redacted(name, value):
    assert Withheld({name: value}).text("it refused correct+horse== of lab") == f"it refused [{name}] of lab"
