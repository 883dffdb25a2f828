"""The C++ example compiles with the documented command, and answers as a session in Python does."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servers import ROOT

from nmt_keras.export.fresh_process import Request, ask

pytestmark = [pytest.mark.cpp, pytest.mark.slow]

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
    assert translate("serving_default") == {"translation": [], "score": [], "truncated": []}


def test_a_missing_model_or_input_is_an_error_of_one_line(translate):
    assert translate("score", "No.") == "translate: SIGNATURE must have the input text, received score"
