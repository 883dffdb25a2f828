"""The C++ example compiles with the documented command, and answers as a session in Python and as a server does."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from nmt_keras.export.fresh_process import Request, ask
from serve.conformance import successes
from serve.conformance.server import Server
from serve.limits import Limits
from serve.models.signature import TensorSpec
from serve.rest.codec import read_inputs, read_request, write_outputs

pytestmark = [pytest.mark.cpp, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
VERSION = ROOT / "saved_models" / "spa-eng" / "1"
(COMPILE,) = re.findall(r"^## Use from C\+\+\n.*?```sh\n(.*?)```", (ROOT / "serve/README.md").read_text(), re.M | re.S)


@pytest.fixture(scope="module", params=["installed", pytest.param("tf220", marks=pytest.mark.tf220)])
def python(request):
    """An interpreter with TensorFlow: this one, or one with TensorFlow 2.20.0, which TensorFlow Serving contains."""
    return Path(sys.executable) if request.param == "installed" else request.getfixturevalue("python_of_serving")


@pytest.fixture(scope="module")
def translate(python, tmp_path_factory):
    """Runs the compiled example: signature and texts to outputs, or the error that it prints."""
    folder = tmp_path_factory.mktemp("cpp")
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    command = COMPILE.replace("serve/cpp/", f"{ROOT}/serve/cpp/")
    subprocess.run(["bash", "-euc", command], cwd=folder, env=environment, check=True)

    @functools.cache
    def translate(signature, *texts):
        command = [folder / "translate", VERSION, signature, *texts]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.splitlines()[-1]

    return translate


TEXTS = ["¿Todavía están en casa?", 'Dijo: "No\\sí".', "", "!"]


def test_its_answers_are_those_of_a_session_in_python(translate, python):
    signatures = ("greedy", "beam", "text", "align", "serving_default")
    replies = ask(VERSION, [Request(name, [TEXTS]) for name in signatures], python).replies
    for signature, (reply,) in zip(signatures, replies, strict=True):
        outputs = translate(signature, *TEXTS)
        assert outputs.keys() == reply["outputs"].keys()
        for name, output in reply["outputs"].items():
            found, wanted = np.array(outputs[name]), np.array(output["values"])
            same = np.testing.assert_allclose if wanted.dtype.kind == "f" else np.testing.assert_array_equal
            same(found, wanted, err_msg=f"{signature}, {name}")


@pytest.mark.parametrize("check", ["rows", "columns", "empty_batch", "base64_in", "alignment"])
def test_it_passes_the_conformance_checks_that_need_no_server(translate, check):
    def respond(request):
        document = read_request(request.content, Limits().max_values)
        inputs = read_inputs(document, {"text": TensorSpec("string", (None,))}, Limits())
        texts = [text.decode() for text in inputs.tensors["text"]]
        found = translate(document.signature_name or "serving_default", *texts)
        arrays = {name: np.array(values) for name, values in found.items()}
        outputs = {
            name: np.char.encode(array, "utf-8").astype(object) if array.dtype.kind == "U" else array
            for name, array in arrays.items()
        }
        content = write_outputs(outputs, inputs.layout)
        return httpx.Response(200, headers={"Content-Type": "application/json"}, content=content)

    with httpx.Client(base_url="http://cpp", transport=httpx.MockTransport(respond)) as http:
        getattr(successes, check)(Server(http, "spa-eng", 1))


def test_a_missing_model_or_input_is_an_error_of_one_line(translate):
    assert translate("score", "No.") == "translate: SIGNATURE must have the input text, received score"
