"""Connections and links that the router initiates (dial.c), and the presentation to a new core."""

from workers.control import link_requests


cdef enum:
    MOST_OUTLIVED = 2         # cores that an unanswered ATTACH may have met: it may be what they died of


cdef bint present_all(Pump pump) except -1:
    """Present connections, then links, to a new core; return False if blocks run out."""
    cdef uint32_t i
    cdef worker_connection *c
    cdef worker_link *k
    for i in range(pump.p.conns.high):
        c = <worker_connection *> pool_at(&pump.p.conns, i)
        if c.slot.next_free != SLOT_USED or c.known or not c.opened:
            continue
        if c.relay != NULL and c.dialled:
            continue                  # the core does not know connections to authentication services
        if not blocks_left(&pump.p):
            return False
        c.known = True
        if c.framed != NULL:
            pump.framed[c.framed.speaks.number].present(i, c.slot.generation)
        else:
            pump.handler.connection_present(i, c.slot.generation)
    for k_order, i in sorted(links_unknown(&pump.p)):
        k = <worker_link *> pool_at(&pump.p.links, i)
        if not blocks_left(&pump.p):
            return False
        if k.framed:
            k.known = True
            pump.framed[k.conn.framed.speaks.number].link_present(i, k.slot.generation)
            continue
        if k.outlived >= MOST_OUTLIVED:
            pump.handler.attach_fatal(i, k.slot.generation, pool_index(&pump.p.conns, k.conn), text(pn_link_name(k.engine)))
            continue
        if pump.tell(k):
            resync_link(&pump.p, k)
    return blocks_left(&pump.p)       # the caller still has to post C_PRESENTED


cdef enum:
    CLOSE_WAIT_MS = 5000      # time for the peer's answer to CLOSE


cdef close_connection(Pump pump, worker_connection *c, error):
    """Close a connection with an AMQP error (name, description) or None; no-op for NULL."""
    if c == NULL:
        return
    if c.framed != NULL:
        framed_close(&pump.p, c, NULL)
        return
    if error is not None:
        set_condition(pn_connection_condition(c.engine), error[0], error[1])
    if not c.opened:
        conn_broken(&pump.p, c)
        return
    pn_connection_close(c.engine)
    c.deadline = clock_ns() // 1000000 + CLOSE_WAIT_MS
    mark_dirty(&pump.p, c)


cdef contained(Pump pump, int event, worker_connection *c, worker_link *k, void *obj, const routerd_record *r):
    """Pass an event to the handler; an exception ends only the connection of the peer that caused it.

    An exception at the loss of a link or connection is raised, because the core's state would be wrong from
    then on: the supervisor then replaces the worker.
    """
    try:
        pump.dispatch(event, c, k, obj, r)
    except Exception as error:
        if event == EV_LINK_LOST or event == EV_CONNECTION_GONE:
            raise
        if c == NULL:
            failures.tell(f"event {event} of this worker", error, "it is dropped")
            return
        host = pump.handler.peers.get(pool_index(&pump.p.conns, c), "?")
        failures.tell(f"event {event} of the connection of {host}", error, "that connection is closed")
        close_connection(pump, c, ("amqp:internal-error", "The router failed at this connection; its log says why"))


cdef list links_unknown(const native_pump *p):
    """Return order and index of the links that the core does not know."""
    cdef const worker_link *k
    out = []
    for i in range(p.links.high):
        k = <const worker_link *> pool_at(&p.links, i)
        if k.slot.next_free == SLOT_USED and not k.known:
            out.append((k.order, i))
    return out


cdef unask(native_pump *p):
    """Close the links that a dead core has requested and no peer has answered yet."""
    cdef worker_link *k
    for i in range(p.links.high):
        k = <worker_link *> pool_at(&p.links, i)
        if k.slot.next_free == SLOT_USED and k.asked:
            dial_unask(p, k)


cdef set_terminus(pn_terminus_t *t, address, list capabilities):
    cdef bytes b
    if address is not None:
        b = address.encode()
        pn_terminus_set_address(t, b)
    if len(capabilities) == 1:
        b = capabilities[0].encode()
        pn_data_put_symbol(pn_terminus_capabilities(t), view(b))
    elif capabilities:
        put_symbols(pn_terminus_capabilities(t), capabilities)


cdef refusal(Pump pump, opening):
    """Return why the link of an OpenLink cannot be created, an AMQP error; None if it can."""
    cdef worker_connection *c = <worker_connection *> pool_find2(&pump.p.conns, opening.connection, opening.generation)
    cdef char[REFUSAL_ROOM] why
    if c == NULL or opening.request == 0:
        return link_requests.GONE
    if ((not opening.outgoing and slow_refused(c, opening.client, why))
            or share_refused(c, opening.client, opening.neighbour, link_requests.attach_size(opening), why)
            or dial_refused(c, opening.session, opening.client, why)):
        return link_requests.LIMIT, text(why)
    return None


cdef worker_link *begin_link(Pump pump, opening) except? NULL:
    """Create the link of an OpenLink that nothing refuses, without attaching it; NULL if this worker has no room."""
    cdef worker_connection *c = <worker_connection *> pool_find2(&pump.p.conns, opening.connection, opening.generation)
    cdef uint32_t request = opening.request
    cdef uint32_t session = opening.session, client = opening.client
    cdef bytes b = opening.name.encode()
    cdef worker_link *k
    k = dial_link(&pump.p, c, session, client, b, opening.outgoing)
    if k != NULL:
        k.known = True
        k.asked = request
        share_take(k, client, opening.neighbour, link_requests.attach_size(opening))
    return k


cdef pn_link_t *lose_link(Pump pump, uint32_t index, uint32_t generation, error) except? NULL:
    """Report a link lost, and set the error of its detach; return the engine's link, NULL if the link is gone."""
    cdef worker_link *k = <worker_link *> pool_find2(&pump.p.links, index, generation)
    cdef pn_link_t *engine
    if k == NULL:
        return NULL
    engine = k.engine
    mark_dirty(&pump.p, k.conn)
    if error is not None:
        set_condition(pn_link_condition(engine), error[0], error[1])
    link_lost(&pump.p, k, EV_LINK_LOST)
    return engine


cdef class PumpPart:
    """The base of classes that serve one subject of a pump."""

    cdef Pump pump

    def __cinit__(self, Pump pump):
        self.pump = pump


cdef class Dialler(PumpPart):
    """Opens router-initiated connections and links of one pump."""

    def add_place(self, *terms):
        """Add a connector with the terms of `Pump.add_listener`; return its place. Raises ValueError."""
        cdef worker_listener *l = dial_place(&self.pump.p)
        if l == NULL:
            raise ValueError(f"more than {MAX_LISTENERS} listening sockets and connectors")
        l.encrypt = False
        try:
            listener_terms(l, terms)
        except ValueError:
            l.dials = False
            raise
        return l - self.pump.p.listeners

    def remove_place(self, int place):
        """Remove a connector; its connections keep their terms."""
        self.pump.listener(place).dials = False

    def dial(self, int place, int fd, str hostname, str user, str password):
        """Take over a connecting socket; return the connection's index and generation, or None if there is no room.

        The caller sends OPEN (`Pump.connection_open`).
        """
        cdef bytes h = hostname.encode()
        cdef bytes u = user.encode()
        cdef bytes w = password.encode()
        cdef worker_connection *c
        self.pump.listener(place)
        c = dial(&self.pump.p, fd, place, h, u, w)
        if c == NULL:
            return None
        return pool_index(&self.pump.p.conns, c), c.slot.generation

    def end_round(self):
        """Let `Pump.run` return after this turn."""
        self.pump.p.woken = True

    def open_link(self, opening):
        """Attach the link of an OpenLink; return None, or the AMQP error of one that cannot be attached.

        The peer's answer goes to the handler with the same ``request``.
        """
        cdef worker_link *k
        error = refusal(self.pump, opening)
        if error is not None:
            return error
        k = begin_link(self.pump, opening)
        if k == NULL:
            return link_requests.NO_ROOM
        if opening.capacity:
            link_limit(k, opening.capacity)
        set_terminus(pn_link_source(k.engine), opening.source, opening.source_capabilities)
        set_terminus(pn_link_target(k.engine), opening.target, opening.target_capabilities)
        pn_terminus_set_dynamic(pn_link_source(k.engine), opening.dynamic_source)
        pn_link_set_snd_settle_mode(k.engine, opening.snd_settle_mode)
        pn_link_set_rcv_settle_mode(k.engine, opening.rcv_settle_mode)
        attach_first(self.pump, k)
        return None
