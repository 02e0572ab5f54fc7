#!/usr/bin/env python3
"""Remakes docs/images/report-*.png: the first screens of the demo's report, on a desk and on a phone. Its region is
simulated, so that the pictures do not depend on what else this machine does. `make report-pictures` runs it; it needs Chromium, and neither a network nor privileges.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCREENS = {"report-desk": (1280, 800), "report-phone": (390, 844)}
sys.path.insert(0, str(ROOT / "python" / "tests"))


def main() -> None:
    from support.chromium import chromium

    fathom = Path(os.environ.get("FATHOM", ROOT / "target" / "debug" / "fathom"))
    scenario = ROOT / "python" / "src" / "fathometer" / "demo" / "region.toml"
    with tempfile.TemporaryDirectory() as place:
        recordings, page = Path(place) / "recordings", Path(place) / "report.html"
        simulate = [fathom, "fabric", "simulate", scenario, "--record", recordings]
        subprocess.run(simulate, check=True, stdout=subprocess.DEVNULL)
        report = [sys.executable, "-c", "from fathometer.cli import main; main()", "report", recordings]
        report += ["--output", page, "--title", "A cloud region, emulated"]
        subprocess.run(report, check=True)
        with chromium() as browser:
            for name, (width, height) in SCREENS.items():
                shown = browser.new_page(viewport={"width": width, "height": height})
                shown.goto(page.as_uri(), timeout=200_000)
                # A page that is too large for the charts' script has none, and shows what it has at once.
                if shown.query_selector("[data-brush]"):
                    shown.wait_for_function("document.querySelector('[data-brush]').dataset.ready", timeout=300_000)
                shown.screenshot(path=ROOT / "docs" / "images" / f"{name}.png", timeout=200_000)


if __name__ == "__main__":
    main()
