"""Stands for OpenTofu and for the cloud behind it: a lab whose hosts are namespaces of this machine with a
real sshd.

As `az` it lists what bears the lab's tag. As `tofu` it is called in a copy of infra/azure/zones. It knows of
the real one's ways what `fathom cloud` depends on: objects of JSON a line, a state that is written after each
thing, one interrupt ends it in order, the second one drops everything, and its lock. What it makes is in
the directory FATHOM_TEST_CLOUD, too: a cloud knows what it has without any state. Files there make it fail:

| file | what it does |
|---|---|
| `fail` | JSON: {address: words}; making that thing ends with these words |
| `hold` | an address: it waits before that thing until the file is gone |
| `die` | an address: it is killed after making it, before that is in the state |
| `bare` | its things are files alone: no namespaces, no sshd |
| `image` | a directory that each host has in its home, as an image may |
| `no-login` | planning ends with these words |
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

# A test makes some twenty calls: shlex and subprocess are imported where hosts are made.

CLOUD = Path(os.environ["FATHOM_TEST_CLOUD"])
STATE = Path("terraform.tfstate")
TAG = "fathom-zones"
JUMP, INSIDE = "203.0.113.10", "10.60.1"
VM = "azurerm_linux_virtual_machine"
HOSTS = {
    "module.jump[0]": ("jump", [JUMP, f"{INSIDE}.5"]),
    "module.client": ("client", [f"{INSIDE}.10"]),
    'module.server["server-zone-1"]': ("server-zone-1", [f"{INSIDE}.20"]),
}
ADDRESSES = [
    "azurerm_resource_group.lab",
    "module.network.azurerm_virtual_network.this",
    *(f"{module}.{VM}.this" for module in HOSTS),
]
interrupts = []


def thing(address):
    """Where the cloud has it."""
    return CLOUD / "things" / address.replace("/", "_")


def sh(line):
    import subprocess

    subprocess.run(["sh", "-ec", line], check=True, stdin=subprocess.DEVNULL)


def resource(address):
    kind = address.split(".")[-2]
    values = {"tags": {"fathom-lab": TAG}}
    if kind == VM:
        values["id"] = address
        values["size"] = "Standard_B2ats_v2" if "jump" in address else "Standard_D2s_v5"
    return {"address": address, "mode": "managed", "type": kind, "values": values}


def state():
    """The addresses in the state that is there."""
    text = STATE.read_text() if STATE.exists() else "{}"
    try:
        return [one["address"] for one in json.loads(text).get("resources", ())]
    except ValueError:
        sys.exit("Error: Unsupported state file format\nThe state file could not be parsed as JSON")


def save(addresses):
    resources = [
        {
            "address": address,
            "mode": "managed",
            "type": address.split(".")[-2],
            "instances": [{"attributes": {"tags": {"fathom-lab": TAG}}}],
        }
        for address in addresses
    ]
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps({"version": 4, "resources": resources}))
    new.rename(STATE)


def say(kind, message, **more):
    print(json.dumps({"@level": "info", "@message": message, "type": kind, **more}), flush=True)


def fail(words):
    summary, _, detail = words.partition("\n")
    said = {"severity": "error", "summary": summary, "detail": detail}
    say("diagnostic", f"Error: {summary}", diagnostic=said)
    sys.exit(1)


def settings():
    return json.loads(Path("lab.auto.tfvars.json").read_text())


def without_our_marks():
    """A cloud's hosts are no children of whoever called for them."""
    return {k: v for k, v in os.environ.items() if k in {"PATH", "LANG"}}


def make_host(name, addresses):
    import shlex
    import subprocess

    directory = CLOUD / "hosts" / name
    home = directory / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / ".ssh/authorized_keys").write_text(settings()["ssh_public_key"] + "\n")
    if (CLOUD / "image").exists():
        sh(f"cp -al {CLOUD}/image/. {home} 2>/dev/null || cp -a {CLOUD}/image/. {home}")
    for file, field, value in (("passwd", 5, str(home)), ("shadow", 1, "*")):
        rows = [line.split(":") for line in (Path("/etc") / file).read_text().splitlines()]
        for row in rows:
            if row[0] == "root":
                row[field] = value
        (directory / file).write_text("".join(":".join(row) + "\n" for row in rows))
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {shlex.quote(str(directory / 'key'))}")
    (directory / "sshd_config").write_text(
        f"HostKey {directory}/key\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nUsePAM no\nPidFile none\nSetEnv FATHOM_CLOUD=off\n"
    )
    prepare = f"echo {name} >/proc/sys/kernel/hostname; ip link set lo up; "
    prepare += "mount -t tmpfs tmpfs /run; mkdir /run/sshd; "
    for file in ("passwd", "shadow"):
        prepare += f"mount --bind {directory}/{file} /etc/{file}; "
    sshd = f"/usr/sbin/sshd -D -e -f {directory}/sshd_config"
    argv = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
    argv += ["sh", "-ec", f"{prepare} echo ready; read -r go; exec >/dev/null; {sshd} 2>/dev/null & wait"]
    host = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**without_our_marks(), "FATHOM_TEST_HOST": name},
        start_new_session=True,
    )
    assert host.stdout.readline() == b"ready\n"
    pid = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()[0]
    # An interface's name has 15 characters at the most.
    link = f"to-{name[:10]}"
    # Whoever has an address anew has its hardware's, too: nobody waits until the old one is forgotten.
    mac = "02:00:" + ":".join(f"{int(part):02x}" for part in addresses[-1].split("."))
    sh(
        f"ip link add {link} type veth peer name eth0 address {mac} netns {pid}; "
        f"ip link set {link} master br-lab up"
    )
    inside = f"nsenter --target {pid} --net"
    for address in addresses:
        sh(f"{inside} ip addr add {address}/24 dev eth0")
    sh(f"{inside} ip link set eth0 up")
    host.stdin.write(b"go\n")
    host.stdin.close()
    host.returncode = 0  # It outlives us, and that is meant.


def end_host(name):
    """Ends a host's processes, which bear its name in their environment."""
    import shutil

    wanted = f"FATHOM_TEST_HOST={name}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        time.sleep(0.01)
    shutil.rmtree(CLOUD / "hosts" / name)


def make(address):
    if thing(address).exists():
        fail(f'A resource with the ID "/0/{address}" already exists\nto be managed it needs to be imported')
    failing = json.loads((CLOUD / "fail").read_text()) if (CLOUD / "fail").exists() else {}
    if address in failing:
        say("apply_errored", f"{address}: Creation errored after 1s")
        fail(failing[address])
    # From here on it costs.
    thing(address).write_text(TAG)
    if (CLOUD / "bare").exists():
        return
    if "virtual_network" in address:
        sh("ip link add br-lab type bridge; ip link set br-lab up; ip addr add 203.0.113.1/24 dev br-lab")
    elif VM in address:
        make_host(*HOSTS[address.removesuffix(f".{VM}.this")])


def unmake(address):
    if "resource_group" in address:
        # Azure takes the group with whatever is in it.
        for other in reversed(ADDRESSES[1:]):
            unmake(other)
    elif not thing(address).exists():
        return
    elif (CLOUD / "bare").exists():
        pass
    elif "virtual_network" in address:
        sh("ip link del br-lab")
    elif VM in address:
        end_host(HOSTS[address.removesuffix(f".{VM}.this")][0])
    thing(address).unlink(missing_ok=True)


def hold(address):
    file = CLOUD / "hold"
    while file.exists() and file.read_text() == address:
        (CLOUD / "holding").touch()
        if interrupts:
            fail("execution halted")
        time.sleep(0.01)


def refreshed():
    """What of the state the cloud still has."""
    return [address for address in state() if thing(address).exists()]


def plan(out):
    changes = [
        {
            "address": address,
            "mode": "managed",
            "type": address.split(".")[-2],
            "change": {
                "actions": ["no-op"] if address in refreshed() else ["create"],
                "after": resource(address)["values"],
            },
        }
        for address in ADDRESSES
    ]
    Path(out).write_text(json.dumps({"resource_changes": changes}))


def apply(file):
    there = refreshed()
    for change in json.loads(Path(file).read_text())["resource_changes"]:
        address = change["address"]
        if "create" in change["change"]["actions"]:
            hold(address)
            make(address)
            if (CLOUD / "die").exists() and (CLOUD / "die").read_text() == address:
                os.kill(os.getpid(), signal.SIGKILL)
            there.append(address)
            save(there)
            say("apply_complete", f"{address}: Creation complete after 0s [id=x]", hook={"action": "create"})


def destroy():
    there = state()
    for address in reversed(list(there)):
        hold(address)
        unmake(address)
        there.remove(address)
        save(there)
        say("apply_complete", f"{address}: Destruction complete after 0s", hook={"action": "delete"})


def lab():
    user = settings()["user"]
    hosts = [(name, addresses[-1]) for name, addresses in HOSTS.values() if name != "jump"]
    return {
        "format": 1,
        "lab": TAG,
        "jump": {"address": JUMP, "user": user},
        "hosts": [{"name": name, "address": address, "user": user} for name, address in hosts],
        "scenarios": [
            {
                "label": "same-zone",
                "from": "client",
                "to": "server-zone-1",
                "port": 7008,
                "tags": {"zone-to": "1"},
            }
        ],
    }


def interrupt(*_):
    interrupts.append(1)
    with (CLOUD / "interrupts").open("a") as file:
        file.write("1")
    if len(interrupts) > 1:
        os._exit(130)


def noted(log, subscription):
    """Which one each call was for."""
    with (CLOUD / log).open("a") as file:
        file.write(f"{subscription}\n")


def listed(kind, words):
    """As `az`: what bears the lab's tag; which subscription was asked is noted."""
    noted("az.log", words[words.index("--subscription") + 1] if "--subscription" in words else "none")
    tag = words[words.index("--tag") + 1].partition("=")[2]
    for thing in sorted((CLOUD / "things").iterdir()) if kind == "resource" else ():
        # Removed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if thing.read_text() == tag:
                print(f"/subscriptions/0/{thing.name}")


def main():
    verb, *words = sys.argv[1:]
    if Path(sys.argv[0]).name == "az":
        listed(verb, words)
        return
    signal.signal(signal.SIGINT, interrupt)
    if verb in {"apply", "destroy"}:
        noted("tool.log", os.environ.get("ARM_SUBSCRIPTION_ID", "none"))
    if verb in {"plan", "apply", "destroy"}:
        # The lock of the state. The kernel lets go of it when this process ends.
        lock = os.open(".terraform.tfstate.lock.info", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    if verb == "version":
        print('{"terraform_version": "1.12.6"}')
    elif verb == "plan":
        if (CLOUD / "no-login").exists():
            fail((CLOUD / "no-login").read_text())
        plan(next(word.removeprefix("-out=") for word in words if word.startswith("-out=")))
    elif verb == "output":
        whole = set(ADDRESSES) <= set(state())
        print(json.dumps({"fathometer": {"sensitive": False, "value": lab()}} if whole else {}))
    elif verb == "show":
        values = {"values": {"root_module": {"resources": [resource(address) for address in state()]}}}
        print(Path(words[-1]).read_text() if len(words) > 1 else json.dumps(values))
    elif verb == "apply":
        apply(words[-1])
    elif verb == "destroy":
        destroy()
