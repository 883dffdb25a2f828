"""``verify`` finds what is wrong with an export, and says what it was asked.

A small model in the contract's shape stands for an export. Each test breaks one thing in what a process said of it.
"""

import copy
import json
import re
import sys

import pytest
import tensorflow as tf

from nmt_keras.export import CONTRACT, Check, Verification, fresh_process, verify
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


def rename(ends, old, new):
    ends[new] = ends.pop(old)


def output(model, signature, feeds, name):
    """One output of the first reply to some feeds."""
    return named(model)[signature, feeds][0]["outputs"][name]


def widen(model):
    found = output(model, "score", "one word of 10,000 letters", "tokens")
    found["values"][0].append("")
    found["shape"][1] += 1


def set_nan(model):
    for reply in (named(model)["greedy", "together"][0], *named(model)["greedy", "each by itself"]):
        reply["outputs"]["score"]["values"][0] = float("nan")


BROKEN = {
    "a signature of another name": (
        lambda model: rename(model.facts["signatures"], "score", "scores"),
        ["score: missing", "scores: not in"],
    ),
    "an input of another name": (
        lambda model: rename(model.facts["signatures"]["score"]["inputs"], "target", "reference"),
        ["reference.*none.*string", "target.*string.*none"],
    ),
    "an operation that no package has": (
        lambda model: model.facts["foreign"].extend(["SentencepieceOp", "MyOwnOp"]),
        ["MyOwnOp"],
    ),
    "a function compiled by XLA": (lambda model: model.facts["compiled"].append("step_7"), ["step_7"]),
    "a device": (lambda model: model.facts["devices"].append("/device:GPU:0"), ["/device:GPU:0"]),
    "a variable without a value": (lambda model: model.facts["uninitialised"].append("w/kernel"), ["w/kernel"]),
    "a text that is not answered": (
        lambda model: named(model)["beam", "together"].__setitem__(0, {"error": "InternalError", "message": "no luck"}),
        ["beam.*together.*no luck"],
    ),
    "too many rows": (
        lambda model: output(model, "greedy", "none", "score").update(values=[0.5], shape=[1]),
        ["greedy.*none.*score.*1.*0"],
    ),
    "a reply wider than its longest sentence": (widen, ["score.*one word.*tokens.*7.*6"]),
    "a number that is none": (set_nan, ["greedy.*together.*score.*NaN", "greedy.*each by itself.*NaN"]),
}


@pytest.mark.parametrize(("break_it", "words"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_contract_is_named(model, break_it, words):
    break_it(model)
    found = [fault for some in faults(model).values() for fault in some]
    for word in words:
        assert any(re.search(word, fault) for fault in found), found


@pytest.mark.parametrize(
    ("end", "change", "received"),
    [
        ("score", {"dtype": "float64"}, "float64"),
        ("alignment", {"shape": [-1, -1, -1, -1]}, "rank 4"),
        ("truncated", {"shape": [1]}, "1 rows"),
        ("truncated", {"shape": []}, "rank 0"),
        ("log_prob", {"shape": None}, "any rank"),
    ],
)
def test_an_output_of_another_type_or_rank_is_named(model, end, change, received):
    model.facts["signatures"]["align"]["outputs"][end] |= change
    (((fault,)),) = faults(model).values()
    assert re.search(f"align.* {end}: .*received .*{received}", fault)


@pytest.mark.parametrize("operation", ["CudnnRNNV3", "XlaLaunch", "EagerPyFunc", "PyFunc", "TPUExecute", "TRTEngineOp"])
def test_an_operation_that_servers_lack_is_named(model, operation):
    model.facts["operations"].append(operation)
    (((fault,)),) = faults(model).values()
    assert operation in fault


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("reply", [{"outputs": {}}, {"error": "InternalError", "message": "oh"}])
def test_what_must_be_refused_as_invalid_is_neither_answered_nor_refused_otherwise(model, name, reply):
    named(model)["greedy", name][0] = reply
    ((fault,),) = faults(model).values()
    assert re.search(f"greedy.*{name}.*InvalidArgumentError", fault)


def test_bytes_that_are_no_utf_8_are_named(model):
    output(model, "greedy", "together", "translation")["values"][0] = "\udcff"
    assert any("UTF-8" in fault and "translation" in fault for some in faults(model).values() for fault in some)


@pytest.mark.parametrize(("name", "value"), [("translation", "another"), ("score", 17.0), ("truncated", False)])
def test_a_reply_that_depends_on_batch_mates_is_named(model, name, value):
    output(model, "serving_default", "together", name)["values"][3] = value
    ((fault,),) = faults(model).values()
    assert re.search(f"serving_default.*{name}.*No\\.", fault)


def test_rounding_is_no_dependence(model):
    output(model, "serving_default", "together", "score")["values"][3] += 1e-5
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


def test_a_report_has_a_line_per_check_after_the_libraries(folder, interpreter):
    found = verify(folder, interpreter())
    assert found.passed
    first, *lines = str(found).splitlines()
    assert tf.__version__ in first
    assert len(lines) == len(found.checks)
    assert all(line.startswith("ok ") for line in lines)


def test_a_report_of_a_fault_says_what_and_where(folder):
    fault = "bound to /device:GPU:0"
    found = Verification(folder, {}, [Check("devices", [fault]), Check("values", [])])
    assert not found.passed
    assert re.search(rf"FAILED +devices\n +{fault}\nok +values$", str(found))


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
    assert "SIGSEGV" in fault
    assert "trouble" in fault


def test_a_process_that_fails_is_a_fault_that_says_what_it_said(folder, interpreter):
    found = verify(folder, interpreter(0, then="echo no such module >&2; exit 3"))
    assert re.search("3.*no such module", str(found))


def test_a_process_that_hangs_is_stopped(folder, interpreter):
    found = verify(folder, interpreter(3, then="exec sleep 60"), seconds=1.0)
    ((fault,),) = [check.faults for check in found.checks]
    assert fault.startswith(f"{folder}, signature serving_default, asked")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="version_folder"):
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
