"""Checks in a new process that TensorFlow Serving can serve an export."""

import re
import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from nmt_keras.config import require
from nmt_keras.export.contract import CONTRACT
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

ADDED = "sentences"
"""Signature that exports of earlier versions lack."""


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
    """Returns the replies to ``REQUESTS``, without those for a signature that the export lacks."""
    replies = zip(REQUESTS, answers.replies, strict=True)
    return {key: reply for key, reply in replies if not (key[0] == ADDED and _is_older(answers.facts["signatures"]))}


def checks(answers: Answers) -> list[Check]:
    """Returns the results of all checks, or only that of the types if it fails."""
    facts, replies = answers.facts, named(answers)
    types = Check("signatures, names, types and ranks match the contract", _type_faults(facts["signatures"]))
    if types.faults:
        return [types]
    refused = [(key, one.get("error")) for key, found in replies.items() if key[1] in REFUSED for one in found]
    unanswered = [
        f"{', '.join(key)}: {one['message']}"
        for key, found in replies.items()
        for one in found
        if key[1] not in REFUSED and "error" in one
    ]
    return [
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
        Check(
            "scalars, matrices and numbers are refused as invalid",
            [f"{', '.join(key)}: received {error}" for key, error in refused if error != "InvalidArgumentError"],
        ),
        Check(
            "every text is answered: blank, emoji, not UTF-8, 10,000 letters; and an empty batch",
            unanswered,
        ),
    ]


def _type_faults(found: Mapping[str, str]) -> list[str]:
    wanted: dict[str, str] = {}
    for name, signature in CONTRACT.items():
        if name == ADDED and _is_older(found):
            continue
        wanted |= {f"{name}, input {end}": "string[?]" for end in signature.inputs}
        for end, output in signature.outputs.items():
            wanted[f"{name}, output {end}"] = f"{output.dtype}[{','.join('?' for _ in output.axes)}]"
    return [
        f"signature {end}: expected {wanted.get(end, 'none')}, received {found.get(end, 'none')}"
        for end in sorted(wanted.keys() | found.keys())
        if wanted.get(end) != found.get(end)
    ]


def _is_older(found: Mapping[str, str]) -> bool:
    return not any(end.startswith(f"{ADDED}, ") for end in found)
