"""The data lane as it should be: performatives in words, and a session with its links in Python's numbers.

AMQP 1.0 part 2.5.6, 2.6.7 to 2.6.12, 2.7.4 to 2.7.6. Numbers are compared as serial numbers of 32 bits.
"""

from dataclasses import dataclass, field

WRAP = 2**32
OUT_WINDOW = 2**31 - 1
WINDOW_VIOLATION = "amqp:session:window-violation"
UNATTACHED = "amqp:session:unattached-handle"
LIMIT = "amqp:link:transfer-limit-exceeded"
INVALID = "amqp:invalid-field"


def positive(number: int) -> int:
    """The number as a serial difference, and 0 for those below 0."""
    number %= WRAP
    return number if number < WRAP // 2 else 0


def left(number: int, ahead: int) -> int:
    """What is left of a number, which may be any of 32 bits, behind a serial difference."""
    return min(max(number - (ahead + WRAP // 2) % WRAP + WRAP // 2, 0), WRAP - 1)


@dataclass
class Link:
    """One link; of an incoming one `credit` is what its sender has."""

    count: int
    outgoing: bool
    handle: int
    credit: int = 0
    withdrawn: int = 0
    overrun: int = 0
    going_on: int | None = None  # the delivery-id of which more follows
    settled: bool = False
    drain: bool = False
    tell: bool = False

    def words(self) -> str:
        going_on = self.going_on is not None
        numbers = (self.count, self.credit, self.withdrawn, self.overrun, going_on, self.drain, self.tell)
        return " ".join(str(int(number)) for number in numbers)


@dataclass
class Session:
    """A session, and what each step makes of it, in the words of tests/property/lane.c."""

    window: int
    next_in: int
    out_window: int
    next_out: int
    links: list[Link]
    in_window: int = field(init=False)
    held: int = 0
    id_in: int | None = None
    id_out: int = field(init=False)
    tell: bool = False

    def __post_init__(self) -> None:
        self.in_window, self.id_out = self.window, self.next_out

    def words(self) -> str:
        numbers = (self.next_in, self.in_window, self.held, self.next_out, self.out_window, self.id_out, int(self.tell))
        return " | ".join((" ".join(map(str, numbers)), *(link.words() for link in self.links)))

    def receive(  # noqa: PLR0911  one return for each fault
        self, link: Link | None, number: int | None, settled: bool | None, *, more: bool, aborted: bool
    ) -> str:
        if not self.in_window:
            return WINDOW_VIOLATION
        self.in_window -= 1
        self.next_in = (self.next_in + 1) % WRAP
        self._look()
        if link is None:
            if number is not None and self.id_in in (None, number):
                self.id_in = (number + 1) % WRAP
            return "0000"
        if link.outgoing:
            return UNATTACHED
        first = link.going_on is None
        if first:
            if number is None or self.id_in not in (None, number):
                return INVALID
            self.id_in = (number + 1) % WRAP
            if not link.credit and not link.withdrawn:
                return LIMIT
            if link.credit:
                link.credit -= 1
            else:
                link.withdrawn, link.overrun = link.withdrawn - 1, link.overrun + 1
            link.count = (link.count + 1) % WRAP
            link.going_on, link.settled = number, False
        elif number not in (None, link.going_on) or (link.settled and settled is False):
            return INVALID
        link.settled = link.settled or bool(settled) or aborted
        last = aborted or not more
        if last:
            link.going_on = None
        return "".join(str(int(one)) for one in (first, last, aborted, link.settled))

    def hear(  # a FLOW has as many fields
        self, link: Link | None, next_in: int | None, window: int, count: int | None, credit: int,
        *, drain: bool, echo: bool,
    ) -> str:  # fmt: skip
        before, self.out_window = self.out_window, left(window, self.next_out - (next_in or 0))
        opened = bool(self.out_window and not before)
        if echo and link:
            link.tell = True
        elif echo:
            self.tell = True
        if link is None:
            return f"{opened:d}0 0"
        returned = 0
        if link.outgoing:
            link.credit, link.drain = left(credit, link.count - (count or 0)), drain
        elif count is not None:
            ahead = min(positive(count - link.count), link.credit + link.withdrawn)
            returned = min(ahead, link.credit)
            link.count, link.credit = (link.count + ahead) % WRAP, link.credit - returned
            link.withdrawn -= ahead - returned
        return f"{opened:d}{link.outgoing and link.credit > 0:d} {returned}"

    def send(self, link: Link, *, more: bool, aborted: bool) -> str:
        if not self.out_window or (link.going_on is None and not link.credit):
            return "must wait"
        words = ""
        if link.going_on is None:
            words = f"id={self.id_out}"
            link.going_on, self.id_out = self.id_out, (self.id_out + 1) % WRAP
            link.credit, link.count = link.credit - 1, (link.count + 1) % WRAP
        self.out_window, self.next_out = self.out_window - 1, (self.next_out + 1) % WRAP
        if aborted or not more:
            link.going_on = None
        return words

    def grant(self, link: Link, credit: int) -> None:
        more = max(credit - link.overrun, 0)
        link.overrun, link.credit = max(link.overrun - credit, 0), link.credit + more
        link.withdrawn, link.tell = max(link.withdrawn - more, 0), True

    def withdraw(self, link: Link, credit: int) -> None:
        unused = min(credit, link.credit)
        link.credit, link.withdrawn = link.credit - unused, link.withdrawn + unused
        link.overrun, link.tell = link.overrun + credit - unused, True

    def drained(self, link: Link) -> None:
        if link.drain:
            link.count, link.credit, link.tell = (link.count + link.credit) % WRAP, 0, True

    def release(self, transfers: int) -> None:
        self.held -= min(transfers, self.held)
        self._look()

    def say(self, link: Link | None) -> str:
        self.in_window, self.tell = max(self.window - self.held, 0), False
        words = f"flow next_in={self.next_in} in_window={self.in_window} next_out={self.next_out}"
        words += f" out_window={OUT_WINDOW}"
        if link is None:
            return words
        link.tell = False
        return f"{words} handle={link.handle} count={link.count} credit={link.credit}{' drain' * link.drain}"

    def _look(self) -> None:
        offer = max(self.window - self.held, 0)
        if self.in_window <= offer // 2 and offer - self.in_window >= max(self.window // 8, 1):
            self.tell = True
