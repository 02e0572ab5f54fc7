"""What goes wrong while a lab is made: the cloud's own words, what to do, what exists; and its removal."""

import signal

import pytest

from fathometer.cloud.trouble import advice
from support.lab_of_namespaces import GIVEN, SECRET, SERVER

LOGIN = (
    "building account: could not acquire access token to parse claims\nclientCredentialsToken: received HTTP "
    f"status 401 with response: AADSTS7000215: Invalid client secret provided: {SECRET}"
)


def until_line(process, words):
    """What it says up to a line."""
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


def no_secret(person, said):
    assert SECRET not in said
    holding = [p for p in person.place.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert holding == []


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_next_call_removes_secret_from_logs(person):
    (person.cloud / "no-login").write_text(LOGIN)
    person.killed("after", "plan.started", "up", *GIVEN)
    # What a tool wrote that was killed with it.
    (person.place / "logs").mkdir(exist_ok=True)
    (person.place / "logs/destroy.raw").write_text(LOGIN)
    no_secret(person, person.up(code=1))


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_reaches_tool_once_and_reports_resources(person, sign):
    (person.cloud / "hold").write_text(SERVER)
    (person.cloud / "slow").touch()
    process = person.popen("up", *GIVEN)
    person.holding()
    person.kill(process, sign)
    said = until_line(process, "tofu gets it once, and ends what it is at")
    person.kill(process, sign)
    said += until_line(process, "interrupted again it would lose that")
    (person.cloud / "slow").unlink()
    said += process.stderr.read()
    assert process.wait() == 1
    assert (person.cloud / "interrupts").read_text() == "1"
    assert "4 things of 3 kinds are there: 0.10 to 0.15 $ an hour" in said
    assert "it was interrupted; `fathom cloud up azure-zones` goes on" in said
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.parametrize("by", ["plan", "portal"])
def test_remade_host_gets_new_key(person, by):
    """At the same address it has another key, which `run` took for another machine's."""
    person.up()
    if by == "plan":
        (person.cloud / "replace").write_text(SERVER)
    else:
        person.deleted(SERVER)
    said = person("up", "azure-zones", "--yes")
    (person.cloud / "replace").unlink(missing_ok=True)
    assert "to be made: 1 thing" in said
    assert ("to be removed: 1 thing" in said) == (by == "plan")
    assert "the hosts' keys, as they came over the network" in said
    person(*person.run_words())
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_closed_stdout_does_not_count_as_shown(person):
    words = [word for word in GIVEN if word != "--yes"]
    said = person.closed("up", *words, code=1)
    assert "what it costs could not be shown" in said
    assert "5 things of 3 kinds are there" in person.closed("up", *GIVEN)
    assert "nothing of it is left" in person.closed("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_a_standard_input_that_is_closed_answers_nothing(person):
    """It ended in a traceback."""
    words = [word for word in GIVEN if word != "--yes"]
    said = person.closed("up", *words, code=1, fd=0)
    assert "nobody answered; answer y, or add --yes" in said
    assert "5 things of 3 kinds are there" in person.closed("up", *GIVEN, fd=0)
    assert "nobody answered" in person.closed("down", "azure-zones", code=1, fd=0)
    assert "nothing of it is left" in person.closed("down", "azure-zones", "--yes", fd=0)
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_a_reader_that_has_left_stops_nothing(person):
    """`fathom cloud down | head` ended before it began, with exit code 0, and the lab went on costing."""
    words = [word for word in GIVEN if word != "--yes"]
    assert "what it costs could not be shown" in person.unread("up", *words, code=1)
    assert "5 things of 3 kinds are there" in person.unread("up", *GIVEN)
    assert "nothing of it is left" in person.unread("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_failed_tag_query_is_reported_before_making(person):
    """`az` waits for a login, say: it was silent, and the lab was made beside another."""
    az = person.cloud.parent / "bin/az"
    program = az.readlink()
    az.unlink()
    az.write_text("#!/bin/sh\necho 'Please run az login' >&2; exit 1\n")
    az.chmod(0o755)
    said = person.up()
    assert "asking the cloud what bears the lab's tag" in said
    assert "another lab has its name could not be found out: az group list --tag fathom-lab=fathom-z" in said
    assert ": Please run az login" in said
    az.unlink()
    az.symlink_to(program)
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
def test_unusable_key_is_refused_before_making_hosts(person):
    (person.home / ".ssh/id_ed25519").rename(person.home / "elsewhere")
    said = person("plan", *GIVEN[:-1])
    assert "`fathom cloud up azure-zones` would be refused: the private key of" in said
    assert "is not there, and no agent of ssh has it" in person.up(code=1)
    assert person.traces()["things"] == []
    (person.home / "elsewhere").rename(person.home / ".ssh/id_ed25519")
    person.up()
    person("down", "azure-zones", "--yes")
    person.nothing_is_left()


@pytest.mark.acceptance
@pytest.mark.usefixtures("without_hosts")
def test_two_at_once_are_refused(person):
    (person.cloud / "hold").write_text(SERVER)
    process = person.popen("up", *GIVEN)
    person.holding()
    assert "is being run already; wait for its end" in person("down", "azure-zones", "--yes", code=1)
    (person.cloud / "hold").unlink()
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("Error: creating EC2 Instance: VcpuLimitExceeded: You have requested more vCPU capacity", "quota"),
        ("InsufficientInstanceCapacity: We currently do not have sufficient m7i.large capacity", "size"),
        ("No valid credential sources found", "log in again"),
        ("googleapi: Error 403: Quota 'CPUS' exceeded. Limit: 8.0 in region europe-west2.", "quota"),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "size"),
        ("AuthorizationFailed: The client does not have authorization to perform action", "may not do that"),
        (
            "Error saving state: write terraform.tfstate: no space left on device",
            "the disk of the lab's directory;",
        ),
        ("something new", "see what the cloud says of it"),
    ],
)
def test_words_of_the_clouds_are_known(words, remedy):
    assert remedy in advice(words)


def test_a_full_disk_is_named():
    words = "Failed to write state: No space left on device"
    assert "make room on the disk of /srv/lab; then" in advice(words, "/srv/lab")
