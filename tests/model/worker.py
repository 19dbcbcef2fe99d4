"""A worker's side of the contract, as a model: it keeps what a worker keeps and checks what it is told."""

import msgspec

from bench import contract as n
from bench.contract import C_ATTACH, C_ATTACHED, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH, C_PRESENTED
from shm.contract.payloads import Attach, Attached, ConnectionClosed, ConnectionOpened, Detach
from tests.model.speaker import Incoming, Link, Outgoing, Speaker
from tests.model.tally import Message

BODY = b"." * 40


class Worker(Speaker):
    """One generation of a worker."""

    # ---- connections and links ----

    def connect(self) -> int:
        connection = next(i for i in range(100) if i not in self.connections)
        self.generations += 1
        self.connections[connection] = self.generations
        self.control(C_CONNECTION_OPENED, ConnectionOpened(connection, self.generations, "c", "h:1"))
        return connection

    def disconnect(self, connection: int) -> None:
        for link in [link for link in self.links.values() if link.connection == connection]:
            self.detach(link)
        self.control(C_CONNECTION_CLOSED, ConnectionClosed(connection, self.connections.pop(connection)))

    def attach(self, connection: int, outgoing: bool, address: str | None, capacity: int, settles: bool) -> None:
        index = next(i for i in range(1000) if i not in self.links)
        self.generations += 1
        link = Link(index, self.generations, connection, outgoing, address, capacity, settles)
        self.links[index] = link
        self.ask(link)

    def ask(self, link: Link, restored: bool = False) -> None:
        dynamic = link.address == "dynamic"
        attach = Attach(
            link.index,
            link.generation,
            link.connection,
            f"l{link.generation}",
            link.outgoing,
            None if dynamic else link.address,
            dynamic=dynamic,
            snd_settle_mode=1 if link.settles else 2,
            capacity=link.capacity,
            restored=restored,
            granted=link.credit if restored else 0,
        )
        self.control(C_ATTACH, attach)

    def detach(self, link: Link) -> None:
        for out in list(link.outs.values()):
            if out.settled:
                self.done(out, dropped=True)
            else:
                self.settle_out(out, n.S_MODIFIED if out.progress else n.S_RELEASED, lost=True)
        for delivery in [d for d in self.incoming.values() if d.link is link]:
            if delivery.writer is not None:
                self.abort(delivery)
            delivery.message.alive = False
            self.incoming.pop(delivery.handle, None)
        del self.links[link.index]
        self.control(C_DETACH, Detach(link.index, link.generation))

    # ---- sending ----

    def send(self, link: Link, message: Message, streaming: bool) -> None:
        text = b"%08d|" % message.number + message.address.encode()
        flags = n.F_SETTLED if message.presettled else 0
        handle = 0 if message.presettled and not streaming else self.new_handle()
        writer = None
        if streaming:
            writer = self.arena.begin()
            assert writer is not None
            assert writer.write(text)
            writer.publish()
            block = writer.head
            self.owned.add(block)
        else:
            flags |= n.F_COMPLETE
            found = self.chain(text + BODY)
            assert found is not None
            block = found
        self.memory.say_where_to(self.index, block, 9, len(message.address))
        link.credit -= 1
        if handle:
            self.incoming[handle] = Incoming(message, link, handle, writer)
        message.alive = not message.presettled
        self.post(
            type=n.A_DELIVER,
            flags=flags,
            link=link.index,
            link_gen=link.generation,
            arena=self.index,
            block=block,
            peer=handle,
            length=len(text) if streaming else len(text) + len(BODY),
            priority=4,
            time=1,
        )

    def _name(self, delivery: Incoming) -> dict[str, int]:
        link = delivery.link
        return {"link": link.index, "link_gen": link.generation, "delivery": delivery.core, "peer": delivery.handle}

    def grow(self, delivery: Incoming, finish: bool) -> None:
        if not delivery.writer.write(BODY * 9):
            finish = True
        delivery.writer.publish(n.CONTENT_COMPLETE if finish else n.CONTENT_RECEIVING)
        self.post(
            type=n.A_CONTINUE,
            flags=n.F_COMPLETE if finish else 0,
            length=delivery.writer.written,
            **self._name(delivery),
        )
        if finish:
            delivery.writer = None
            if not delivery.message.alive:
                self.incoming.pop(delivery.handle)

    def abort(self, delivery: Incoming) -> None:
        delivery.writer.publish(n.CONTENT_ABORTED)
        name = self._name(delivery)
        self.post(type=n.A_CONTINUE, flags=n.F_ABORTED, length=delivery.writer.written, **name)
        delivery.message.alive = False
        delivery.writer = None
        self.incoming.pop(delivery.handle)

    def sender_settles(self, delivery: Incoming) -> None:
        self.post(type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, **self._name(delivery))
        if delivery.told:
            delivery.message.settled.append(delivery.message.told[-1])
        delivery.message.alive = False
        if delivery.writer is None:
            self.incoming.pop(delivery.handle)

    def sender_updates(self, delivery: Incoming) -> None:
        block = self.chain(b"state")
        assert block is not None
        self.post(
            type=n.A_UPDATE,
            flags=n.F_IN,
            state=n.S_TRANSACTIONAL,
            extra=n.D_PAYLOAD,
            arena=self.index,
            block=block,
            **self._name(delivery),
        )

    # ---- receiving ----

    def check_content(self, out: Outgoing) -> None:
        content = self.views[out.arena].read(out.block)
        assert content[:9] == b"%08d|" % out.message.number, "the content of a live delivery was reused"

    def read_some(self, out: Outgoing) -> None:
        self.check_content(out)
        out.progress = len(self.views[out.arena].read(out.block))
        if out.streaming:
            self.post(
                type=n.A_PROGRESS,
                link=out.link.index,
                link_gen=out.link.generation,
                delivery=out.core,
                peer=out.handle,
                length=out.progress,
            )
        if out.settled and out.complete:
            self.done(out)

    def waits(self, out: Outgoing) -> None:
        """Its receiver takes none at present."""
        self.post(type=n.A_WAITS, delivery=out.core)

    def done(self, out: Outgoing, dropped: bool = False) -> None:
        if out.link.settles:
            self.claim(out.message, n.S_RELEASED if dropped else n.S_ACCEPTED)
        self.post(type=n.A_DONE, delivery=out.core, flags=n.F_DROPPED if dropped else 0)
        del out.link.outs[out.core]

    def settle_out(self, out: Outgoing, state: int, lost: bool = False, detail: bool = False) -> None:
        if not lost:
            self.check_content(out)
        if not out.answered:
            self.claim(out.message, state)
        self._update(out, state, n.F_SETTLED, detail)
        del out.link.outs[out.core]

    def answer_out(self, out: Outgoing, state: int, detail: bool = False) -> None:
        """A terminal state, and the receiver waits for the sender to settle."""
        self.check_content(out)
        self.claim(out.message, state, pending=True)
        out.answered = True
        self._update(out, state, 0, detail)

    def received_out(self, out: Outgoing) -> None:
        self._update(out, n.S_RECEIVED, 0, False)

    def _update(self, out: Outgoing, state: int, flags: int, detail: bool) -> None:
        block = self.chain(b"detail") if detail else None
        self.post(
            type=n.A_UPDATE,
            flags=flags,
            state=state,
            link=out.link.index,
            link_gen=out.link.generation,
            delivery=out.core,
            peer=out.handle,
            arena=self.index,
            block=n.NIL if block is None else block,
            extra=(n.D_FAILED if state == n.S_MODIFIED else 0) | (0 if block is None else n.D_PAYLOAD),
        )

    def drain(self, link: Link) -> None:
        link.drains += 1
        self.post(type=n.A_DRAIN, link=link.index, link_gen=link.generation)

    def drained(self, link: Link) -> None:
        """The sender gives its credit back."""
        self.post(type=n.A_DRAINED, link=link.index, link_gen=link.generation, credit=link.credit)
        link.credit = 0
        link.draining = False

    # ---- being told ----

    def read(self, limit: int) -> int:
        """Handle up to ``limit`` work records; how many there were."""
        count = 0
        while count < limit and (record := self.work.pop()) is not None:
            count += 1
            self.log.append(("work", self.index, record))
            self._handle(n.unpack(record))
        self.work.give_back()
        self.log.append(("read", self.index))
        return count

    def _handle(self, r: dict[str, int]) -> None:
        link = self.links.get(r["link"])
        if link is not None and link.generation != r["link_gen"]:
            link = None
        handlers = {
            n.W_SEND: self._send,
            n.W_CONTINUE: self._continue,
            n.W_UPDATE: self._told_in if r["flags"] & n.F_IN else self._told_out,
            n.W_RELEASE: self._released,
            n.W_CONSUMED: self._consumed,
            n.W_FLOW: self._flow,
            n.W_DRAIN: self._drain,
            n.W_DRAINED: self._drained,
            n.W_ACCEPTED: self._accepted,
            n.W_CONTROL: self._control,
        }
        handlers[r["type"]](r, link)

    def _released(self, r: dict[str, int], link: Link | None) -> None:
        if r["block"] != n.NIL:
            self._free(r["block"])
        self._grant(link, r["credit"])

    def _consumed(self, r: dict[str, int], link: Link | None) -> None:
        delivery = self.incoming.get(r["delivery"])
        if delivery is not None and delivery.writer is not None:
            assert r["length"] <= delivery.writer.written

    def _flow(self, r: dict[str, int], link: Link | None) -> None:
        if link is not None:
            link.draining = False
        self._grant(link, r["credit"])

    def _drain(self, r: dict[str, int], link: Link | None) -> None:
        if link is not None:
            link.draining = True

    def _drained(self, r: dict[str, int], link: Link | None) -> None:
        if link is not None:
            link.drains -= 1
            assert link.drains >= 0

    def _accepted(self, r: dict[str, int], link: Link | None) -> None:
        if (delivery := self.incoming.get(r["delivery"])) is not None:
            delivery.core = r["peer"]

    def _grant(self, link: Link | None, credit: int) -> None:
        if link is not None:
            link.credit += credit
            assert link.credit <= link.capacity, "more credit than the link's capacity"

    def _free(self, block: int) -> None:
        assert block in self.owned or block in self.inherited, f"block {block} was given back twice"
        self.owned.discard(block)
        self.inherited.discard(block)
        assert self.arena.free_chain(block) > 0

    def _control(self, r: dict[str, int], _: Link | None) -> None:
        payload = self.views[r["arena"]].read(r["block"])
        self.post(type=n.A_FREE, arena=r["arena"], block=r["block"])
        if r["state"] == C_PRESENTED:
            self.resting = False
            return
        if r["state"] != C_ATTACHED:
            raise AssertionError(f"control {r['state']} was not expected")
        attached = msgspec.msgpack.decode(payload, type=Attached)
        link = self.links.get(attached.link)
        if link is None or link.generation != attached.generation:
            return
        if attached.error is not None:
            assert link.address is not None
            assert link.address.startswith("u")
            del self.links[attached.link]
        else:
            link.open = True
            if attached.address is not None:
                link.address = attached.address

    def _send(self, r: dict[str, int], link: Link | None) -> None:
        if link is None:
            return
        content = self.views[r["arena"]].read(r["block"])
        message = self.ledger.messages[int(content[:8])]
        message.copies += 1
        assert link.open
        assert link.last.get(message.sender, -1) < message.number, "a sender's messages changed their order"
        link.last[message.sender] = message.number
        complete = bool(r["flags"] & n.F_COMPLETE)
        assert bool(r["flags"] & n.F_SETTLED) == (message.presettled or link.settles)
        link.outs[r["peer"]] = Outgoing(
            message,
            link,
            r["peer"],
            self.new_handle(),
            r["arena"],
            r["block"],
            bool(r["flags"] & n.F_SETTLED),
            complete,
            not complete,
        )

    def _continue(self, r: dict[str, int], link: Link | None) -> None:
        out = link.outs.get(r["peer"]) if link is not None else None
        if out is None:
            return
        if r["flags"] & n.F_ABORTED:
            if not out.answered:
                self.post(type=n.A_DONE, delivery=out.core)
            del out.link.outs[out.core]
        elif r["flags"] & n.F_COMPLETE:
            out.complete = True

    def _told_in(self, r: dict[str, int], link: Link | None) -> None:
        delivery = self.incoming.get(r["delivery"])
        if r["flags"] & n.F_SETTLED:
            if delivery is not None:
                del self.incoming[delivery.handle]
                delivery.writer = None
                if not delivery.message.presettled and delivery.message.alive:
                    self.ledger.tell(delivery.message.number, r["state"], settled=True)
        elif delivery is not None and delivery.message.alive:
            delivery.core = r["peer"]
            delivery.told = delivery.told or r["state"] != n.S_RECEIVED
            self.ledger.tell(delivery.message.number, r["state"], settled=False)
        if r["flags"] & n.F_RELEASE:
            self._free(r["block"])
        elif r["extra"] & n.D_PAYLOAD:
            self.post(type=n.A_FREE, arena=r["arena"], block=r["block"])
        self._grant(link, r["credit"])

    def _told_out(self, r: dict[str, int], link: Link | None) -> None:
        if r["extra"] & n.D_PAYLOAD:
            self.post(type=n.A_FREE, arena=r["arena"], block=r["block"])
        out = link.outs.get(r["peer"]) if link is not None else None
        if out is None or not r["flags"] & n.F_SETTLED:
            return
        if out.answered:
            del out.link.outs[out.core]
        else:
            out.settled = True
            if out.complete and out.progress:
                self.done(out)
