"""``verify`` finds what is wrong with an export, and says what it was asked.

A small model in the contract's shape stands for an export. Each test breaks one thing in what a process said of it.
"""

import copy
import json
import sys

import pytest
import tensorflow as tf

from nmt_keras.export import CONTRACT, fresh_process, verify
from nmt_keras.export.fresh_process import ask
from nmt_keras.export.verification import FEEDS, REFUSED, checks, named, requests

pytestmark = pytest.mark.saved_model

HYPOTHESES = 2


def echo(signature):
    """A function of the contract's signature whose every token is the first letter of the text."""
    inputs = [tf.TensorSpec([None], tf.string, name=name) for name in CONTRACT[signature].inputs]

    def answer(*texts):
        text = tf.ensure_shape(texts[0], [None])
        known = tf.strings.unicode_transcode(tf.strings.substr(text, 0, 20), "UTF-8", "UTF-8", errors="replace")
        lengths = 1 + tf.minimum(tf.strings.length(known), 5)
        width = tf.reduce_max(tf.pad(lengths, [[0, 1]], constant_values=1))
        found = {}
        for name, output in CONTRACT[signature].outputs.items():
            sizes = {"B": tf.size(text), "K": HYPOTHESES, "T": width, "S": width}
            rank = [1] * (len(output.axes) - 1)
            value = known if output.dtype == "string" else tf.cast(lengths, output.dtype)
            found[name] = tf.broadcast_to(tf.reshape(value, [-1, *rank]), [sizes[axis] for axis in output.axes])
        return found

    return tf.function(answer, input_signature=inputs, autograph=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "1"
    tf.saved_model.save(tf.Module(), str(folder), signatures={name: echo(name) for name in CONTRACT})
    return folder


@pytest.fixture(scope="module")
def said(folder):
    """What a process says of the model: the whole of its output."""
    answers = ask([folder], requests())
    (model,) = answers.models
    return answers.libraries, model


@pytest.fixture
def model(said):
    """The same, to be broken."""
    return copy.deepcopy(said[1])


def faults(model):
    return {check.what: check.faults for check in checks(model) if check.faults}


def test_what_keeps_the_contract_passes_every_check(model):
    assert faults(model) == {}
    assert len(checks(model)) == 11


def test_a_signature_that_is_missing_or_that_nobody_knows_is_named(model):
    signatures = model.facts["signatures"]
    signatures["scores"] = signatures.pop("score")
    assert faults(model) == {
        "signatures, names, types and ranks are the contract's": [
            "signature score: missing",
            "signature scores: not in the contract",
        ]
    }


@pytest.mark.parametrize(
    ("end", "change", "expected", "received"),
    [
        ("score", {"dtype": "float64"}, "float32 of rank 1", "float64 of rank 1, any number of rows"),
        ("alignment", {"shape": [-1, -1, -1, -1]}, "float32 of rank 3", "float32 of rank 4, any number of rows"),
        ("truncated", {"shape": [1]}, "bool of rank 1", "bool of rank 1, 1 rows"),
        ("truncated", {"shape": []}, "bool of rank 1", "bool of rank 0"),
        ("log_prob", {"shape": None}, "float32 of rank 1", "float32 of any rank"),
    ],
)
def test_an_output_of_another_type_or_rank_is_named(model, end, change, expected, received):
    model.facts["signatures"]["align"]["outputs"][end] |= change
    (((fault,)),) = faults(model).values()
    wanted = f"signature align, outputs {end}: expected {expected}, any number of rows, received {received}"
    assert fault == wanted


def test_an_input_that_is_missing_or_that_nobody_knows_is_named(model):
    inputs = model.facts["signatures"]["score"]["inputs"]
    inputs["reference"] = inputs.pop("target")
    ((unknown, missing),) = faults(model).values()
    assert unknown == "signature score, inputs reference: expected none, received string of rank 1, any number of rows"
    assert missing == "signature score, inputs target: expected string of rank 1, any number of rows, received none"


@pytest.mark.parametrize("operation", ["CudnnRNNV3", "XlaLaunch", "EagerPyFunc", "PyFunc", "TPUExecute", "TRTEngineOp"])
def test_an_operation_that_servers_lack_is_named(model, operation):
    model.facts["operations"].append(operation)
    assert list(faults(model).values()) == [[f"not served: {operation}"]]


def test_a_foreign_operation_is_named_unless_tensorflow_serving_links_it(model):
    model.facts["foreign"] += ["SentencepieceOp", "MyOwnOp"]
    assert list(faults(model).values()) == [
        ["neither TensorFlow's nor one of tensorflow-text's that are linked: MyOwnOp"]
    ]


@pytest.mark.parametrize(
    ("fact", "value", "fault"),
    [
        ("compiled", "step_7", "compiled: step_7"),
        ("devices", "/device:GPU:0", "bound to /device:GPU:0"),
        ("uninitialised", "decoder/kernel", "no value: decoder/kernel"),
    ],
)
def test_what_is_compiled_bound_or_without_a_value_is_named(model, fact, value, fault):
    model.facts[fact].append(value)
    assert list(faults(model).values()) == [[fault]]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("reply", [{"outputs": {}}, {"error": "InternalError", "message": "oh"}])
def test_what_must_be_refused_as_invalid_is_neither_answered_nor_refused_otherwise(model, name, reply):
    named(model)["greedy", name][0] = reply
    ((fault,),) = faults(model).values()
    assert fault == f"greedy, asked {name}: expected InvalidArgumentError, received {reply.get('error', 'an answer')}"


def test_a_text_that_is_not_answered_is_named_with_the_error(model):
    named(model)["beam", "together"][0] = {"error": "InternalError", "message": "out of luck"}
    assert list(faults(model).values()) == [["beam, asked together: out of luck"]]


def test_too_few_rows_are_named(model):
    found = named(model)["greedy", "none"][0]["outputs"]["score"]
    found["values"], found["shape"] = [0.5], [1]
    assert faults(model)["replies have a row for each text"] == ["greedy, asked none: score has 1 rows for 0 texts"]


def test_bytes_that_are_no_utf_8_are_named(model):
    named(model)["greedy", "together"][0]["outputs"]["translation"]["values"][0] = "\udcff"
    found = faults(model)
    assert found["replies are well-formed: UTF-8, numbers"] == [
        "greedy, asked together: translation holds bytes that are no UTF-8"
    ]


def test_nan_is_named(model):
    for reply in (named(model)["greedy", "together"][0], *named(model)["greedy", "each by itself"]):
        reply["outputs"]["score"]["values"][0] = float("nan")
    assert "greedy, asked together: score holds NaN" in faults(model)["replies are well-formed: UTF-8, numbers"]


def test_a_reply_that_is_wider_than_its_longest_sentence_is_named(model):
    found = named(model)["score", "one word of 10,000 letters"][0]["outputs"]["tokens"]
    found["values"][0].append("")
    found["shape"][1] += 1
    assert list(faults(model).values()) == [
        ["score, asked one word of 10,000 letters: tokens is 7 wide where the longest has 6"]
    ]


@pytest.mark.parametrize(("output", "value"), [("translation", "another"), ("score", 17.0), ("truncated", False)])
def test_a_reply_that_depends_on_batch_mates_is_named(model, output, value):
    named(model)["serving_default", "together"][0]["outputs"][output]["values"][3] = value
    ((fault,),) = faults(model).values()
    assert fault.startswith(f"signature serving_default, {output} of 'No.': alone ")


def test_rounding_is_no_dependence(model):
    values = named(model)["serving_default", "together"][0]["outputs"]["score"]["values"]
    values[3] += 1e-5
    assert faults(model) == {}


# The process


@pytest.fixture
def interpreter(tmp_path, said):
    """Makes a program that says what the process said, line by line, and then does as it is told."""
    libraries, model = said
    lines = [libraries, model.facts, *model.replies]

    def make(count=None, then="exit 0"):
        (tmp_path / "lines").write_text("".join(f"{json.dumps(line)}\n" for line in lines[:count]))
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/lines\n{then}\n")
        program.chmod(0o755)
        return program

    return make


def test_a_report_has_a_line_per_check(folder, interpreter):
    found = verify(folder, interpreter())
    assert found.passed
    lines = str(found).splitlines()
    assert (
        lines[0]
        == f"{folder}, in a process with tensorflow {tf.__version__}, tensorflow-text "
        + (found.libraries["tensorflow-text"])
    )
    assert lines[1] == "ok      runs in a process without Keras and the code that made it"
    assert len(lines) == 13
    assert all(line.startswith("ok ") for line in lines[1:])


def test_a_report_of_a_fault_says_what_and_where(folder, interpreter, said):
    said[1].facts["devices"].append("/device:GPU:0")
    try:
        found = verify(folder, interpreter())
    finally:
        said[1].facts["devices"].remove("/device:GPU:0")
    assert not found.passed
    assert "FAILED  nothing bound to another device than the CPU\n        bound to /device:GPU:0\n" in str(found)


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (0, "importing TensorFlow"),
        (1, "loading {folder}"),
        (2, "{folder}, signature serving_default, asked [['¿Dónde está mi hermana?'"),
        (1 + 1 + len(CONTRACT) * len(FEEDS), "ending"),
    ],
)
def test_a_process_that_dies_is_a_fault_that_says_of_what_and_at_what(folder, interpreter, lines, where):
    found = verify(folder, interpreter(lines, then="echo trouble >&2; kill -SEGV $$"))
    ((fault,),) = [check.faults for check in found.checks]
    assert fault.startswith(where.format(folder=folder))
    assert fault.endswith("the process ended with SIGSEGV. trouble")


def test_a_process_that_fails_is_a_fault_that_says_what_it_said(folder, interpreter):
    found = verify(folder, interpreter(0, then="echo no such module >&2; exit 3"))
    assert "the process ended with exit code 3. no such module" in str(found)


def test_a_process_that_hangs_is_stopped(folder, interpreter):
    found = verify(folder, interpreter(3, then="exec sleep 60"), seconds=1.0)
    ((fault,),) = [check.faults for check in found.checks]
    assert fault.startswith(f"{folder}, signature serving_default, asked")
    assert fault.endswith("expected an answer within 1 s, received none.")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"version_folder: expected an exported version"):
        verify(tmp_path)


def test_an_interpreter_that_is_not_there_is_refused(folder):
    with pytest.raises(FileNotFoundError, match="no-python"):
        verify(folder, "/nowhere/no-python")


def test_a_process_has_neither_keras_nor_this_package(tmp_path):
    """In the very process: what stands in for the script tries to import them."""
    script = tmp_path / "script.py"
    script.write_text(
        "import json\n"
        "for name in ('keras', 'nmt_keras', 'serve', 'tf_keras'):\n"
        "    try:\n"
        "        __import__(name)\n"
        "    except ImportError:\n"
        "        continue\n"
        "    raise SystemExit(name)\n"
        "print(json.dumps({'tensorflow': '0'}))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh_process, "SCRIPT", script)
        assert ask([], [], sys.executable).libraries == {"tensorflow": "0"}
