"""The program that stands for OpenTofu and for `az` (standin_tofu.py). What wants nothing imported it answers
by itself: imports take most of a call, and a test makes some twenty.
"""

# pathlib would be imported, too.
# ruff: noqa: PTH103, PTH110, PTH119, PTH123, PTH208

import os
import sys


def listed(cloud, kind, words):
    """What bears the lab's tag; which subscription was asked is noted."""
    asked = words[words.index("--subscription") + 1] if "--subscription" in words else "none"
    with open(f"{cloud}/az.log", "a") as log:
        log.write(f"{asked}\n")
    tag = words[words.index("--tag") + 1].partition("=")[2]
    for name in os.listdir(f"{cloud}/things") if kind == "resource" else ():
        try:
            with open(f"{cloud}/things/{name}") as thing:
                bears = thing.read()
        except FileNotFoundError:
            continue
        if bears == tag:
            print(f"/subscriptions/0/{name}")


def initialized(cloud):
    if os.path.exists(f"{cloud}/offline"):
        print("Error: Failed to query available provider packages")
        sys.exit(1)
    os.makedirs(".terraform", exist_ok=True)
    print("has been successfully initialized")


def start():
    cloud = os.environ["FATHOM_TEST_CLOUD"]
    verb, *words = sys.argv[1:]
    if os.path.basename(sys.argv[0]) == "az" and "--ids" not in words:
        listed(cloud, verb, words)
    elif verb == "version":
        print('{"terraform_version": "1.12.6"}')
    elif verb == "init":
        initialized(cloud)
    else:
        import standin_tofu

        standin_tofu.main()


if __name__ == "__main__":
    start()
