"""Reasons for refusing a message, each with the AMQP error that its sender gets."""

from enum import Enum

INVALID_FIELD = "amqp:invalid-field"
DECODE_ERROR = "amqp:decode-error"
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
NOT_FOUND = "amqp:not-found"
NOT_ALLOWED = "amqp:not-allowed"
UNAUTHORIZED = "amqp:unauthorized-access"
PRECONDITION = "amqp:precondition-failed"


class Reason(Enum):
    """A reason; `label` names it in counters, `condition` is the AMQP error (AMQP 1.0 part 2.8.15)."""

    EMPTY_ROUTE = ("empty-route", INVALID_FIELD)
    NOT_MINE = ("not-mine", INVALID_FIELD)
    NO_NEXT = ("no-next", INVALID_FIELD)
    SURPLUS = ("surplus-route", INVALID_FIELD)
    BAD_ADDRESS = ("bad-address", INVALID_FIELD)
    BAD_ANNOTATION = ("bad-annotation", DECODE_ERROR)
    BAD_ENCODING = ("bad-encoding", DECODE_ERROR)
    HOPS = ("hops", LIMIT_EXCEEDED)
    ONWARD = ("onward", LIMIT_EXCEEDED)
    RETURN = ("return", LIMIT_EXCEEDED)
    ADDRESS_OCTETS = ("address-octets", LIMIT_EXCEEDED)
    ROUTE_OCTETS = ("route-octets", LIMIT_EXCEEDED)
    NESTING = ("nesting", LIMIT_EXCEEDED)
    METADATA = ("metadata", LIMIT_EXCEEDED)
    MESSAGE_OCTETS = ("message-octets", LIMIT_EXCEEDED)
    ACCESS = ("access", UNAUTHORIZED)
    UNUSABLE_RETURN = ("unusable-return", PRECONDITION)
    TRANSFORM = ("transform", NOT_ALLOWED)
    UNKNOWN = ("unknown", NOT_FOUND)

    def __init__(self, label: str, condition: str) -> None:
        self.label = label
        self.condition = condition


class RefusedError(Exception):
    """A message is refused; `detail` is a sentence that says why, `address` (text) says where."""

    def __init__(self, reason: Reason, detail: str, address: str = "") -> None:
        super().__init__(f"{address}: {detail}" if address else detail)
        self.reason = reason
        self.detail = detail
        self.address = address

    @property
    def condition(self) -> str:
        """The AMQP error condition."""
        return self.reason.condition
