"""Errors with three parts: what is wrong, what was received, what to do."""

from collections.abc import Sequence
from difflib import get_close_matches


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
