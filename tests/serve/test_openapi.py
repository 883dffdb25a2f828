"""``openapi.json`` describes the answers of the server, and the README shows one."""

import json

import httpx
import jsonschema
import pytest
from servers import ROOT, running_server

DOCUMENT = json.loads((ROOT / "serve" / "web" / "openapi.json").read_text())
PUBLISHED = json.loads((ROOT / "docs/measured/first-answer.json").read_text("utf-8"))
SENTENCES = ["Estoy en casa. Tengo hambre.", "", "No."]
SIGNATURES = {
    "serving_default": "Translation",
    "greedy": "Translation",
    "text": "Text",
    "sentences": "Sentences",
    "align": "Align",
    "beam": "Beam",
    "score": "Score",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    (models / "spa-eng").symlink_to(ROOT / "saved_models" / "spa-eng")
    with running_server(models) as url:
        yield url


def check(document, schema):
    jsonschema.validate(document, {**schema, "components": DOCUMENT["components"]})


def response_schema(path, method, status):
    answers = DOCUMENT["paths"][path][method]["responses"]
    return answers.get(str(status), answers.get("default"))["content"]["application/json"]["schema"]


@pytest.mark.parametrize(("signature", "name"), SIGNATURES.items())
def test_answers_have_the_schema_of_their_signature(url, signature, name):
    rows = [{"source": each, "target": "No."} for each in SENTENCES] if signature == "score" else SENTENCES
    body = {"signature_name": signature, "instances": rows}
    path = "/v1/models/{model}:predict"
    check(body, DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])
    answer = httpx.post(f"{url}/v1/models/spa-eng:predict", json=body, trust_env=False, timeout=60)
    check(answer.json(), response_schema(path, "post", 200))
    strict = {**DOCUMENT["components"]["schemas"][name], "additionalProperties": False}
    for prediction in answer.json()["predictions"]:
        check(prediction, strict)


def test_other_answers_and_errors_have_their_schemas(url):
    for path, status in (
        ("/v1/models/{model}", 200),
        ("/v1/models/{model}/metadata", 200),
        ("/v1/models/{model}/versions/{version}", 200),
        ("/v1/models/{model}/versions/{version}/metadata", 200),
        ("/v1/models/{model}/labels/{label}", 200),
        ("/config.json", 200),
        ("/v1/models/{model}", 404),
        ("/v1/models/{model}/versions/{version}/metadata", 404),
        ("/v1/models/{model}/labels/{label}/metadata", 400),
    ):
        names = {"model": "spa-eng" if status == 200 else "none", "version": 1, "label": "stable"}
        found = httpx.get(url + path.format_map(names), trust_env=False)
        assert found.status_code == status
        check(found.json(), response_schema(path, "get", status))
    refused = httpx.post(f"{url}/v1/models/spa-eng:predict", content="{", trust_env=False)
    check(refused.json(), response_schema("/v1/models/{model}:predict", "post", refused.status_code))
    columns = httpx.post(f"{url}/v1/models/spa-eng:predict", json={"inputs": {"text": ["No."]}}, trust_env=False)
    check(columns.json(), DOCUMENT["components"]["schemas"]["Columns"])


def test_the_server_gives_the_answer_in_the_readme(url):
    path, body = "/v1/models/spa-eng:predict", PUBLISHED["request"]
    answer = httpx.post(url + path, json=body, trust_env=False, timeout=60).json()
    ((given,), (expected,)) = answer["predictions"], PUBLISHED["answer"]["predictions"]
    assert given == {**expected, "score": pytest.approx(expected["score"], abs=1e-3)}
