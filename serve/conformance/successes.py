"""Requests that must succeed. Each function is a check, described by its docstring."""

import base64
import concurrent.futures
import gzip
import re
from typing import Any

from .server import Server, expect, require, to_json

SENTENCE = "¿Dónde está mi libro?"
SENTENCES = [SENTENCE, "Hola.", "No sé nada de eso.", "¡Ya!"]


def rows(server: Server) -> None:
    """Each sentence gets a row with every output. A row may be a value or an object."""
    predictions = server.answer({"instances": SENTENCES})["predictions"]
    expect("rows", len(SENTENCES), len(predictions))
    for prediction in predictions:
        types = {name: type(value) for name, value in prediction.items()}
        expect("types", {"translation": str, "score": float, "truncated": bool}, types)
    named = server.answer({"instances": [{"text": text} for text in SENTENCES]})["predictions"]
    expect("rows of objects", texts(predictions), texts(named))
    explicit = server.answer({"signature_name": "serving_default", "instances": SENTENCES})["predictions"]
    expect("rows of the named signature", texts(predictions), texts(explicit))


def columns(server: Server) -> None:
    """Each output is a column in the order of the sentences. A single input needs no name. Other keys are ignored."""
    predictions = server.answer({"instances": SENTENCES})["predictions"]
    for inputs in ({"text": SENTENCES}, SENTENCES, {"text": SENTENCES, "more": 1}):
        outputs = server.answer({"inputs": inputs})["outputs"]
        expect("outputs", {"translation", "score", "truncated"}, set(outputs))
        expect("translations", texts(predictions), outputs["translation"])


def empty_batch(server: Server) -> None:
    """An empty batch gets an empty answer."""
    outputs = server.answer({"inputs": {"text": []}})["outputs"]
    expect("outputs", {"translation": [], "score": [], "truncated": []}, outputs)


def base64_in(server: Server) -> None:
    """A string may be base64 in both formats."""
    value = {"b64": base64.b64encode(SENTENCE.encode()).decode()}
    plain = texts(server.answer({"instances": [SENTENCE]})["predictions"])
    expect("row", plain, texts(server.answer({"instances": [value]})["predictions"]))
    expect("column", plain, server.answer({"inputs": {"text": [value]}})["outputs"]["translation"])


def gzip_in(server: Server) -> None:
    """A body may be gzipped. A proxy may refuse it with 415."""
    document = {"instances": [SENTENCE]}
    content = gzip.compress(to_json(document))
    response = server.http.post(f"{server.path}:predict", content=content, headers={"Content-Encoding": "gzip"})
    if response.status_code == 415:
        return
    plain = texts(server.answer(document)["predictions"])
    expect("translation", plain, texts(server.read(response)["predictions"]))


def spellings(server: Server) -> None:
    """Paths match in any case, except for the method. Names may be percent-encoded. Versions may have leading zeros."""
    encoded = "".join(f"%{byte:02X}" for byte in server.model.encode())
    for path in (
        f"/V1/Models/{server.model}:predict",
        f"/v1/models/{encoded}:predict",
        f"{server.path}/versions/{server.version}:predict",
        f"{server.path}/versions/00{server.version}:predict",
    ):
        expect(path, 1, len(server.answer({"instances": ["a"]}, path)["predictions"]))


def status(server: Server) -> None:
    """A status holds the states of the versions. Version numbers are strings."""
    expected = {
        "version": str(server.version),
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in (server.path, f"{server.path}/versions/{server.version}"):
        found = server.read(server.http.get(path))
        require(expected in found.get("model_version_status", []), path, f"{expected} among its versions", found)
    numbers = [int(each["version"]) for each in server.read(server.http.get(server.path))["model_version_status"]]
    expect("order of versions", sorted(numbers, reverse=True), numbers)


def metadata(server: Server) -> None:
    """Metadata hold the model's signatures in protocol buffers' JSON."""
    for path in (f"{server.path}/metadata", f"{server.path}/versions/{server.version}/metadata"):
        document = server.read(server.http.get(path))
        spec = {"name": server.model, "signature_name": "", "version": str(server.version)}
        expect("model_spec", spec, document["model_spec"])
        signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
        expect("method_name", "tensorflow/serving/predict", signature["method_name"])
        expect("inputs", {"text"}, set(signature["inputs"]))
        text = signature["inputs"]["text"]
        expect("dtype", "DT_STRING", text["dtype"])
        expect("tensor_shape", {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}, text["tensor_shape"])
        expect("outputs", {"translation", "score", "truncated"}, set(signature["outputs"]))


def alignment(server: Server) -> None:
    """The signature ``align`` returns unescaped tokens, lengths, and rows that sum to 1."""
    request = {"signature_name": "align", "inputs": {"text": SENTENCES}}
    response = server.http.post(f"{server.path}:predict", content=to_json(request))
    outputs = server.read(response)["outputs"]
    require("ó".encode() in response.content, "strings", "unescaped UTF-8 with ó", "none")
    sizes = zip(outputs["alignment"], outputs["source_lengths"], outputs["target_lengths"], strict=True)
    for weights, source, target in sizes:
        require(min(source, target) >= 1, "lengths", "1 or more", f"{source} and {target}")
        for weight in weights[:target]:
            total = sum(weight[:source])
            require(abs(total - 1) <= 1e-3, "alignment", "rows that sum to 1", total)


def together(server: Server) -> None:
    """Concurrent requests, which a server may merge into batches, get their own answers."""
    alone = [texts(server.answer({"instances": [text]})["predictions"]) for text in SENTENCES]
    with concurrent.futures.ThreadPoolExecutor(4 * len(SENTENCES)) as threads:
        documents = [{"instances": [text]} for text in SENTENCES * 4]
        answers = [texts(answer["predictions"]) for answer in threads.map(server.answer, documents)]
    expect("translations", alone * 4, answers)


def preflight(server: Server) -> None:
    """OPTIONS from a web page gets an empty success."""
    for origin in ("http://example.org", "https://example.org"):
        response = server.http.options(f"{server.path}:predict", headers={"Origin": origin})
        expect("status", 200, response.status_code, response.text)
        expect("body", "", response.text)


def label(server: Server) -> None:
    """A label selects its version."""
    path = f"{server.path}/labels/{server.label}"
    expect("predictions", 1, len(server.answer({"instances": ["a"]}, f"{path}:predict")["predictions"]))
    spec = server.read(server.http.get(f"{path}/metadata"))["model_spec"]
    states = {each["version"]: each["state"] for each in server.read(server.http.get(path))["model_version_status"]}
    expect("state", "AVAILABLE", states.get(spec["version"]))


def monitoring(server: Server) -> None:
    """Metrics for Prometheus have TensorFlow Serving's names, at an exact path."""
    path = "/monitoring/prometheus/metrics"
    before = _requests_counted(server.http.get(path).text, server.model)
    server.answer({"instances": [SENTENCE]})
    page = server.http.get(path)
    expect("status", 200, page.status_code, page.text)
    counted = _requests_counted(page.text, server.model)
    require(counted > before, "request_count", f"more than {before:g} after a request", f"{counted:g}")
    latency = ":tensorflow:serving:request_latency"
    require(f"# TYPE {latency} histogram\n" in page.text, "metrics", f"the histogram {latency}", "none")
    refused = server.http.get(f"{path}?x=1")
    expect("status", 400, refused.status_code, refused.text)
    expect("words", f"Unexpected path: {path}?x=1. Should be {path}", refused.text)


def _requests_counted(page: str, model: str) -> float:
    """Returns the number of the model's successful requests in the metrics."""
    labels = re.escape(f'{{model_name="{model}",status="OK"}}')
    found = re.search(rf"^:tensorflow:serving:request_count{labels} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def cors(server: Server) -> None:
    """Web pages of other hosts may read answers, errors and preflights."""
    allowed = {"origin": "*", "methods": "POST, GET"}
    for method, path in (("OPTIONS", server.path), ("GET", server.path), ("GET", "/v1/models/no-such")):
        headers = server.http.request(method, path, headers={"Origin": "https://example.org"}).headers
        expect(f"{method} {path}", allowed, {name: headers.get(f"access-control-allow-{name}") for name in allowed})
        expect(f"{method} {path}", True, "Content-Type" in headers.get("access-control-allow-headers", ""))


SUCCESSES = (
    rows,
    columns,
    empty_batch,
    base64_in,
    gzip_in,
    spellings,
    status,
    metadata,
    alignment,
    together,
    preflight,
)


def texts(predictions: list[dict[str, Any]]) -> list[str]:
    """Returns the translations in rows."""
    return [prediction["translation"] for prediction in predictions]
