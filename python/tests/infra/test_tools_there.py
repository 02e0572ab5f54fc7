"""Without the tools that check a lab its tests are skipped where somebody sees it, and fail in CI."""

import pytest

from support.terraform import program, there


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), (None, pytest.skip.Exception)])
def test_a_tool_that_is_missing_fails_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci) if ci else monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(outcome, match="go, by which the labs of infra/ are checked, is missing"):
        there("go", tmp_path / "nowhere/go")
    (tmp_path / "go").touch(mode=0o755)
    assert there("go") == str(tmp_path / "go")


def test_tool_outside_path_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "elsewhere").touch()
    assert there("go", tmp_path / "none", tmp_path / "elsewhere") == str(tmp_path / "elsewhere")


def test_tofu_is_preferred_to_terraform(monkeypatch, tmp_path):
    monkeypatch.setattr("support.terraform.ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("terraform", "tofu"):
        (tmp_path / name).touch(mode=0o755)
        assert program() == str(tmp_path / name)
