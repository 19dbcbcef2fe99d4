"""ATTACHs, none of which is larger than its peer takes (AMQP 1.0 part 2.7.1). Included by pump.pyx.

Neither can an ATTACH be split, nor can the engine take one back. So its size is known before: names, addresses and what
peers have encoded, and a bound of all the rest.
"""

cdef enum:
    ATTACH_REST = 48          # octets, with a handle of 5 and a max-message-size of 9
    TERMINUS_REST = 40        # of each terminus, with expiry policy, timeout and distribution mode

cdef str TOO_SMALL = "amqp:frame-size-too-small"


cdef size_t text_octets(const char *s):
    return 0 if s == NULL else strlen(s) + 5


cdef size_t data_octets(pn_data_t *d):
    cdef ssize_t size = pn_data_encoded_size(d) if d != NULL and pn_data_size(d) else 0
    return size if size > 0 else 0


cdef size_t terminus_octets(pn_terminus_t *t):
    return (TERMINUS_REST + text_octets(pn_terminus_get_address(t)) + data_octets(pn_terminus_properties(t))
            + data_octets(pn_terminus_capabilities(t)) + data_octets(pn_terminus_outcomes(t)) + data_octets(pn_terminus_filter(t)))


cdef size_t attach_bound(pn_link_t *engine):
    """Return the size of the frame of a link's ATTACH, or up to 100 octets more."""
    return (ATTACH_REST + text_octets(pn_link_name(engine)) + terminus_octets(pn_link_source(engine))
            + terminus_octets(pn_link_target(engine)) + data_octets(pn_link_properties(engine)))


cdef refuse_attach(pn_link_t *engine, str name, str description):
    """Attach with a null terminus, then detach with an error (AMQP 1.0 part 2.6.3)."""
    pn_link_open(engine)
    set_condition(pn_link_condition(engine), name, description)
    pn_link_close(engine)


cdef attach_first(Pump pump, worker_link *k):
    """Attach a link of ours. One whose ATTACH is too large is refused as if its peer had done so.

    The peer's answer repeats name and addresses, so it has to fit a frame that we take, too.
    """
    cdef size_t size = attach_bound(k.engine)
    cdef uint32_t most = frame_largest(k.conn), ours = pn_transport_get_max_frame(k.conn.transport)
    if ours and ours < most:
        most = ours
    if size <= most:
        dial_attach(&pump.p, k)
        return
    mark_dirty(&pump.p, k.conn)
    set_condition(pn_link_condition(k.engine), TOO_SMALL, (
        f"The router would need an ATTACH of up to {size} octets for this link, and frames on its way have {most} at most: "
        "shorten the link's name, addresses, filters or properties, or raise maxFrameSize there"))
    dial_forget(&pump.p, k)


cdef bint attach_answer(Pump pump, worker_link *k) except -1:
    """Answer an attach with the termini that its link has. Refuse one whose answer is too large; return False then."""
    cdef size_t size = attach_bound(k.engine)
    cdef uint32_t most = frame_largest(k.conn)
    cdef pn_link_t *engine = k.engine
    mark_dirty(&pump.p, k.conn)
    if size <= most:
        pn_link_open(engine)
        k.open = True
        return True
    error = TOO_SMALL, (f"The answer to this ATTACH would have up to {size} octets, and your max-frame-size is {most}: "
                        "raise it, or use shorter names, addresses, filters or properties")
    pump.handler.unanswerable(pool_index(&pump.p.links, k), k.slot.generation, pool_index(&pump.p.conns, k.conn),
                              text(pn_link_name(engine)), error)
    link_free(&pump.p, k)
    pn_terminus_set_type(pn_link_source(engine), PN_UNSPECIFIED)
    pn_terminus_set_type(pn_link_target(engine), PN_UNSPECIFIED)
    pn_data_clear(pn_link_properties(engine))
    refuse_attach(engine, error[0], error[1])
    return False
