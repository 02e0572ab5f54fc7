"""Recordings in an object store, by a real S3 server on loopback: as on a disk."""

import json

import boto3
import numpy as np
import pytest

from fathometer.dataset import open_recordings, raw
from fathometer.errors import FathometerError
from support.command_line import run
from support.recordings import START, UNANSWERED, lognormal_ns, write
from support.store import BUCKET, store, upload


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two recordings on the disk and in the store, the second of two segments."""
    root = tmp_path_factory.mktemp("store")
    rtt = lognormal_ns(1, 3_000, 500)
    rtt[::50] = UNANSWERED
    write(root / "label=near" / "date=2025-03-20" / "a", rtt, label="near")
    parts = iter(np.array_split(lognormal_ns(2, 2_000, 900), 2))
    write(root / "label=far" / "date=2025-03-21" / "b", parts, label="far", start_ns=START + 10**14)
    with store() as endpoint:
        yield endpoint, root, upload(endpoint, root, "deep/prefix")


@pytest.mark.acceptance
def test_stored_recording_equals_local_recording(both):
    _, root, url = both
    here, there = ({r.label: r for r in open_recordings([path], counted=True)} for path in (str(root), url))
    assert here.keys() == there.keys() == {"near", "far"}
    for label, one in here.items():
        other = there[label]
        assert one.manifest == other.manifest
        assert one.events == other.events
        assert one.totals == other.totals
        assert one.rollup.histogram() == other.rollup.histogram()
        assert all(
            np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
            for x, y in zip(raw.samples(one), raw.samples(other), strict=True)
        )


@pytest.mark.acceptance
def test_report_and_changes_read_a_store(both, tmp_path):
    _, root, url = both
    here, there = (run("report", where, "--json", cwd=tmp_path) for where in (root, url))
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout)["scenarios"] == json.loads(here.stdout)["scenarios"]
    changes = run("changes", f"{url}/label=near", "--json", cwd=tmp_path)
    assert (changes.returncode, changes.stdout.strip()[0]) == (0, "["), changes.stderr


@pytest.mark.acceptance
def test_compare_reads_a_store(both, tmp_path):
    _, root, url = both
    here, there = (
        json.loads(run("compare", f"{where}/label=near", f"{where}/label=far", "--json", cwd=tmp_path).stdout)
        for where in (root, url)
    )
    assert there == here
    assert {c["verdict"] for c in there["comparisons"] if c["metric"] == "p50"} == {"slower"}


def test_unknown_store_is_one_line_error():
    is_refused("what://is/this", "what://is/this")


@pytest.mark.acceptance
@pytest.mark.usefixtures("both")
def test_missing_object_is_one_line_error():
    is_refused(f"s3://{BUCKET}/nothing/here", "does not exist")
    is_refused("s3://no-such-bucket-of-ours/x", "no-such-bucket-of-ours")


def is_refused(url, told):
    with pytest.raises(FathometerError, match=told) as refused:
        open_recordings([url])
    assert "\n" not in str(refused.value)


@pytest.mark.acceptance
def test_damaged_object_is_refused_and_others_read(both):
    endpoint, root, _ = both
    url = upload(endpoint, root, "damaged")
    key = "damaged/label=near/date=2025-03-20/a/samples-00000.parquet"
    client = boto3.client("s3", endpoint_url=endpoint)
    data = bytearray(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    data[200] ^= 1
    client.put_object(Bucket=BUCKET, Key=key, Body=bytes(data))
    told = []
    found = open_recordings([url], on_error=told.append, counted=True)
    assert [r.label for r in found] == ["far"]
    assert "label=near" in str(told[0])
    assert "checksum" in str(told[0])
