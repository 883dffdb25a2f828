"""nginx with serve/deploy/nginx.conf, in front of the embedded server and of a stand-in for gRPC."""

import contextlib
import http.client
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import pytest
from servers import NGINX, ROOT, Certificate, free_port, running_server
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from serve.conformance import __main__ as conformance

MIB = 2**20

pytestmark = pytest.mark.nginx

PREDICTION = "/tensorflow.serving.PredictionService"
MODEL = "/tensorflow.serving.ModelService"
RELOAD = f"{MODEL}/HandleReloadConfigRequest"
METHODS = {
    f"/{service.full_name}/{method.name}"
    for apis in (prediction_service_pb2, model_service_pb2)
    for service in apis.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@contextmanager
def running_nginx(folder: Path, certificate: Certificate, rest: int, rpc: int) -> Iterator[int]:
    """Runs nginx in ``folder`` and yields its TLS port. ``rest`` and ``rpc`` are the ports of the model server."""
    port, health = free_port(), free_port()
    configuration = (ROOT / "serve" / "deploy" / "nginx.conf").read_text()
    changes = {
        "/tmp/": f"{folder}/",  # first, because a clone may lie there
        "serving:8501": f"127.0.0.1:{rest}",
        "serving:8500": f"127.0.0.1:{rpc}",
        "listen 127.0.0.1:8080": f"listen 127.0.0.1:{health}",
        "listen 8443": f"listen 127.0.0.1:{port}",
        "root /usr/share/nginx/html": f"root {ROOT / 'serve' / 'web'}",
    }
    with started(folder, certificate, replaced(configuration, changes), health):
        yield port


@contextmanager
def excerpt_of(page: str, number: int, folder: Path, certificate: Certificate, rest: int) -> Iterator[int]:
    """Runs nginx with an excerpt of a guide, and yields its TLS port."""
    port, health = free_port(), free_port()
    text = (ROOT / "docs" / "guides" / page).read_text("utf-8")
    changes = {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/nginx/tls": "tls",
        "127.0.0.1:8501": f"127.0.0.1:{rest}",
    }
    excerpt = replaced(re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)[number], changes)
    check = f"server {{ listen 127.0.0.1:{health}; location = /healthz {{ return 204; }} }}"
    scratch = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    with started(folder, certificate, f"pid {folder}/pid; events {{}} http {{ {scratch} {check} {excerpt} }}", health):
        yield port


def replaced(text: str, changes: dict[str, str]) -> str:
    for written, here in changes.items():
        assert written in text
        text = text.replace(written, here)
    return text


@contextmanager
def started(folder: Path, certificate: Certificate, configuration: str, health: int) -> Iterator[None]:
    """Runs nginx in ``folder``."""
    (folder / "nginx.conf").write_text(configuration)
    (folder / "mime.types").write_text("types { text/html html; }")
    (folder / "tls").mkdir()
    shutil.copy(certificate.certificate, folder / "tls" / "server.crt")
    shutil.copy(certificate.key, folder / "tls" / "server.key")
    user = "user root;" if os.geteuid() == 0 else ""  # other users cannot enter the temporary folder
    command = [NGINX, "-c", str(folder / "nginx.conf"), "-e", "stderr", "-g", f"daemon off; {user}"]
    with (folder / "log").open("w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + 30
            while not is_healthy(health):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
            process.wait(30)


def is_healthy(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code == 204
    return False


class Rpc(grpc.GenericRpcHandler):
    """Answers every method with its request and records the method's path."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        self.called.append(details.method)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


class Front(NamedTuple):
    """A running nginx with clients, and a record of the gRPC server behind it."""

    http: httpx.Client
    channel: grpc.Channel
    called: list[str]
    """Paths of the gRPC methods that reached the model server."""


@pytest.fixture(scope="module")
def trusted(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.certificate))


@pytest.fixture(scope="module")
def front(tmp_path_factory, certificate, trusted, served) -> Iterator[Front]:
    rpc = Rpc()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[rpc])
    rpc_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    credentials = grpc.ssl_channel_credentials(certificate.certificate.read_bytes())
    with (
        running_nginx(tmp_path_factory.mktemp("nginx"), certificate, int(served.rpartition(":")[2]), rpc_port) as port,
        httpx.Client(base_url=f"https://localhost:{port}", verify=trusted, timeout=60, trust_env=False) as client,
        grpc.secure_channel(f"127.0.0.1:{port}", credentials, [("grpc.enable_http_proxy", 0)]) as channel,
    ):
        yield Front(client, channel, rpc.called)
    server.stop(None).wait()


@pytest.mark.parametrize("method", sorted(METHODS - {RELOAD}))
def test_the_inference_and_status_methods_reach_the_model_server(front, method):
    front.called.clear()
    assert front.channel.unary_unary(method)(b"a request", timeout=30) == b"a request"
    assert front.called == [method]


@pytest.mark.parametrize(
    "method",
    [
        RELOAD,
        RELOAD.replace("Reload", "%52eload"),
        f"/{RELOAD}",
        f"{PREDICTION}/../{RELOAD}",
        f"{RELOAD}?/Predict",
        "/tensorflow.serving.SessionService/SessionRun",
        f"{PREDICTION}/Predict/",
        f"{PREDICTION}/Translate",
        f"{MODEL}/GetModelStatusAndMore",
    ],
)
def test_every_other_method_is_unimplemented_and_does_not_reach_the_model_server(front, method):
    front.called.clear()
    with pytest.raises(grpc.RpcError) as caught:
        front.channel.unary_unary(method)(b"a request", timeout=30)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "This method is not available through this proxy."
    assert front.called == []


def test_a_body_is_passed_on_as_it_arrives_and_so_needs_no_disk(front, trusted):
    url = front.http.base_url
    with contextlib.closing(http.client.HTTPSConnection(url.host, url.port, timeout=20, context=trusted)) as client:
        client.putrequest("POST", "/v1/models/spa-eng:classify")  # refused without its body
        client.putheader("Content-Length", str(MIB))
        client.endheaders(bytes(MIB // 2))
        assert "not supported" in client.getresponse().read().decode()


@pytest.mark.parametrize(
    ("size", "encoding", "status", "error"),
    [(MIB + 1, "identity", 413, "The body is larger than 1 MiB."), (9, "gzip", 415, "The body is compressed.")],
)
def test_a_body_that_nginx_refuses_gets_a_json_document(front, size, encoding, status, error):
    answer = front.http.post("/v1/models/a:predict", content=bytes(size), headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json()["error"].startswith(error)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert front.http.post("/error.json").status_code == 404


def test_the_page_and_no_metrics_are_served(front):
    page, sent = front.http.get("/"), (ROOT / "serve" / "web" / "index.html").read_text("utf-8")
    assert (page.text, page.headers["cache-control"], page.headers["x-frame-options"]) == (sent, "no-cache", "DENY")
    assert front.http.get("/monitoring/prometheus/metrics").status_code == 404


def test_a_client_gets_through_nginx_what_the_model_server_answers(front, certificate, capsys):
    with pytest.raises(SystemExit) as done:
        conformance.main(["--url", str(front.http.base_url), "--ca-file", str(certificate.certificate)])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("FAIL")] == []
    assert len(lines) > 50
    assert done.value.code == 0


ORIGIN = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
OTHER = {"Origin": "https://other.example.org", "Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize(("page", "number"), [("operate.md", 0), ("web-app.md", 0), ("web-app.md", 1)])
def test_the_excerpts_of_the_guides_answer_requests_and_their_own_errors_as_json(
    page, number, reverser, certificate, trusted, tmp_path
):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "rev").symlink_to(reverser.parent)
    body, large = {"instances": ["uno dos"]}, bytes(MIB + 1)
    with contextlib.ExitStack() as server:
        url = server.enter_context(running_server(tmp_path / "models", with_cors=False))
        with (
            excerpt_of(page, number, tmp_path, certificate, int(url.rpartition(":")[2])) as port,
            httpx.Client(base_url=f"https://localhost:{port}", verify=trusted, timeout=60, trust_env=False) as client,
        ):
            answers = [client.post("/v1/models/rev:predict", json=body), client.get("/v1/models/rev")]
            assert [answer.status_code for answer in answers] == [200, 200]
            if page == "web-app.md":
                same = {"Origin": f"https://localhost:{port}", "Sec-Fetch-Site": "same-origin"}
                allowed = client.post("/v1/models/rev:predict", json=body, headers=ORIGIN if number else same)
                refused = client.post("/v1/models/rev:predict", json=body, headers=OTHER)
                assert (allowed.status_code, refused.status_code) == (200, 403)
            else:
                assert client.get("/monitoring/x").json() == {"error": "This address is closed."}
            too_large = client.post("/v1/models/rev:predict", content=large, headers=ORIGIN)
            assert (too_large.status_code, too_large.json()["error"]) == (413, "The body is larger than 1 MiB.")
            server.close()
            gone = client.get("/v1/models/rev", headers=ORIGIN)
            assert (gone.status_code, gone.json()["error"]) == (502, "The model server is not available.")
            if number:
                preflight = client.options("/v1/models/rev:predict", headers=ORIGIN)
                for answer in (allowed, too_large, gone, preflight):
                    assert answer.headers["access-control-allow-origin"] == ORIGIN["Origin"]
                assert "X-Request-Id" in preflight.headers["access-control-allow-headers"]
                assert preflight.status_code == 204
                assert "access-control-allow-origin" not in refused.headers
