"""Canonical status codes, the error that carries one, names of versions, and their states."""

import enum
from typing import NamedTuple


class Code(enum.IntEnum):
    """A canonical status code with its number in TensorFlow and gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_HTTP = {  # TensorFlow Serving's HTTP status for each code
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}


MAX_MESSAGE = 2000
"""Maximum number of characters of an error message. Messages repeat names and values of clients, which can have
megabytes."""

_CUT = " ... "


class StatusError(Exception):
    """Error of a request, or of loading a model. Every error answer comes from one, so its message is bounded here.

    Args:
        code: Canonical code.
        message: Message for the user, of which the middle is left out beyond ``MAX_MESSAGE`` characters.
        http: HTTP status of the answer. `None` uses the HTTP status of ``code``.
    """

    def __init__(self, code: Code, message: str, http: int | None = None) -> None:
        if len(message) > MAX_MESSAGE:
            end = MAX_MESSAGE // 4
            message = f"{message[: MAX_MESSAGE - end - len(_CUT)]}{_CUT}{message[-end:]}"
        super().__init__(message)
        self.message = message
        self.code = code
        self.http = http or _HTTP[code]

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def invalid(message: str) -> StatusError:
    """Returns an INVALID_ARGUMENT error."""
    return StatusError(Code.INVALID_ARGUMENT, message)


def client_left() -> StatusError:
    """Returns the error of a request whose client has left before its answer."""
    return StatusError(Code.CANCELLED, "Client closed request")


class ModelSpec(NamedTuple):
    """A model, with a version or a label. Without both, the newest version."""

    name: str
    version: int | None = None
    label: str | None = None


class State(enum.Enum):
    """State of a version. The embedded server does not use START."""

    START = "START"
    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


class VersionStatus(NamedTuple):
    """State of a version. If it could not be loaded, the state is END and the message is the reason."""

    version: int
    state: State
    code: Code
    message: str
