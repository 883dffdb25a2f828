"""``verify`` finds the faults of an export.

A small model with the contract's signatures stands in for an export. Each test changes one of its answers.
"""

import copy
import json
import re

import pytest
import tensorflow as tf

from nmt_keras.export import CONTRACT, verify
from nmt_keras.export.fresh_process import ask
from nmt_keras.export.verification import REFUSED, REQUESTS, checks, named

pytestmark = pytest.mark.long


def echo(signature):
    """Returns a function with the contract's signature. Each token is the beginning of the text."""
    inputs = [tf.TensorSpec([None], tf.string, name=name) for name in CONTRACT[signature].inputs]

    def answer(*texts):
        text = tf.ensure_shape(texts[0], [None])
        known = tf.strings.unicode_transcode(tf.strings.substr(text, 0, 20), "UTF-8", "UTF-8", errors="replace")
        lengths = 1 + tf.minimum(tf.strings.length(known), 5)
        width = tf.reduce_max(tf.pad(lengths, [[0, 1]], constant_values=1))
        sizes = {"B": tf.size(text), "K": 2, "N": 2, "T": width, "S": width}
        found = {}
        for name, output in CONTRACT[signature].outputs.items():
            value = known if output.dtype == "string" else tf.cast(lengths, output.dtype)
            column = tf.reshape(value, [-1, *[1] * (len(output.axes) - 1)])
            if name == "alignment":
                column = tf.one_hot(0, sizes["S"])
            found[name] = tf.broadcast_to(column, [sizes[axis] for axis in output.axes])
        return found

    return tf.function(answer, input_signature=inputs, autograph=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "1"
    tf.saved_model.save(tf.Module(), str(folder), signatures={name: echo(name) for name in CONTRACT})
    return folder


@pytest.fixture(scope="module")
def sound(folder):
    """The answers of the model."""
    return ask(folder, list(REQUESTS.values()))


@pytest.fixture
def answers(sound):
    """A copy of the answers. Tests may change it."""
    return copy.deepcopy(sound)


def faults(answers):
    return [fault for each in checks(answers).values() for fault in each]


def test_a_model_that_keeps_the_contract_passes_every_check(answers):
    assert faults(answers) == []


def set_type(end, found):
    return lambda answers: answers.facts["signatures"].update({f"align, output {end}": found})


def add_fact(name, value):
    return lambda answers: answers.facts[name].append(value)


def set_reply(signature, feeds, reply):
    return lambda answers: named(answers)[signature, feeds].__setitem__(0, reply)


BROKEN = {
    "a missing input": (
        lambda answers: answers.facts["signatures"].pop("score, input target"),
        "score.*target: expected string.*, received none",
    ),
    "another dtype": (set_type("score", "float64[?]"), r"align.*score: expected float32.*, received float64"),
    "another rank": (set_type("truncated", "bool[]"), r"align.*truncated: expected bool\[\?\], received bool\[\]"),
    "fixed rows": (set_type("truncated", "bool[1]"), r"align.*truncated: .*received bool\[1\]"),
    "unknown operation": (add_fact("foreign", "MyOwnOp"), "MyOwnOp"),
    **{
        operation: (add_fact("operations", operation), operation)
        for operation in ("CudnnRNNV3", "XlaLaunch", "EagerPyFunc", "PyFunc", "TPUExecute", "TRTEngineOp")
    },
    "compiled by XLA": (add_fact("compiled", "step_7"), "step_7"),
    "another device": (add_fact("devices", "/device:GPU:0"), "/device:GPU:0"),
    "failure": (
        set_reply("beam", "together", {"error": "InternalError", "message": "no luck"}),
        "beam, together: no luck",
    ),
    **{
        f"{feeds}: {reply.get('error', 'answered')}": (set_reply("greedy", feeds, reply), f"greedy, {feeds}: ")
        for feeds in REFUSED
        for reply in ({"outputs": {}}, {"error": "InternalError", "message": "oh"})
    },
}


@pytest.mark.parametrize(("break_it", "fault"), BROKEN.values(), ids=BROKEN)
def test_a_fault_is_found_and_named(answers, break_it, fault):
    break_it(answers)
    assert re.search(fault, "\n".join(faults(answers)))


# The process


@pytest.fixture
def interpreter(tmp_path, sound):
    """Creates a program that prints the first lines of the answers and then runs a shell command."""

    def make(count=None, then="exit 0"):
        lines = [sound.libraries, sound.facts, *sound.replies][:count]
        (tmp_path / "lines").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/lines\n{then}\n")
        program.chmod(0o755)
        return program

    return make


def test_the_first_check_names_the_libraries_of_the_process(folder, interpreter):
    first, *_ = found = verify(folder, interpreter())
    assert f"tensorflow {tf.__version__}" in first
    assert not any(found.values())


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (0, "importing TensorFlow"),
        (1, "loading {folder}"),
        (2, "request [['¿Dónde está mi hermana?'"),
        (2 + len(REQUESTS), "shutdown"),
    ],
)
def test_a_process_that_dies_is_a_fault_with_step_and_reason(folder, interpreter, lines, where):
    found = verify(folder, interpreter(lines, then="echo trouble >&2; kill -SEGV $$"))
    ((fault,),) = found.values()
    assert fault.startswith(where.format(folder=folder))
    assert re.search("SIGSEGV.*trouble", fault)


def test_a_process_that_hangs_is_stopped(folder, interpreter):
    found = verify(folder, interpreter(3, then="exec sleep 60"), seconds=1.0)
    ((fault,),) = found.values()
    assert re.search(f"^request .* to signature serving_default of {folder}: .*1.0 seconds", fault)


def test_a_folder_without_a_model_and_a_missing_interpreter_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="version_folder"):
        verify(tmp_path)
    with pytest.raises(FileNotFoundError, match="no-python"):
        verify(folder, "/nowhere/no-python")
