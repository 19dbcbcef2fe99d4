"""Complete termini of link-route pairs, between the engine and the core's payloads. Included by pump.pyx."""


cdef bytes encoded(pn_data_t *d):
    """Return the AMQP encoding of a value; empty if there is none."""
    cdef ssize_t size
    cdef bytes out
    if d == NULL or not pn_data_size(d):
        return b""
    size = pn_data_encoded_size(d)
    if size <= 0:
        return b""
    out = PyBytes_FromStringAndSize(NULL, size)
    return out if pn_data_encode(d, out, size) == size else b""


cdef decode(pn_data_t *d, bytes value):
    pn_data_clear(d)
    if value:
        pn_data_decode(d, value, len(value))


cdef terminus(pn_terminus_t *t):
    """Return the engine's terminus as a payload."""
    cdef const char *address = pn_terminus_get_address(t)
    return Terminus(
        kind=pn_terminus_get_type(t), address=None if address == NULL else text(address), durability=pn_terminus_get_durability(t),
        expiry=pn_terminus_get_expiry_policy(t), expires=bool(pn_terminus_has_expiry_policy(t)), timeout=pn_terminus_get_timeout(t),
        dynamic=bool(pn_terminus_is_dynamic(t)), distribution=pn_terminus_get_distribution_mode(t),
        properties=encoded(pn_terminus_properties(t)), capabilities=encoded(pn_terminus_capabilities(t)),
        outcomes=encoded(pn_terminus_outcomes(t)), filters=encoded(pn_terminus_filter(t)))


cdef put_terminus(pn_terminus_t *t, given):
    cdef bytes b
    pn_terminus_set_type(t, given.kind)
    if given.address is not None:
        b = given.address.encode()
        pn_terminus_set_address(t, b)
    else:
        pn_terminus_set_address(t, NULL)
    pn_terminus_set_durability(t, given.durability)
    if given.expires:
        pn_terminus_set_expiry_policy(t, given.expiry)
    pn_terminus_set_timeout(t, given.timeout)
    pn_terminus_set_dynamic(t, given.dynamic)
    pn_terminus_set_distribution_mode(t, given.distribution)
    decode(pn_terminus_properties(t), given.properties)
    decode(pn_terminus_capabilities(t), given.capabilities)
    decode(pn_terminus_outcomes(t), given.outcomes)
    decode(pn_terminus_filter(t), given.filters)


cdef termini(const worker_link *k):
    """Return the attach of a link's peer as a payload; the termini are ours where a new core hears of a link of ours."""
    cdef pn_link_t *engine = k.engine
    cdef bint ours = k.router_initiated and not k.asked
    return Termini(
        source=terminus(pn_link_source(engine) if ours else pn_link_remote_source(engine)),
        target=terminus(pn_link_target(engine) if ours else pn_link_remote_target(engine)),
        properties=encoded(pn_link_remote_properties(engine)), max_message_size=pn_link_remote_max_message_size(engine),
        snd_settle_mode=pn_link_remote_snd_settle_mode(engine), rcv_settle_mode=pn_link_remote_rcv_settle_mode(engine))


cdef put_termini(pn_link_t *engine, given):
    put_terminus(pn_link_source(engine), given.source)
    put_terminus(pn_link_target(engine), given.target)
    if given.properties:
        decode(pn_link_properties(engine), given.properties)
    pn_link_set_max_message_size(engine, given.max_message_size)
    pn_link_set_snd_settle_mode(engine, given.snd_settle_mode)
    pn_link_set_rcv_settle_mode(engine, given.rcv_settle_mode)


cdef class Coupler(PumpPart):
    """The ends of link-route pairs in one pump."""

    def taken(self, uint32_t index, uint32_t generation, str name, bint outgoing) -> bool:
        """Return whether another link still has this name, or too many wait until the peer has answered their DETACH.

        The result is False if the connection is gone.
        """
        return self.state(index, generation, name, outgoing) != NAME_FREE

    def live(self, uint32_t index, uint32_t generation, str name, bint outgoing) -> bool:
        """Return whether another link is attached with this name."""
        return self.state(index, generation, name, outgoing) == NAME_LIVE

    cdef int state(self, uint32_t index, uint32_t generation, str name, bint outgoing) except -1:
        cdef worker_connection *c = <worker_connection *> pool_find2(&self.pump.p.conns, index, generation)
        cdef bytes b = name.encode()
        return NAME_FREE if c == NULL else dial_taken(c, b, outgoing)

    def open_link(self, opening):
        """Attach with an OpenLink's termini; return None, or the AMQP error of one that cannot be attached.

        The peer's answer goes to the handler with the same ``request``.
        """
        cdef worker_link *k
        error = refusal(self.pump, opening)
        if error is not None:
            return error
        k = begin_link(self.pump, opening)
        if k == NULL:
            return link_requests.NO_ROOM
        link_routed(k)
        put_termini(k.engine, opening.termini)
        attach_first(self.pump, k)
        return None

    def answer(self, uint32_t index, uint32_t generation, given):
        """Answer an attach with the far peer's answer; return False if the link is gone, or the answer too large."""
        cdef worker_link *k = <worker_link *> pool_find2(&self.pump.p.links, index, generation)
        if k == NULL:
            return False
        put_termini(k.engine, given)
        if not attach_answer(self.pump, k):
            return False
        link_routed(k)
        if k.outgoing:
            egress_flow(&self.pump.p, k)
        return True

    def detach(self, uint32_t index, uint32_t generation, error=None):
        """Detach an end without closing it, after the other end; the pump calls the handler's link_lost."""
        cdef pn_link_t *engine = lose_link(self.pump, index, generation, error)
        if engine != NULL:
            pn_link_detach(engine)

    def give_up(self, uint32_t index, uint32_t generation, error):
        """End an end that the router cannot keep; its terminus stays if it is to outlive its connection."""
        cdef worker_link *k = <worker_link *> pool_find2(&self.pump.p.links, index, generation)
        if k == NULL:
            return
        set_condition(pn_link_condition(k.engine), error[0], error[1])
        link_give_up(&self.pump.p, k)
