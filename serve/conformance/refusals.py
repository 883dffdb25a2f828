"""Requests that must be refused, with their error messages."""

from typing import NamedTuple

from .server import Server, expect, expect_text, to_json


class Refusal(NamedTuple):
    """A request that must be refused."""

    check: str
    method: str
    path: str
    body: object
    """Body: bytes, or a value that is sent as JSON."""
    status: int
    message: str | None
    """Error message, in which ``...`` matches any text. `None` compares only the status."""


def refusals(server: Server) -> list[Refusal]:
    """Returns a request for every kind of error."""
    model, predict, path = server.model, f"{server.path}:predict", server.path
    missing = server.version + 1000
    row = "Failed to process element: {} of 'instances' list. Error: INVALID_ARGUMENT: "

    def post(check: str, body: object, message: str | None, status: int = 400, to: str = predict) -> Refusal:
        return Refusal(check, "POST", to, body, status, message)

    def malformed(check: str, method: str, to: str) -> Refusal:
        body = b"" if method == "GET" else b"{}"
        return Refusal(check, method, to, body, 400, f"Malformed request: {method} {to}")

    def status(check: str, to: str, message: str, code: int = 404) -> Refusal:
        return Refusal(check, "GET", to, b"", code, message)

    no_label = "Unrecognized servable version label: no-such-label"
    good = {"instances": ["a"]}
    return [
        post(
            "unknown model", good, "Servable not found for request: Latest(no-such)", 404, "/v1/models/no-such:predict"
        ),
        post(
            "unknown version",
            good,
            f"Servable not found for request: Specific({model}, {missing})",
            404,
            f"{path}/versions/{missing}:predict",
        ),
        post("unknown label", good, no_label, to=f"{path}/labels/no-such-label:predict"),
        status("status of an unknown model", "/v1/models/no-such", "Could not find any versions of model no-such"),
        status(
            "status of an unknown version",
            f"{path}/versions/{missing}",
            f"Could not find version {missing} of model {model}",
        ),
        status("metadata of an unknown label", f"{path}/labels/no-such-label/metadata", no_label, 400),
        status(
            "metadata of an unknown model",
            "/v1/models/no-such/metadata",
            "Servable not found for request: Latest(no-such)",
        ),
        post(
            "unknown signature",
            {"signature_name": "no-such", **good},
            'Serving signature name: "no-such" not found in signature def',
        ),
        post("empty body", b"", "JSON Parse error: The document is empty"),
        post("text that is not JSON", b"text", "JSON Parse error: ..."),
        post("JSON cut short", b'{"instances": ["a"', "JSON Parse error: ..."),
        post("two JSON documents", b"{} {}", "JSON Parse error: ..."),
        post("body that is not an object", ["a"], "JSON Value: ... Is not object"),
        post(
            "signature_name that is not a string",
            {"signature_name": 1},
            "...'signature_name' key must be a string value.",
        ),
        post(
            "inputs and instances",
            {"inputs": ["a"], "instances": ["a"]},
            "...expecting only one of 'inputs' or 'instances' keys to exist...",
        ),
        post("neither inputs nor instances", {"x": 1}, "Missing 'inputs' or 'instances' key"),
        post("instances that are not a list", {"instances": "a"}, "...Expecting 'instances' to be an list/array"),
        post("no instances", {"instances": []}, "...No values in 'instances' array"),
        post("column of numbers", {"inputs": [1]}, "JSON Value: 1 Type: Number is not of expected type: string"),
        post("column of nulls", {"inputs": [None]}, "JSON Value: null Type: Null is not of expected type: string"),
        post(
            "row that is a number",
            {"instances": ["a", 1]},
            row.format(1) + "JSON Value: 1 Type: Number is not of expected type: string",
        ),
        post("missing column", {"inputs": {"txt": ["a"]}}, "Missing named input: text in 'inputs' object."),
        post("row with an unknown key", {"instances": [{"foo": "a"}]}, "...does not have named input: foo"),
        post("row without its key", {"instances": [{}]}, "...keys must be equal to: text"),
        post(
            "rows of different sizes",
            {"instances": [["a"], ["b", "c"]]},
            row.format(1) + "Expecting tensor size: 1 but got: 2",
        ),
        post("rows of different ranks", {"instances": ["a", ["b"]]}, row.format(1) + "Expecting shape [] but got: [1]"),
        post(
            "object among plain rows",
            {"instances": ["a", {"text": "b"}]},
            "Expecting value/list but got object at item 1 of input list",
        ),
        post(
            "plain row among objects",
            {"instances": [{"text": "a"}, "b"]},
            "Expecting object but got list at item 1 of input list",
        ),
        post(
            "ragged columns",
            {"inputs": [["a"], ["b", "c"]]},
            "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
        ),
        post("bytes that are not base64", {"instances": [{"b64": "A"}]}, "...Unable to base64 decode"),
        post("base64 with incomplete padding", {"instances": [{"b64": "aG="}]}, "...Unable to base64 decode"),
        post("base64 with a Unicode space", {"instances": [{"b64": "a\u2003Gk"}]}, "...Unable to base64 decode"),
        post("a string where a batch is expected", {"inputs": "hello"}, None),
        post("a table where a batch is expected", {"instances": [["a"], ["b"]]}, None),
        post("bad JSON before an unknown model", b"{", "JSON Parse error: ...", to="/v1/models/no-such:predict"),
        post(
            "signature_name's type before an unknown model",
            {"signature_name": 1},
            "...'signature_name' key must be a string value.",
            to="/v1/models/no-such:predict",
        ),
        post(
            "unknown model before an unknown signature",
            {"signature_name": "no-such"},
            "Servable not found for request: Latest(no-such)",
            404,
            "/v1/models/no-such:predict",
        ),
        post("unknown signature before missing inputs", {"signature_name": "no-such"}, "Serving signature name: ..."),
        malformed("GET on :predict", "GET", predict),
        malformed("POST on a model", "POST", path),
        malformed("PUT on :predict", "PUT", predict),
        malformed("DELETE on a model", "DELETE", path),
        malformed("slash after a model", "GET", f"{path}/"),
        malformed("slash after :predict", "POST", f"{predict}/"),
        malformed("version that is not a number", "GET", f"{path}/versions/x"),
        malformed("unknown verb", "POST", f"{path}:translate"),
        malformed("query string after :predict", "POST", f"{predict}?x=1"),
        status("query string after a model", f"{path}?x=1", f"Could not find any versions of model {model}?x=1"),
        Refusal("no model", "GET", "/v1/models", b"", 400, None),
        Refusal("version beyond 64 bits", "GET", f"{path}/versions/{2**63}", b"", 400, None),
        Refusal("path outside /v1/", "GET", f"/v2/models/{model}", b"", 404, None),
        Refusal("preflight without an origin", "OPTIONS", path, b"", 400, None),
    ]


def check_refusal(server: Server, refusal: Refusal) -> None:
    """Raises Mismatch unless the server refuses the request as ``refusal`` describes."""
    content = refusal.body if isinstance(refusal.body, bytes) else to_json(refusal.body)
    response = server.http.request(refusal.method, refusal.path, content=content or None)
    expect("status", refusal.status, response.status_code, response.text)
    if refusal.message is not None:
        expect("Content-Type", "application/json", response.headers.get("content-type"))
        expect_text("error", refusal.message, response.json().get("error"))
