"""What the lab's tool shows is held against the state that lies there: a wrapper's words, or another
workspace's nothing, are no proof that nothing is left (a stranger).
"""

import errno
import json
from datetime import UTC, datetime

import pytest

from fathometer.cloud.begun import summary
from fathometer.cloud.command import _interruptible
from fathometer.errors import FathometerError

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
def down(made, listed):
    """Removes the lab, with a tool that shows this; says what was said."""

    def call(shown):
        listed.az("true")
        listed.az(
            f"""case $1 in
            version) echo '{{"terraform_version": "1.12.6"}}' ;;
            init) mkdir -p .terraform ;;
            show) {shown} ;;
            *) touch "$1.called" ;;
            esac""",
            name="tofu",
        )
        said = listed("down", "azure-nat", "--directory", made.directory, "--yes", code=1)
        assert made.state_file.is_file()
        assert not (made.root / "destroy.called").exists()
        return said

    return call


def test_empty_tool_output_does_not_empty_state(down, made):
    for _ in range(2):
        said = down("""echo '{"format_version": "1.0"}'""")
        assert f"tofu shows nothing of a state, and {made.state_file} names 1 thing" in said


def test_wrapper_output_is_not_json_error(down):
    for _ in range(2):
        assert "tofu show -json prints no object of JSON: using 1.12.6" in down("echo using 1.12.6; echo {}")


def test_lab_always_uses_default_workspace(down, monkeypatch):
    monkeypatch.setenv("TF_WORKSPACE", "other")
    assert "no object of JSON: in default" in down("echo in $TF_WORKSPACE")


def test_list_shows_incomplete_removal(made):
    for kind in ("destroy.started", "destroy.done"):
        made.note(kind)
    assert "half removed: its state names 1 thing" in summary(made.directory, NOW)
    made.state_file.write_text(json.dumps({"version": 4, "resources": []}))
    assert "removed; whether something is left was not found out" in summary(made.directory, NOW)
    made.note("left.looked", left=2)
    assert "half removed: 2 things of it are left" in summary(made.directory, NOW)


def test_next_down_removes_remaining_state(made, listed):
    """As a tool leaves that ends well without removing, or a state that was put back since: each call said
    that the next one tries it again, and none did.
    """
    for kind in ("init.done", "destroy.started", "destroy.done"):
        made.note(kind)
    (made.root / ".terraform").mkdir()
    shown = {"root_module": {"resources": [{"address": "a.b", "type": "a", "mode": "managed"}]}}
    (made.root / "shown").write_text(json.dumps({"values": shown}))
    listed.az("exit 0")
    listed.az(
        """case $1 in
        show) cat shown;;
        destroy) echo '{"values": {}}' >shown; echo '{"version": 4, "resources": []}' >terraform.tfstate;;
        esac""",
        name="tofu",
    )
    # Who agreed to the removal is not asked again.
    said = listed("down", "azure-nat", "--directory", made.directory)
    assert "nothing of it is left in the subscription 0-1" in said
    assert not made.directory.exists()


def test_full_disk_is_reported_by_every_call():
    with (
        pytest.raises(
            FathometerError, match=r"^cannot go on: lab/x: No space left on device; make room for it"
        ),
        _interruptible(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "lab/x")
    with pytest.raises(PermissionError), _interruptible():
        raise PermissionError(errno.EACCES, "Permission denied", "lab/x")
