"""One application on SQLAlchemy and psycopg: requests at a steady rate, whatever became of those before.

The contract of arguments and output is in ../README.md.
"""

import argparse
import json
import os

import psycopg
import sqlalchemy
from open_loop import run
from sqlalchemy import URL, create_engine, exc, text


def settings(options):
    """What is given to `create_engine` beside the address."""
    if options.settings == "default":
        return {}
    timeout = options.deadline - 1
    return {
        "pool_pre_ping": True,
        "pool_timeout": timeout,
        "connect_args": {
            "keepalives_idle": int(options.idle_limit / 2),
            "keepalives_interval": 1,
            "keepalives_count": 9,
            "tcp_user_timeout": int(timeout * 1000),
            "connect_timeout": int(timeout),
        },
    }


def kind(error):
    """A class of errors, never a text of the library."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlstate", None)
    if code:
        return f"server:{code}"
    if isinstance(error, exc.TimeoutError):
        return "pool"
    return type(cause).__name__


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5432)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--for", dest="lasts", type=float, default=10.0)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--idle-limit", type=float, default=7.0)
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--settings", choices=["default", "advised"], default="default")
    options = parser.parse_args()
    if options.rate <= 0 or options.deadline <= 1:
        parser.error("a rate above 0 and a deadline above 1 are needed")
    applied = settings(options)
    url = URL.create("postgresql+psycopg", "app", host=options.host, port=options.port, database="postgres")
    engine = create_engine(url, **applied)

    def ask(sent):
        try:
            with engine.connect() as connection:
                # From here the library alone knows how much of BEGIN and of the question it has sent.
                sent()
                connection.execute(text("SELECT 1")).scalar_one()
        except (exc.SQLAlchemyError, psycopg.Error, OSError) as error:
            return kind(error)
        return None

    total = run(options, ask)
    version = f"SQLAlchemy {sqlalchemy.__version__}, psycopg {psycopg.__version__}"
    about = {"library": "sqlalchemy", "version": version, "settings": options.settings, "applied": applied}
    print(json.dumps(total | about), flush=True)
    # Threads that still wait for a dead connection wait for as long as TCP does: nothing is owed to them.
    os._exit(0)


if __name__ == "__main__":
    main()
