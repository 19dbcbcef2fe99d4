"""Framed connections: their events for Python, and the native functions that RMR and Ockam share."""


cdef bint framed_dispatch(Pump pump, int event, uint32_t index, worker_connection *c, worker_link *k, void *obj) except -1:
    """Pass an event to the protocol's handler; return False if the pump handles it as for AMQP."""
    cdef frame_seen *seen
    cdef message_seen *message
    handler = pump.framed[c.framed.speaks.number]
    if event == EV_FRAMED_OPEN:
        if not pump.p.detached:   # otherwise present_all() reports it with the others
            c.known = True
            handler.opened(index, c.slot.generation)
        return True
    if event == EV_ROUTE_SENDER:
        handler.asked(index, pool_index(&pump.p.links, k), k.slot.generation)
        return True
    if event == EV_CONNECTION_GONE:
        handler.gone(index, c.slot.generation, c.opened, text(c.framed.why))
        return True
    if event == EV_TRACE:
        seen = <frame_seen *> obj
        handler.frame(index, seen.sent, seen.length, seen.head[:seen.head_length], seen.payload[:seen.payload_length], c.trace == TRACE_ON)
        return True
    if event == EV_MESSAGE:
        message = <message_seen *> obj
        handler.message(index, pool_index(&pump.p.links, k), message.sent, message.bytes[:message.length])
        return True
    return False


cdef int framed_speak(worker_listener *l, framed_terms *terms, const framed_protocol *speaks, uint32_t most) except -1:
    """Replace the terms of a place's connections by these, which this call takes over. Raises ValueError."""
    if l.framed != NULL and l.framed.speaks != speaks:   # open connections read them as their own protocol's
        free(terms)
        raise ValueError("the place has connections of another protocol")
    terms.speaks, terms.most = speaks, most
    free(l.framed)
    l.framed = terms
    return 0


cdef class FramedTransport(PumpPart):
    """The native side of one pump's connections of one protocol.

    The pump calls the handler's ``opened(index, generation)`` and ``gone(index, generation, opened, why)``; for a new
    core ``present(index, generation)``, then ``link_present(link, generation)``; for the log ``frame(index, sent, length, head,
    payload, asked)`` with the beginning of the payload, and ``message(index, link, sent, beginning)``.
    """

    cdef int protocol

    def serve(self, handler):
        """Call this handler for connections of the protocol."""
        self.pump.framed[self.protocol] = handler

    def speaks(self, int place):
        """Return whether a place has terms of this protocol: it keeps them until another listener or connector takes it."""
        cdef worker_listener *l = self.pump.listener(place)
        return l.framed != NULL and l.framed.speaks.number == self.protocol

    def dial(self, int place, int fd):
        """Take over a connecting socket; return the connection's index and generation, or None if there is no room."""
        cdef worker_connection *c
        self.pump.listener(place)
        self.pump.p.now_ms = clock_ns() // 1000000
        c = framed_new(&self.pump.p, fd, place, True)
        return None if c == NULL else (pool_index(&self.pump.p.conns, c), c.slot.generation)

    def attach(self, uint32_t index, uint32_t number, int which):
        """Create a link of an open connection; return index, generation and capacity, or None if there is no room.

        ``which`` is 0 for the link to the table, 1 for an anonymous one, 2 for the one from the endpoint's address,
        and 3 for the one from the connection's own address.
        """
        cdef worker_connection *c = <worker_connection *> pool_at(&self.pump.p.conns, index)
        cdef worker_link *k = framed_link(&self.pump.p, c, which >= 2)
        if k == NULL:
            return None
        c.framed.number = number
        if which == 0: c.framed.data = k
        elif which == 1: c.framed.other = k
        elif which == 2: c.framed.out = k
        else: c.framed.back = k
        return pool_index(&self.pump.p.links, k), k.slot.generation, link_configured(k)

    def link_open(self, uint32_t index, uint32_t generation, bint to_table):
        """Open a link that the core has accepted."""
        cdef worker_link *k = <worker_link *> pool_find2(&self.pump.p.links, index, generation)
        if k != NULL:
            k.open, k.to_table = True, to_table
            mark_dirty(&self.pump.p, k.conn)

    def close(self, uint32_t index, uint32_t generation):
        """End a connection."""
        close_connection(self.pump, <worker_connection *> pool_find2(&self.pump.p.conns, index, generation), None)

    def end_round(self):
        """Let `Pump.run` return after this turn."""
        self.pump.p.woken = True


include "../rmr/rmr.pxi"
include "../ockam/ockam.pxi"
