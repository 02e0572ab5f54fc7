"""A cloud's provider that is another when a lab is removed, by the real OpenTofu (or Terraform)."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from support.lab_of_tofu import with_own_root
from support.terraform import mirror

pytestmark = pytest.mark.acceptance

ROOT = """# Does a lab go on by another provider?
terraform {
  required_providers {
    azurerm = { source = "hashicorp/azurerm" }
  }
}
provider "azurerm" {
  features {}
}
resource "azurerm_resource_group" "lab" {
  name     = "own"
  location = "uksouth"
}
output "fathometer" {
  value = {
    format    = 1
    lab       = "own"
    hosts     = [{ name = "a", address = "198.51.100.1", user = "fathom" }]
    scenarios = [{ label = "a", from = "a", to = "a", port = 7007 }]
  }
}
"""


@pytest.fixture
def own(tmp_path):
    """Somebody with a lab of their own, and providers that nobody else has."""
    made = with_own_root(tmp_path, ROOT)
    shared, _ = mirror()
    made.mirror = tmp_path / "mirror"
    # Beside it are sockets of providers that run, and the other clouds'.
    left_out = shutil.ignore_patterns("plugin*", "provider", "aws", "google")
    shutil.copytree(shared, made.mirror, ignore=left_out)
    text = (shared / "settings").read_text().replace(str(shared), str(made.mirror))
    (made.mirror / "settings").write_text(text)
    made.env["TF_CLI_CONFIG_FILE"] = str(made.mirror / "settings")
    return made


def built_anew(provider):
    """The same program as another file."""
    with provider.open("ab") as file:
        file.write(b"\0")


def test_lab_is_removed_after_provider_changed(own):
    """`down` ended with "call it again", each time (a stranger)."""
    own("up", "azure-own", "--infra", "infra", "--yes")
    root = own.place / "labs/azure/own"
    down = ("down", "azure-own", "--by-state")
    # OpenTofu locks it by a file beside it.
    there = (root / ".terraform/providers").glob("*/*/azurerm/*/*")
    (link,) = (one for one in there if one.is_symlink())
    # Only the one in the lab is damaged: that is fetched again, and nobody need do anything.
    kept = link.resolve()

    def damage():
        link.unlink()
        shutil.copytree(kept, link)
        (provider,) = link.iterdir()
        built_anew(provider)
        return provider

    damage()
    _, err = own("up", "azure-own", "--infra", "infra")
    assert err.count("the cloud's provider is fetched") == 1
    assert "everything of it is there" in err
    provider = damage()
    out, err = own(*down, code=1)
    assert "the cloud's provider is fetched" in err
    assert "to be removed: 1 thing" in out
    assert "nobody answered" in err
    # It was built anew where it comes from; and then there is a newer one alone.
    built_anew(kept / provider.name)
    newer = kept.parent.with_name("99.0.0")
    is_gone = f"the previously-selected version {kept.parent.name} is no longer available"
    for words in ("match any of the checksums", is_gone):
        _, err = own(*down, "--yes", code=1)
        assert words in err
        assert "is another than the one that this lab was made with: put that one back" in err
        (command,) = {
            *re.findall(r"`(\S+ -chdir=\S+ init -upgrade)` takes it, and then the same command", err)
        }
        assert json.loads((root / "terraform.tfstate").read_text())["resources"]
        if not newer.exists():
            kept.parent.rename(newer)
    subprocess.run(shlex.split(command), env=own.env, check=True, capture_output=True)
    out, err = own(*down, "--yes")
    assert "to be removed: 1 thing" in out
    assert not own.place.exists()
