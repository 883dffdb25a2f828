"""The client through TLS: certificates are checked, over REST and over gRPC."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest
from servers import Certificate
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from serve.client import Client, ClientError, Retry, VersionStatus

pytestmark = pytest.mark.server

STATUS = [VersionStatus(3, "AVAILABLE", "OK", "")]


class StatusHandler(http.server.BaseHTTPRequestHandler):
    """Answers every request with a status."""

    def do_GET(self) -> None:
        status = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        body = json.dumps({"model_version_status": [status]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class StatusServicer(model_service_pb2_grpc.ModelServiceServicer):
    def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=3, state="AVAILABLE")
        return response


@pytest.fixture(scope="module")
def https(certificate: Certificate) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StatusHandler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def grpcs(certificate: Certificate) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(StatusServicer(), server)
    pair = certificate.key.read_bytes(), certificate.certificate.read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    yield f"grpcs://127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(params=["https", "grpcs"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


def test_a_certificate_whose_signer_is_named_is_trusted(url, certificate):
    with Client(url, ca_file=certificate.certificate) as client:
        assert client.status() == STATUS


def test_a_certificate_of_an_unknown_signer_is_refused(url):
    with Client(url, retry=Retry(1)) as client, pytest.raises(ClientError):
        client.status()


def test_over_https_the_refusal_says_why_and_is_not_repeated(https, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waited"))
    with Client(https, retry=Retry(5)) as client, pytest.raises(ClientError, match="a certificate that is not trusted"):
        client.status()
