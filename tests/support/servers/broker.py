"""A broker's side of link routes, driven by hand: it takes what is attached, and remembers it."""

from typing import Any

from proton import Condition, Endpoint, Event, Link, Receiver, Sender, Terminus

from tests.support.peer import Net, Peer


class Broker(Peer):
    """A connection whose peer attaches. Links are answered as they came, or refused."""

    def __init__(self, net: Net, address: Any, container: str = "broker", **limits: Any) -> None:
        super().__init__(net, address, **limits)
        self.connection.container = container
        self.attached: list[Link] = []
        self.refuse: Condition | None = None
        self.ending = False  # refuse by ending the session
        self.blank = False  # answer with termini that say nothing
        self.node: str | None = None  # what a dynamic source is called
        self.credit = 10
        self.answered_capabilities: list[str] = []
        self.detached: list[tuple[Link, bool]] = []  # and whether it was for good
        net.peers.append(self)

    def event(self, event: Event) -> None:
        """Answer what the router begins."""
        if event.type == Event.SESSION_REMOTE_OPEN and event.session.state & Endpoint.LOCAL_UNINIT:
            event.session.open()
        elif event.type == Event.LINK_REMOTE_OPEN and event.link.state & Endpoint.LOCAL_UNINIT:
            self.answer(event.link)
        elif event.type in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH) and event.link in self.attached:
            closed = event.type == Event.LINK_REMOTE_CLOSE
            self.detached.append((event.link, closed))
            if event.link.state & Endpoint.LOCAL_ACTIVE:
                event.link.close() if closed else event.link.detach()

    def answer(self, link: Link) -> None:
        """Attach in return."""
        if self.ending:
            link.session.close()
            return
        if self.refuse is not None:
            link.open()
            link.condition = self.refuse
            link.close()
            return
        if not self.blank:
            link.source.copy(link.remote_source)
            link.target.copy(link.remote_target)
        if self.node is not None:
            link.source.address = self.node
        if self.answered_capabilities:
            link.target.capabilities.put_object(self.answered_capabilities[0])
        link.snd_settle_mode, link.rcv_settle_mode = link.remote_snd_settle_mode, link.remote_rcv_settle_mode
        link.open()
        self.attached.append(link)
        if isinstance(link, Receiver):
            self.inboxes[link.name] = []
            link.flow(self.credit)

    def taken(self, at: int = -1) -> Receiver:
        """The end of a link that a client sends to."""
        link = self.attached[at]
        assert isinstance(link, Receiver)
        return link

    def given(self, at: int = -1) -> Sender:
        """The end of a link that a client receives from."""
        link = self.attached[at]
        assert isinstance(link, Sender)
        return link


def is_coordinator(link: Link) -> bool:
    """Whether the peer wants a transaction coordinator."""
    return bool(link.remote_target.type == Terminus.COORDINATOR)
