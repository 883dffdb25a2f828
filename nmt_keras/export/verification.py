"""Checks in a new process that TensorFlow Serving can serve an export."""

import re
import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from nmt_keras.config import require
from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.fresh_process import Answers, Request, ask
from nmt_keras.manifest import SAVED_MODEL

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


def verify(
    version_folder: Path, python: str | PathLike[str] = sys.executable, seconds: float = 600.0
) -> dict[str, list[str]]:
    """Loads an export in a new process, without Keras and this package, and compares it with ``CONTRACT``.

    Args:
        version_folder: ``saved_models/NAME/VERSION``.
        python: Interpreter with TensorFlow and tensorflow-text, ideally of the release that will serve the export.
        seconds: Time limit of the process.

    Returns:
        The faults that each check finds, by a description of the check. A fault raises no exception.

    Raises:
        ValueError: ``version_folder`` is not an exported version.
        FileNotFoundError: the interpreter does not exist.
    """
    is_version = (version_folder / SAVED_MODEL).is_file()
    require(is_version, "version_folder", f"saved_models/NAME/VERSION with a {SAVED_MODEL}", str(version_folder))
    try:
        answers = ask(version_folder, list(REQUESTS.values()), python, seconds)
    except RuntimeError as error:
        return {"runs in a process without Keras and nmt_keras": [str(error)]}
    libraries = ", ".join(map(" ".join, answers.libraries.items()))
    return {f"runs with {libraries}, without Keras and nmt_keras": [], **checks(answers)}


def named(answers: Answers) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    """Returns the replies to each feed of ``REQUESTS``, by signature and name of the feeds."""
    return dict(zip(REQUESTS, answers.replies, strict=True))


def checks(answers: Answers) -> dict[str, list[str]]:
    """Returns the faults that each check finds. If types are wrong, there are no other checks."""
    facts, replies = answers.facts, named(answers)
    types = {"signatures, names, types and ranks match the contract": _type_faults(facts["signatures"])}
    if any(types.values()):
        return types
    refused = [(key, one.get("error")) for key, found in replies.items() if key[1] in REFUSED for one in found]
    unanswered = [
        f"{', '.join(key)}: {one['message']}"
        for key, found in replies.items()
        for one in found
        if key[1] not in REFUSED and "error" in one
    ]
    return types | {
        "no operation that TensorFlow Serving lacks, such as XLA, cuDNN, Python": [
            *filter(NOT_SERVED.search, facts["operations"]),
            *(f"{name} is not linked" for name in facts["foreign"] if name not in TEXT_OPERATIONS),
        ],
        "no function is compiled by XLA": facts["compiled"],
        "no operation needs a device other than the CPU": [d for d in facts["devices"] if "/device:CPU:" not in d],
        "scalars, matrices and numbers are refused as invalid": [
            f"{', '.join(key)}: received {error}" for key, error in refused if error != "InvalidArgumentError"
        ],
        "every text is answered: blank, emoji, not UTF-8, 10,000 letters; and an empty batch": unanswered,
    }


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
