"""The page's files: nothing is fetched from elsewhere, and the server sends each as what it is."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

WEB = Path(__file__).parents[2] / "serve" / "web"


def test_the_page_names_no_other_host():
    for path in WEB.iterdir():
        hosts = re.findall(r"https?://[\w.]+", path.read_text("utf-8"))
        assert set(hosts) <= {"http://www.w3.org"}, path.name  # the name of SVG, which nothing fetches


@pytest.mark.server
def test_the_server_sends_every_file_of_the_page_as_what_it_is(served):
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for path in WEB.iterdir():
        response = httpx.get(f"{served}/{path.name}")
        assert response.text == path.read_text("utf-8")
        assert response.headers["content-type"].startswith(types.get(path.suffix, "application/json")), path.name
    assert httpx.get(f"{served}/").text == (WEB / "index.html").read_text("utf-8")
    head = httpx.head(f"{served}/config.json")
    assert (head.status_code, int(head.headers["content-length"])) == (200, len((WEB / "config.json").read_bytes()))
