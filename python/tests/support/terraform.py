"""The labs of `infra/`, planned and made by the real Terraform (or OpenTofu) against the stand-in for their
cloud's provider. Nothing is asked of others but, once, what Go needs to build that.
"""

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.programs import ROOT, missing

INFRA = ROOT / "infra"
STAND_IN = INFRA / "standin"
# By the directory of the cloud: its provider.
PROVIDERS = {"azure": "azurerm", "aws": "aws", "gcp": "google"}
GIVEN = {
    "expires": "2030-01-02T19:30:00Z",
    "ssh_from": "198.51.100.7/32",
    "ssh_public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0mWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmW lab",
}
# What the labs of one cloud want, besides.
OF_CLOUD = {"gcp": {"project": "a-project"}}
LIMIT_S = 600


def roots(cloud):
    return sorted(p.parent.name for p in (INFRA / cloud).glob("*/main.tf"))


def of_root(cloud, root, *values):
    """A parameter of tests that share a root's lab, which one process runs (conftest.py)."""
    return pytest.param(*(values or (root,)), id=f"{cloud}-{root}")


def texts(cloud):
    return "".join(p.read_text() for p in sorted((INFRA / cloud).rglob("*.tf")))


def there(name, *more):
    """A program, where it is; else a visible skip, and a failure in CI."""
    places = [shutil.which(name), *more]
    found = next((str(p) for p in places if p and Path(p).exists()), None)
    return found or missing(f"{name}, by which the labs of infra/ are checked,")


def program():
    """OpenTofu where it is there, as `make tofu` builds it, else Terraform."""
    built = ROOT / "target/tofu/bin/tofu"
    if built.exists():
        return str(built)
    return shutil.which("tofu") or there("terraform", "/usr/local/bin/terraform")


def run(*command, cwd, env=None, check=True):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@functools.cache
def mirror():
    """A directory that has the stand-in in the place of the real providers, and the settings that name it."""
    go = there("go", "/usr/local/go/bin/go")
    directory = Path(tempfile.mkdtemp(prefix="fathom-labs-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    # Without what a debugger reads, which half of the linking would be for.
    words = ("build", "-ldflags", "-s -w", "-o", directory / "provider", ".")
    built = run(go, *words, cwd=STAND_IN, check=False)
    if built.returncode != 0 and re.search(r"dial tcp|no such host|proxy\.golang\.org", built.stderr):
        missing(f"what the stand-in is made of ({built.stderr.splitlines()[0]})")
    assert built.returncode == 0, built.stderr
    settings = {
        "TF_CLI_CONFIG_FILE": str(directory / "settings"),
        "CHECKPOINT_DISABLE": "1",
        # A process of a second needs no memory back: without that it takes a fifth less of a processor.
        "GOGC": "400",
    }
    (directory / "settings").write_text(
        f'provider_installation {{\n  filesystem_mirror {{ path = "{directory}" }}\n}}\n'
    )
    # Which of their registries a provider's short name stands for, each tool says itself.
    sources = "".join(f'    {p} = {{ source = "hashicorp/{p}" }}\n' for p in PROVIDERS.values())
    (directory / "provider.tf").write_text(f"terraform {{\n  required_providers {{\n{sources}  }}\n}}\n")
    said = run(program(), "providers", cwd=directory, env=settings).stdout
    platform = "_".join(run(go, "env", "GOOS", "GOARCH", cwd=STAND_IN).stdout.split())
    for provider in PROVIDERS.values():
        (address,) = re.findall(rf"provider\[(\S+/hashicorp/{provider})\]", said)
        version = run(directory / "provider", "-version", provider, cwd=directory).stdout.strip()
        place = directory / address / version / platform
        place.mkdir(parents=True)
        os.link(directory / "provider", place / f"terraform-provider-{provider}_v{version}")
    return directory, settings


@functools.cache
def served(cloud, account=""):
    """The settings of a tool that asks a stand-in which runs already: by itself it starts one three times for
    a plan, and more for a test. `init` is called without these, and takes the one of the mirror.
    `account`: whose login the provider has, where that matters.
    """
    directory, _ = mirror()
    # It ends with us, however we end: its standard input does.
    process = subprocess.Popen(
        [directory / "provider", "-serve", PROVIDERS[cloud]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(directory), "FATHOM_STANDIN_ACCOUNT": account},
        text=True,
    )
    atexit.register(process.communicate)
    said = process.stdout.readline()
    assert said, f"the stand-in for {PROVIDERS[cloud]} ended by itself"
    return {"TF_REATTACH_PROVIDERS": said}


@functools.cache
def lab_of(cloud, root):
    """The one lab of a root that tests share: what is cached of it is planned, and made, once."""
    directory = Path(tempfile.mkdtemp(prefix="fathom-lab-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Lab(root, directory, cloud)


class Lab:
    """A root, copied with its modules, so that nothing is written into the repository."""

    def __init__(self, root, directory, cloud="azure"):
        _, self.env = mirror()
        self.cloud, self.root = cloud, root
        shutil.copytree(INFRA / cloud, directory / cloud)
        self.cwd = directory / cloud / root
        self.tool = program()
        self._planned = {}
        self("init", "-input=false")

    def __call__(self, *words, check=True):
        settings = self.env if words[0] == "init" else {**self.env, **served(self.cloud)}
        return run(self.tool, *words, "-no-color", cwd=self.cwd, env=settings, check=check)

    def given(self, **variables):
        values = {**GIVEN, **OF_CLOUD.get(self.cloud, {}), **variables}
        return [
            f"-var={name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in values.items()
        ]

    def planned(self, *, public_jump):
        """The plan of the lab as it is by default."""
        if public_jump not in self._planned:
            self._planned[public_jump] = self.plan(f"plan-{public_jump}", public_jump=public_jump)
        return self._planned[public_jump]

    @functools.cached_property
    def outputs(self):
        """What the lab says once it is made as planned, with a jump host."""
        self.planned(public_jump=True)
        self("apply", "-input=false", "plan-True")
        return json.loads(self("output", "-json").stdout)

    def plan(self, out="plan", **variables):
        """What would be made where nothing is there, by address, as the plan's JSON has it."""
        self("plan", "-input=false", "-state=nothing", f"-out={out}", *self.given(**variables))
        plan = json.loads(self("show", "-json", out).stdout)
        return {
            change["address"]: Planned(change["address"], change["type"], change["change"]["after"])
            for change in plan["resource_changes"]
            if change["mode"] == "managed" and change["change"]["actions"] == ["create"]
        }, plan

    def told(self, **variables):
        """What the lab would say of itself, as far as that is known before it is made."""
        _, plan = self.plan(**variables)
        return plan["output_changes"]["fathometer"]["after"]

    def refused(self, **variables):
        """The errors of a plan, each in one line."""
        done = self("plan", "-input=false", "-state=nothing", *self.given(**variables), check=False)
        assert done.returncode == 1
        return [" ".join(e.split()) for e in re.split(r"^.?\s*Error: ", done.stderr, flags=re.MULTILINE)[1:]]

    def down(self, **variables):
        # What is there the stand-in alone has made: nothing is other than the state has it.
        self("destroy", "-auto-approve", "-input=false", "-refresh=false", *self.given(**variables))
        return self("state", "list").stdout.split()


class Planned:
    def __init__(self, address, kind, after):
        self.address, self.kind, self.after = address, kind, after

    def __getitem__(self, name):
        return self.after.get(name)
