"""Classify and regress over REST, on a model that can and on one that cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from browser import Browser
from classifier_model import export_classifier
from reverser import export_reverser

from serve import examples
from serve.app import create_app
from serve.core import Core
from serve.examples import Classifications, Feature, Kind
from serve.limits import Limits
from serve.model_config import models_in
from serve.repository import Repository
from serve.status import StatusError


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from serve.servable import load_servable

    folder = tmp_path_factory.mktemp("models")
    export_classifier(folder / "cls" / "1")
    export_reverser(folder / "rev" / "1")
    repository = Repository(lambda: models_in(folder), load_servable)
    repository.start()
    browser = Browser(create_app(Core(repository, Limits(max_batch_rows=5))))
    yield browser
    browser.close()
    repository.close()


# Reading and writing


def read(document: object) -> examples.ExamplesRequest:
    return examples.read_examples(json.dumps(document).encode(), 1000)


def test_features_are_lists_or_single_values_of_three_kinds():
    request = read({"examples": [{"a": "ñ", "b": [1, True], "c": [0.5, -2.0], "d": {"b64": "/w=="}, "e": []}]})
    assert request.signature_name == ""
    assert request.context == {}
    assert request.examples == [
        {
            "a": Feature(Kind.BYTES, ["ñ".encode()]),
            "b": Feature(Kind.INT64, [1, 1]),
            "c": Feature(Kind.FLOAT, [0.5, -2.0]),
            "d": Feature(Kind.BYTES, [b"\xff"]),
            "e": Feature(None, []),
        }
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "JSON Value: [] Is not object"),
        ({"signature_name": 1}, "'signature_name' key must be a string value."),
        ({}, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
        ({"examples": {}}, "Expecting 'examples' value to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [1]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{}], "context": None}, "Example must be JSON object but got JSON Null"),
        ({"examples": [{"x": None}]}, "Feature: x has element with unexpected JSON type: Null"),
        ({"examples": [{"x": [[1]]}]}, "Feature: x has element with unexpected JSON type: Array"),
        ({"examples": [{"x": {"y": 1}}]}, "Feature: x has element with unexpected JSON type: Object"),
        ({"examples": [{"x": [1, 0.5]}]}, "Unexpected element type in feature: x expecting type: int64"),
        ({"examples": [{"x": [0.5, 1]}]}, "Unexpected element type in feature: x expecting type: float"),
        ({"examples": [{"x": ["a", 1]}]}, "Unexpected element type in feature: x expecting type: bytes"),
        ({"examples": [{"x": 2**63}]}, "Feature: x has uint64 element. Only int64 is supported."),
        ({"examples": [{"x": 1e39}]}, "Cannot convert JSON value: 1e+39 to float without loss of precision."),
        ({"examples": [{"x": {"b64": "A"}}]}, "Unable to base64 decode"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_in_tensorflow_servings_words(document, message):
    with pytest.raises(StatusError) as caught:
        read(document)
    assert caught.value.code.http == 400
    assert caught.value.message.endswith(message)


def test_classifications_are_written_as_pairs_of_label_and_score():
    result = Classifications(np.array([[b"a", b'"']], object), np.array([[0.5, 2]], np.float32))
    assert examples.write_classifications(result) == b'{\n    "results": [[["a", 0.5], ["\\"", 2.0]]\n    ]\n}'


def test_regressions_are_written_on_one_line():
    assert examples.write_regressions(np.array([1 / 3, 2], np.float32)) == b'{\n    "results": [0.333333343, 2.0]\n}'


# Over REST


@pytest.mark.server
@pytest.mark.parametrize(
    ("signature", "results"),
    [
        ("", [[["low", -1.5], ["high", 1.5]], [["low", 0.0], ["high", 0.0]]]),
        ("labels", [[["low", 0.0], ["high", 0.0]]] * 2),
        ("scores", [[["", -1.5], ["", 1.5]], [["", 0.0], ["", 0.0]]]),
    ],
)
def test_a_classifier_may_leave_out_its_labels_or_its_scores(client, signature, results):
    response = client.post(
        "/v1/models/cls:classify", json={"signature_name": signature, "examples": [{"x": 1.5}, {"y": "?"}]}
    )
    assert response.json() == {"results": results}


@pytest.mark.server
@pytest.mark.parametrize("signature", ["regress", "column"])
def test_a_regressor_answers_a_number_for_each_example(client, signature):
    document = {"signature_name": signature, "context": {"x": 0.25}, "examples": [{"x": 1.5}, {}]}
    assert client.post("/v1/models/cls/versions/1:regress", json=document).json() == {"results": [3.0, 0.5]}


CLASSIFY, REGRESS, PREDICT = (f"tensorflow/serving/{method}" for method in ("classify", "regress", "predict"))


@pytest.mark.server
@pytest.mark.parametrize(
    ("path", "signature", "status", "message"),
    [
        ("nope:classify", "", 404, "Servable not found for request: Latest(nope)"),
        ("cls/versions/2:regress", "", 404, "Servable not found for request: Specific(cls, 2)"),
        ("cls/labels/old:regress", "", 400, "Unrecognized servable version label: old"),
        ("cls:classify", "x", 400, "No signature was found with the name: x"),
        ("cls:regress", "x", 400, "No signature was found with the name: x"),
        (
            "rev:classify",
            "",
            400,
            f"Expected classification signature method_name to be {CLASSIFY}. Was: {PREDICT}",
        ),
        ("rev:regress", "align", 400, f"Expected regression signature method_name to be {REGRESS}. Was: {PREDICT}"),
        ("cls:regress", "", 400, f"Expected regression signature method_name to be {REGRESS}. Was: {CLASSIFY}"),
        ("cls:classify", "flat", 400, "Expected Tensor shape: [batch_size num_classes] but got [1]"),
        ("cls:classify", "doubles", 400, "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
        ("cls:classify", "uneven", 400, "Tensors class and score should match in dim_size(1). Got 1 vs. 2"),
        ("cls:classify", "misnamed", 400, "No classification inputs found in SignatureDef"),
        (
            "cls:classify",
            "empty",
            400,
            'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            "It has: probabilities",
        ),
        (
            "cls:regress",
            "wide",
            400,
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [1,2]",
        ),
        ("cls:regress", "long", 400, "Input batch size did not match output batch size: 1 vs. 2"),
        ("cls:regress", "whole", 400, "Expected output Tensor of DT_FLOAT.  Got: DT_INT32"),
        ("cls:regress", "unnamed", 400, "No regression outputs found in SignatureDef"),
    ],
)
def test_each_failure_has_tensorflow_servings_status_and_message(client, path, signature, status, message):
    document = {"signature_name": signature, "examples": [{"x": 1.5}]}
    response = client.post(f"/v1/models/{path}", json=document)
    assert response.json() == {"error": message}
    assert response.status_code == status


@pytest.mark.server
def test_a_classifier_that_loses_examples_is_found_out(client):
    document = {"signature_name": "short", "examples": [{"x": 1.5}, {"x": 2.5}]}
    response = client.post("/v1/models/cls:classify", json=document)
    assert response.json() == {"error": "Expected scores output batch size of 2. Got: 1"}


@pytest.mark.server
def test_the_limit_of_rows_holds_for_examples(client):
    response = client.post("/v1/models/cls:classify", json={"examples": [{}] * 6})
    assert response.status_code == 400
    assert response.json()["error"].startswith("Input examples has 6 rows, more than 5 (--max-batch-rows)")


@pytest.mark.server
def test_a_feature_of_another_type_gets_the_graphs_own_words(client):
    response = client.post("/v1/models/cls:classify", json={"examples": [{"x": 1}]})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith("Name: <unknown>, Key: x, Index: 0.  Data types don't match.")


@pytest.mark.server
def test_a_classifiers_signature_can_be_predicted_with_too(client):
    response = client.post("/v1/models/cls:predict", json={"signature_name": "regress", "instances": [{"b64": ""}]})
    assert response.json() == {"predictions": [0.0]}
