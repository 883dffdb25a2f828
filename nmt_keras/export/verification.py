"""Whether an export is what TensorFlow Serving needs: asked in a fresh process, by names of feeds and fetches."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt_keras.export.contract import CONTRACT, WIDTHS, Output
from nmt_keras.export.fresh_process import Answered, Request, ask

STRANGE = ("¿Dónde está mi hermana?", "", "   ", "No.", "😀 👨‍👩‍👧 🇪🇸", "palabra " * 1250, "\udcff\udcc3(\udce2\udc82")
"""Texts that somebody will send; the last is no UTF-8."""

FEEDS: Mapping[str, list[Any]] = {
    "together": [list(STRANGE)],
    "each by itself": [[text] for text in STRANGE],
    "one word of 10,000 letters": [["a" * 10_000]],
    "none": [[]],
    "a scalar": ["hola"],
    "rows of rows": [[["hola", "adiós"]]],
    "integers": [[1, 2]],
}
"""What each signature is asked, by name; the feeds of a name are asked at once."""

REFUSED = ("a scalar", "rows of rows", "integers")

TEXT_OPERATIONS = {
    "NormalizeUTF8",
    "CaseFoldUTF8",
    "RegexSplitWithOffsets",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
}
"""Of tensorflow-text, what every TensorFlow Serving since 2.12 links."""

NOT_SERVED = re.compile("cudnn|xla|tpu|nccl|collective|mkl|pyfunc|pyfunction|tensorrt|trt", re.IGNORECASE)
"""Operations of TensorFlow that a server lacks: other devices' kernels, other compilers', and calls into Python."""

TOLERANCE = 1e-3
"""Nats: products of another size are rounded otherwise."""


class Check(NamedTuple):
    """One thing that was looked at."""

    what: str
    faults: list[str]  # none if it is as it should be


class Verification(NamedTuple):
    """What ``verify`` found."""

    folder: Path
    libraries: dict[str, str]  # their versions in the process that ran the export
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether everything is as it should be."""
        return not any(check.faults for check in self.checks)

    def __str__(self) -> str:
        """A line per check, and one for each fault."""
        libraries = ", ".join(f"{name} {version}" for name, version in self.libraries.items()) or "no library"
        lines = [f"{self.folder}, in a process with {libraries}"]
        for check in self.checks:
            lines.append(f"{'FAILED' if check.faults else 'ok':8}{check.what}")
            lines += [f"        {fault}" for fault in check.faults]
        return "\n".join(lines)


def verify(version_folder: Path, python: str | PathLike[str] = sys.executable, seconds: float = 600.0) -> Verification:
    """Loads an export in a fresh process, without Keras and without this package, and holds it to ``CONTRACT``.

    Args:
        version_folder: saved_models/NAME/VERSION.
        python: an interpreter that has TensorFlow and tensorflow-text: this one, or that of the release which serves.
        seconds: until the process is stopped.

    Returns:
        What was checked; never raises for a fault of the export.

    Raises:
        FileNotFoundError: there is no such folder or interpreter.
    """
    if not (version_folder / "saved_model.pb").is_file():
        raise FileNotFoundError(
            f"version_folder: expected an exported version, which has a saved_model.pb, received {version_folder}. "
            "Pass saved_models/NAME/VERSION."
        )
    runs = "runs in a process without Keras and the code that made it"
    try:
        answers = ask([version_folder], requests(), python, seconds)
    except RuntimeError as error:
        return Verification(version_folder, {}, [Check(runs, [str(error)])])
    (model,) = answers.models
    return Verification(version_folder, answers.libraries, [Check(runs, []), *checks(model)])


def requests() -> list[Request]:
    """What is asked of an export: every signature, every feed, in the order of ``named``."""
    return [
        Request(signature, feeds, "int64" if name == "integers" else "string")
        for signature in CONTRACT
        for name, feeds in FEEDS.items()
    ]


Replies = Mapping[tuple[str, str], list[dict[str, Any]]]
"""What a model replied to each feed, by signature and name of the feeds."""


def named(model: Answered) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The replies to ``requests()``, by signature and name of the feeds."""
    return dict(zip([(signature, name) for signature in CONTRACT for name in FEEDS], model.replies, strict=True))


def checks(model: Answered) -> list[Check]:
    """What a model that was asked ``requests()`` is held to; a check comes after those that it relies on."""
    facts, replies = model.facts, named(model)
    shapes = Check("signatures, names, types and ranks are the contract's", _signature_faults(facts))
    if shapes.faults:
        return [shapes]
    answered = {key: found for key, found in replies.items() if key[1] not in REFUSED}
    refused = {key: found for key, found in replies.items() if key[1] in REFUSED}
    all_answered = Check(
        "every text is answered: blank, emoji, no UTF-8, 10,000 letters; and none at all",
        [f"{_at(key)}: {reply['message']}" for key, found in answered.items() for reply in found if "error" in reply],
    )
    found = [
        shapes,
        Check("no operation that TensorFlow Serving lacks: XLA, cuDNN, Python", _operation_faults(facts)),
        Check("nothing compiled by XLA", [f"compiled: {name}" for name in facts["compiled"]]),
        Check("nothing bound to another device than the CPU", _device_faults(facts)),
        Check("every variable and table has a value", [f"no value: {name}" for name in facts["uninitialised"]]),
        Check("scalars, rows of rows and numbers are refused as invalid", list(_refusal_faults(refused))),
        all_answered,
    ]
    if all_answered.faults:
        return found
    return [
        *found,
        Check("replies have a row for each text", list(_row_faults(answered))),
        Check("replies are well-formed: UTF-8, numbers", list(_value_faults(answered))),
        Check("replies are as wide as their longest sentence", list(_width_faults(answered))),
        Check("replies do not depend on batch-mates", list(_batch_mate_faults(answered))),
    ]


def _at(key: tuple[str, str]) -> str:
    return f"{key[0]}, asked {key[1]}"


def _signature_faults(facts: Mapping[str, Any]) -> list[str]:
    """What differs from ``CONTRACT``."""
    found, faults = facts["signatures"], []
    for name in sorted(CONTRACT.keys() | found.keys()):
        if name not in found or name not in CONTRACT:
            faults.append(f"signature {name}: {'missing' if name not in found else 'not in the contract'}")
            continue
        wanted = {
            "inputs": dict.fromkeys(CONTRACT[name].inputs, Output("string", "B", "")),
            "outputs": CONTRACT[name].outputs,
        }
        for ends, declared in wanted.items():
            for end in sorted(declared.keys() | found[name][ends].keys()):
                expected = _type(declared.get(end))
                received = _type_of(found[name][ends].get(end))
                if expected != received:
                    faults.append(f"signature {name}, {ends} {end}: expected {expected}, received {received}")
    return faults


def _type(output: Output | None) -> str:
    return f"{output.dtype} of rank {len(output.axes)}, any number of rows" if output else "none"


def _type_of(end: Mapping[str, Any] | None) -> str:
    if end is None:
        return "none"
    if not end["shape"]:
        return f"{end['dtype']} of {'any rank' if end['shape'] is None else 'rank 0'}"
    rows = "any number of" if end["shape"][0] == -1 else end["shape"][0]
    return f"{end['dtype']} of rank {len(end['shape'])}, {rows} rows"


def _operation_faults(facts: Mapping[str, Any]) -> list[str]:
    faults = [f"not served: {operation}" for operation in facts["operations"] if NOT_SERVED.search(operation)]
    unknown = sorted(set(facts["foreign"]) - TEXT_OPERATIONS)
    return faults + [f"neither TensorFlow's nor one of tensorflow-text's that are linked: {name}" for name in unknown]


def _device_faults(facts: Mapping[str, Any]) -> list[str]:
    return [f"bound to {device}" for device in facts["devices"] if not re.search("/device:CPU:", device)]


def _refusal_faults(refused: Replies) -> Iterator[str]:
    for key, found in refused.items():
        for reply in found:
            if reply.get("error") != "InvalidArgumentError":
                yield f"{_at(key)}: expected InvalidArgumentError, received {reply.get('error', 'an answer')}"


def _row_faults(answered: Replies) -> Iterator[str]:
    for key, output, values, feed in _outputs(answered):
        if values.shape[0] != len(feed):
            yield f"{_at(key)}: {output} has {values.shape[0]} rows for {len(feed)} texts"


def _value_faults(answered: Replies) -> Iterator[str]:
    for key, output, values, _ in _outputs(answered):
        if values.dtype == object:
            if any(re.search("[\udc80-\udcff]", text) for text in values.ravel()):
                yield f"{_at(key)}: {output} holds bytes that are no UTF-8"
        elif np.isnan(values).any():
            yield f"{_at(key)}: {output} holds NaN"


def _width_faults(answered: Replies) -> Iterator[str]:
    for key, found in answered.items():
        for reply in found:
            columns = {name: _array(name, key[0], reply) for name in CONTRACT[key[0]].outputs}
            for axis, names in WIDTHS.items():
                lengths = next((columns[name] for name in names if name in columns), None)
                if lengths is None or not lengths.size:
                    continue
                for name, output in CONTRACT[key[0]].outputs.items():
                    width = columns[name].shape[output.axes.index(axis)] if axis in output.axes else lengths.max()
                    if width != lengths.max():
                        yield f"{_at(key)}: {name} is {width} wide where the longest has {lengths.max()}"


def _batch_mate_faults(answered: Replies) -> Iterator[str]:
    """Each of the strange texts by itself, asked at the same time as the others, against all of them in one request."""
    for signature, contract in CONTRACT.items():
        (together,) = answered[signature, "together"]
        for row, reply in enumerate(answered[signature, "each by itself"]):
            for name in contract.outputs:
                alone = _array(name, signature, reply)
                rows = _array(name, signature, together)[row : row + 1]
                among = rows[tuple(slice(size) for size in alone.shape)]
                if not _alike(alone, among):
                    yield f"signature {signature}, {name} of {STRANGE[row][:30]!r}: alone {alone}, among others {among}"


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype.kind == "f":
        return one.shape == other.shape and np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
    return np.array_equal(one, other)


def _outputs(answered: Replies) -> Iterator[tuple[tuple[str, str], str, np.ndarray, list[str]]]:
    """Every output of every reply, with the feed that it answers."""
    for key, found in answered.items():
        for reply, feed in zip(found, FEEDS[key[1]], strict=True):
            for name in CONTRACT[key[0]].outputs:
                yield key, name, _array(name, key[0], reply), feed


def _array(name: str, signature: str, reply: Mapping[str, Any]) -> np.ndarray:
    """One output of a reply, with the type and shape it had."""
    dtype = CONTRACT[signature].outputs[name].dtype
    values = reply["outputs"][name]
    return np.array(values["values"], object if dtype == "string" else dtype).reshape(values["shape"])
