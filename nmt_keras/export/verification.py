"""Checks in a new process that TensorFlow Serving can serve an export."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt_keras.config import require
from nmt_keras.export.contract import CONTRACT, LENGTHS
from nmt_keras.export.fresh_process import Answers, Request, ask

STRANGE = ("¿Dónde está mi hermana?", "", "   ", "No.", "😀 👨‍👩‍👧 🇪🇸", "palabra " * 1250, "\udcff\udcc3(\udce2\udc82")
"""Difficult texts. The last one is not UTF-8."""

SENTENCES, GAPS = ("No.", "¿Qué?", "3.5"), ("\n\n", " ", "")
"""Sentences of a text, and the white space after them."""

FEEDS: Mapping[str, list[Any]] = {
    "together": [list(STRANGE)],
    "each by itself": [[text] for text in STRANGE],
    "one word of 10,000 letters": [["a" * 10_000]],
    "a text": [["".join(map("".join, zip(SENTENCES, GAPS, strict=True)))]],
    "its sentences": [list(SENTENCES)],
    "none": [[]],
    "a scalar": ["hola"],
    "a matrix": [[["hola", "adiós"]]],
    "integers": [[1, 2]],
}
"""Feeds for each signature, by name. The feeds of one name are sent concurrently."""

REFUSED = ("a scalar", "a matrix", "integers")

REQUESTS: Mapping[tuple[str, str], Request] = {
    (signature, name): Request(signature, feeds, "int64" if name == "integers" else "string")
    for signature in CONTRACT
    for name, feeds in FEEDS.items()
}
"""Requests to an export, by signature and name of the feeds."""

TEXT_OPERATIONS = {
    "NormalizeUTF8",
    "CaseFoldUTF8",
    "RegexSplitWithOffsets",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
}
"""Operations of tensorflow-text that every TensorFlow Serving since 2.12 links."""

NOT_SERVED = re.compile("cudnn|xla|tpu|nccl|collective|mkl|pyfunc|pyfunction|tensorrt|trt", re.IGNORECASE)
"""Operations that a server lacks: kernels of other devices, other compilers, and calls into Python."""

TOLERANCE = 1e-3
"""Relative and absolute tolerance of floats, in nats for log-probabilities. Rounding depends on the batch size."""


class Check(NamedTuple):
    """Result of one check."""

    what: str
    faults: list[str]  # empty if the check passed


class Verification(NamedTuple):
    """Result of ``verify``."""

    folder: Path
    libraries: dict[str, str]  # versions in the process that ran the export
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """``True`` if no check found a fault."""
        return not any(check.faults for check in self.checks)

    def __str__(self) -> str:
        """Returns one line per check, followed by its faults."""
        libraries = ", ".join(map(" ".join, self.libraries.items())) or "no library"
        lines = [f"{self.folder}, in a process with {libraries}"]
        for check in self.checks:
            lines.append(f"{'FAILED' if check.faults else 'ok':8}{check.what}")
            lines += [f"        {fault}" for fault in check.faults]
        return "\n".join(lines)


def verify(version_folder: Path, python: str | PathLike[str] = sys.executable, seconds: float = 600.0) -> Verification:
    """Loads an export in a new process, without Keras and this package, and compares it with ``CONTRACT``.

    Args:
        version_folder: ``saved_models/NAME/VERSION``.
        python: Interpreter with TensorFlow and tensorflow-text, ideally of the release that will serve the export.
        seconds: Time limit of the process.

    Returns:
        Results of all checks, with the faults of the export. A fault raises no exception.

    Raises:
        ValueError: ``version_folder`` is not an exported version.
        FileNotFoundError: the interpreter does not exist.
    """
    found = version_folder / "saved_model.pb"
    require(found.is_file(), "version_folder", "saved_models/NAME/VERSION with a saved_model.pb", str(version_folder))
    runs = "runs in a process without Keras and nmt_keras"
    try:
        answers = ask(version_folder, list(REQUESTS.values()), python, seconds)
    except RuntimeError as error:
        return Verification(version_folder, {}, [Check(runs, [str(error)])])
    return Verification(version_folder, answers.libraries, [Check(runs, []), *checks(answers)])


Replies = Mapping[tuple[str, str], list[dict[str, Any]]]
"""Replies to each feed, by signature and name of the feeds."""


def named(answers: Answers) -> Replies:
    """Returns the replies to ``REQUESTS``."""
    return dict(zip(REQUESTS, answers.replies, strict=True))


def checks(answers: Answers) -> list[Check]:
    """Returns the results of all checks. A check is skipped if a check that it depends on fails."""
    facts, replies = answers.facts, named(answers)
    types = Check("signatures, names, types and ranks match the contract", _type_faults(facts["signatures"]))
    if types.faults:
        return [types]
    answered = {key: found for key, found in replies.items() if key[1] not in REFUSED}
    errors = [(key, one.get("error")) for key, found in replies.items() if key[1] in REFUSED for one in found]
    all_answered = Check(
        "every text is answered: blank, emoji, not UTF-8, 10,000 letters; and an empty batch",
        [f"{', '.join(key)}: {one['message']}" for key, found in answered.items() for one in found if "error" in one],
    )
    results = [
        types,
        Check(
            "no operation that TensorFlow Serving lacks, such as XLA, cuDNN, Python",
            [name for name in facts["operations"] if NOT_SERVED.search(name)]
            + [f"{name} is not linked" for name in facts["foreign"] if name not in TEXT_OPERATIONS],
        ),
        Check("no function is compiled by XLA", facts["compiled"]),
        Check(
            "no operation needs a device other than the CPU", [d for d in facts["devices"] if "/device:CPU:" not in d]
        ),
        Check("every variable and table has a value", facts["uninitialised"]),
        Check(
            "scalars, matrices and numbers are refused as invalid",
            [f"{', '.join(key)}: received {error}" for key, error in errors if error != "InvalidArgumentError"],
        ),
        all_answered,
    ]
    if all_answered.faults:
        return results
    outputs = {key: [arrays(key[0], one) for one in found] for key, found in answered.items()}
    return [
        *results,
        Check("replies have a row for each text and no superfluous padding", list(_shape_faults(outputs))),
        Check("replies contain neither invalid UTF-8 nor numbers that JSON lacks", list(_value_faults(outputs))),
        Check("the attention weights of each target token sum to 1", list(_alignment_faults(outputs))),
        Check("replies do not depend on the rest of the batch", list(_batch_mate_faults(outputs))),
        Check("a text is translated like its sentences", list(_text_faults(outputs))),
    ]


def _type_faults(found: Mapping[str, str]) -> list[str]:
    wanted: dict[str, str] = {}
    for name, signature in CONTRACT.items():
        wanted |= {f"{name}, input {end}": "string[?]" for end in signature.inputs}
        for end, output in signature.outputs.items():
            wanted[f"{name}, output {end}"] = f"{output.dtype}[{','.join('?' for _ in output.axes)}]"
    return [
        f"signature {end}: expected {wanted.get(end, 'none')}, received {found.get(end, 'none')}"
        for end in sorted(wanted.keys() | found.keys())
        if wanted.get(end) != found.get(end)
    ]


def arrays(signature: str, reply: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the outputs of a reply as arrays with their original types and shapes."""
    arrays = {}
    for name, output in CONTRACT[signature].outputs.items():
        values, dtype = reply["outputs"][name], object if output.dtype == "string" else output.dtype
        arrays[name] = np.array(values["values"], dtype).reshape(values["shape"])
    return arrays


Outputs = Mapping[tuple[str, str], list[dict[str, np.ndarray]]]
"""Outputs of each reply, by signature and name of the feeds."""


def _shape_faults(outputs: Outputs) -> Iterator[str]:
    for (signature, feeds), found in outputs.items():
        for arrays, feed in zip(found, FEEDS[feeds], strict=True):
            sizes = {"B": len(feed)}
            if feed:
                sizes |= {axis: int(arrays[name].max()) for name, axis in LENGTHS.items() if name in arrays}
            for name, values in arrays.items():
                axes = CONTRACT[signature].outputs[name].axes
                wanted = tuple(sizes.get(axis, size) for axis, size in zip(axes, values.shape, strict=True))
                if values.shape != wanted:
                    yield f"{signature}, {feeds}, {name}: expected the shape {wanted}, received {values.shape}"


def _value_faults(outputs: Outputs) -> Iterator[str]:
    for (signature, feeds), found in outputs.items():
        for name, values in ((name, values) for arrays in found for name, values in arrays.items()):
            if values.dtype == object and re.search("[\udc80-\udcff]", "".join(values.ravel())):
                yield f"{signature}, {feeds}, {name}: expected UTF-8"
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                yield f"{signature}, {feeds}, {name}: expected finite numbers, received NaN or infinity"


def _alignment_faults(outputs: Outputs) -> Iterator[str]:
    for (signature, feeds), found in outputs.items():
        for arrays in found:
            if "alignment" in arrays:
                sums = arrays["alignment"].sum(axis=-1)  # [B, T] or [B, K, T]
                lengths = arrays["target_lengths" if "target_lengths" in arrays else "lengths"]
                sums = sums[np.arange(sums.shape[-1]) < lengths[..., np.newaxis]]
                if not np.allclose(sums, 1.0, atol=TOLERANCE):
                    yield f"{signature}, {feeds}, alignment: expected sums of 1, received {sums.min()} to {sums.max()}"


def _batch_mate_faults(outputs: Outputs) -> Iterator[str]:
    """Compares the reply to each difficult text alone with its reply in a batch of all difficult texts."""
    for signature in CONTRACT:
        (together,) = outputs[signature, "together"]
        for row, arrays in enumerate(outputs[signature, "each by itself"]):
            for name, alone in arrays.items():
                among = together[name][row : row + 1][tuple(slice(size) for size in alone.shape)]
                if not _equal(alone, among):
                    yield f"{signature}, {name} of {STRANGE[row][:30]!r}: alone {alone}, in a batch {among}"


def _text_faults(outputs: Outputs) -> Iterator[str]:
    ((text,), (sentences,)) = outputs["text", "a text"], outputs["serving_default", "its sentences"]
    wanted = "".join(map("".join, zip(sentences["translation"], GAPS, strict=True))), sentences["truncated"].any()
    found = text["translation"][0], text["truncated"][0]
    if found != wanted:
        yield f"text, translation and truncated: expected {wanted}, received {found}"


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype.kind == "f":
        return one.shape == other.shape and np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
    return np.array_equal(one, other)
