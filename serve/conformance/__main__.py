"""The command: runs the checks, prints a line for each, and exits with code 1 if one failed."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import tyro

from nmt_keras.io.files import make_writable_folder, write_whole
from nmt_keras.io.lines import message
from nmt_keras.io.usage import orderly_end, read_options

from ..client.answers import ClientError, without_password
from ..client.rest import http_client
from .refusals import check_refusal, refusals
from .server import Mismatch, Server, connect
from .successes import SUCCESSES, cors, label, monitoring


@dataclass(frozen=True)
class Options:
    """Checks that a server answers as TensorFlow Serving does. The exit code is 1 if a check fails."""

    url: str
    """URL of the server, without a path."""
    model: str = "spa-eng"
    """Name of a served model."""
    label: str | None = None
    """Label of a version of the model. Also checks labels."""
    monitoring: tyro.conf.FlagCreatePairsOff[bool] = False
    """Also check the metrics, which must be enabled on the server."""
    cors: tyro.conf.FlagCreatePairsOff[bool] = False
    """Also check CORS, which must be enabled on the server: web pages of other hosts may read the answers."""
    ca_file: Path | None = None
    """PEM file of the certificates that signed the server's certificate."""
    timeout: float = 60.0
    """Time limit of an answer in seconds."""
    json: Path | None = None
    """File for the results and their date."""
    server: str = ""
    """Name of the server in the file, such as its image."""


def examine(server: Server, more: Iterable[Callable[[Server], None]] = ()) -> dict[str, str | None]:
    """Runs every check, and ``more``. Returns the reason of the failure of each check, or `None`."""
    checks = {check.__name__.replace("_", " "): functools.partial(check, server) for check in (*SUCCESSES, *more)}
    checks |= {each.check: functools.partial(check_refusal, server, each) for each in refusals(server)}
    return {name: _failure(check) for name, check in checks.items()}


def _failure(check: Callable[[], None]) -> str | None:
    try:
        check()
    except Exception as error:  # also of no answer, or of an answer of another form
        return message(error if isinstance(error, Mismatch) else f"{type(error).__name__}: {error}")
    return None


@orderly_end(f"{__package__}")
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the checks, prints a line for each, and exits with code 1 if one failed."""
    options = read_options(Options, f"python -m {__package__}", arguments)
    optional = {label: options.label is not None, monitoring: options.monitoring, cors: options.cors}
    if options.json:
        make_writable_folder(options.json.parent)
    try:
        with http_client(options.url, options.timeout, options.ca_file) as http:
            http.base_url = httpx.URL(options.url)
            server = connect(http, options.model, options.label)
            failures = examine(server, [check for check, is_wanted in optional.items() if is_wanted])
    except (ClientError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise SystemExit(f"{__package__}: {without_password(options.url)}: {message(error)}") from error
    for check, failure in failures.items():
        print(f"FAIL  {check}: {failure}" if failure else f"ok    {check}")
    failed = sum(failure is not None for failure in failures.values())
    print(f"{len(failures) - failed} of {len(failures)} checks passed, model {server.model} version {server.version}")
    if options.json:
        report = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "server": options.server,
            "url": without_password(options.url),
            "model": server.model,
            "version": server.version,
            "failed": failed,
            "checks": [{"check": check, "failure": failure} for check, failure in failures.items()],
        }
        write_whole(options.json, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
