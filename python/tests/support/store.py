"""A model of AWS on loopback (moto's), and recordings copied into its S3."""

import contextlib
import os

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "fathom-test"


@contextlib.contextmanager
def aws():
    """Its endpoint; the environment names it, as a user's would."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    told = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield endpoint
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        server.stop()


@contextlib.contextmanager
def store():
    """The same, with a bucket."""
    with aws() as endpoint:
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
        yield endpoint


def upload(endpoint, directory, prefix):
    """All files of a tree; returns the URL that they lie under."""
    client = boto3.client("s3", endpoint_url=endpoint)
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(directory)}")
    return f"s3://{BUCKET}/{prefix}"
