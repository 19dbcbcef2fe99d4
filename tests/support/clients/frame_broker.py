"""A broker's end of link routes that says each frame itself."""

from typing import Any

from tests.support.clients.frame_client import WINDOW, FrameClient
from tests.support.clients.octets import ATTACH, BEGIN, Encoded, Frame, said


class FrameBroker(FrameClient):
    """Answers what the router begins and attaches, when it is asked to."""

    def answer_begin(self, got: Frame) -> None:
        """Answer a session that the router begins, by its channel number."""
        window = {"next_out": 0, "in_window": WINDOW, "out_window": WINDOW}
        self.write(said(BEGIN, got.channel, remote_channel=got.channel, **window))
        self.channels[got.channel] = got.channel

    def answer(self, handle: int, **fields: Any) -> Frame:
        """The next link that the router attaches, answered under that handle; the router's ATTACH.

        The session has the router's channel number as its own; ``handles`` knows the link under both numbers.
        """
        while (got := self.read()).code != ATTACH:
            if got.code == BEGIN and got["remote_channel"] is None:
                self.answer_begin(got)
            else:
                self.passed.append(got)
        self.handles[got.channel, handle] = got["handle"]
        modes = {name: got[name] for name in ("snd_mode", "rcv_mode")}
        ends = {name: Encoded(got.octets(name)) for name in ("source", "target")}
        count = {"count": 0} if got["receiver"] else {}
        mine = {"name": got["name"], "handle": handle, "receiver": not got["receiver"], **modes, **ends, **count}
        self.write(said(ATTACH, got.channel, **{**mine, **fields}))
        return got
