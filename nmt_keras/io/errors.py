"""Errors with three parts: what is wrong, what was received, what to do."""

import errno
import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

MAX_LEVELS = 32
"""Number of levels of lists and mappings in JSON and YAML files."""

REMEDIES = {
    os.strerror(code): sentence
    for sentence, codes in {
        "Make room": (errno.ENOSPC, errno.EDQUOT),
        "Correct the permissions or pass another folder": (errno.EACCES, errno.EPERM, errno.EROFS),
        "Raise the limit of open files (ulimit -n 4096)": (errno.EMFILE, errno.ENFILE),
        "Make room, or raise the limit of file sizes (ulimit -f)": (errno.EFBIG,),
        "Pass another path, because a part of this one is a file or a broken link": (errno.EEXIST, errno.ENOTDIR),
        "Replace the link by its target": (errno.ELOOP,),
        "Pass a shorter path": (errno.ENAMETOOLONG,),
    }.items()
    for code in codes
}


def require(ok: bool, where: str, expected: str, received: object, hint: str = "") -> None:
    """Raises ValueError if ``ok`` is ``False``.

    Args:
        ok: Result of the check.
        where: Name of the field or option.
        expected: Description of valid values.
        received: The invalid value.
        hint: Reason or remedy, as whole sentences at the end of the message.
    """
    if not ok:
        raise ValueError(f"{where}: expected {expected}, received {received!r}. {hint}".rstrip())


def require_choice(where: str, choices: Sequence[str], received: str) -> None:
    """Raises ValueError if ``received`` is not one of ``choices``. The message suggests the nearest choice."""
    if received not in choices:
        nearest = get_close_matches(str(received), choices, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{where}: expected one of {', '.join(choices)}; received {received!r}.{hint}")


def require_shallow(value: Any, levels: int = MAX_LEVELS) -> None:
    """Raises ValueError if lists and mappings are nested more than ``levels`` deep. Recursive functions would fail."""
    if levels < 0:
        raise ValueError(f"received more than {MAX_LEVELS} nested levels")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        require_shallow(each, levels - 1)


def remedy(reason: str) -> str:
    """Returns what to do about an error of the system, without a full stop."""
    return REMEDIES.get(reason, "Check the path and the disk")
