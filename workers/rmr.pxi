"""Connections of RMR applications (rmr.h): what workers.rmr asks of the pump, and what it is told."""

cdef extern from "stdlib.h" nogil:
    void *calloc(size_t, size_t)


cdef bint rmr_dispatch(Pump pump, int event, uint32_t index, wconn *c) except -1:
    """Tell of a connection that speaks RMR. False: the event is like that of others."""
    if event == EV_RMR_OPEN:
        if not pump.p.away:   # otherwise it is told with the others: tell_all()
            c.known = True
            pump.rmr.opened(index, c.slot.generation)
        return True
    if event == EV_CONNECTION_GONE:
        pump.rmr.gone(index, c.slot.generation, c.opened, text(c.rmr.why))
        return True
    return False


cdef uint32_t put_address(char *place, str value) except? 0:
    cdef bytes b = value.encode("utf-8", "surrogateescape")
    cdef uint32_t length = len(b)
    if length + RMR_NUMBER + 1 >= RMR_ADDRESS_MAX:
        raise ValueError(f"an address of {length} octets is too long for RMR: {value[:40]}…")
    memcpy(place, <const char *> b, length + 1)
    return length


cdef class RmrTransport:
    """The native side of one pump's RMR connections. ``handler`` is told ``opened(index, generation)``, ``gone(index, generation,
    opened, why)``, and of what a new core is to be told: ``present(index, generation)``, then ``link_present(link)``."""

    cdef Pump pump

    def __cinit__(self, Pump pump, handler):
        self.pump = pump
        pump.rmr = handler

    def add_place(self, uint32_t capacity):
        """Terms of connections that this side makes. Returns their place."""
        cdef wlistener *l = dial_place(&self.pump.p)
        if l == NULL:
            raise ValueError(f"more than {MAX_LISTENERS} listening sockets and connectors")
        l.link_capacity = capacity
        return l - self.pump.p.listeners

    def speak(self, int place, str address, str control, str back, str source, uint64_t nonce, uint32_t most, int reply, bint replies):
        """Connections of a place speak RMR, and their messages go to the route table at ``address``. Raises ValueError.

        ``control`` is where messages about tables go, ``back`` what addresses of connections begin with, ``source`` the host:port
        that replies are to be sent to; ``reply`` as enum rmr_reply, ``replies`` as rmr_terms.
        """
        cdef wlistener *l = self.pump.listener(place)
        cdef bytes b = source.encode()
        if len(b) > 63:
            raise ValueError(f"{source} is longer than the 63 octets that RMR has room for")
        if l.rmr == NULL:
            l.rmr = <rmr_terms *> calloc(1, sizeof(rmr_terms))
        if l.rmr == NULL:
            raise MemoryError()
        l.rmr.address_length = put_address(l.rmr.address, address)
        l.rmr.control_length = put_address(l.rmr.control, control)
        l.rmr.back_length = put_address(l.rmr.back, back)
        memset(l.rmr.source, 0, 64)
        memcpy(l.rmr.source, <const char *> b, len(b))
        l.rmr.nonce, l.rmr.most, l.rmr.reply, l.rmr.replies = nonce, most, reply, replies

    def dial(self, int place, int fd):
        """A connection on a socket that is being connected, from now on the pump's. Returns its (index, generation); None: there is
        no room."""
        cdef wconn *c
        self.pump.listener(place)
        self.pump.p.now_ms = clock_ns() // 1000000
        c = rmr_new(&self.pump.p, fd, place, True)
        return None if c == NULL else (pool_index(&self.pump.p.conns, c), c.slot.generation)

    def attach(self, uint32_t index, uint32_t number, int which):
        """A link of an open connection: 0 to its table, 1 to anywhere, 2 from its endpoint's address, 3 from its own. Returns (index,
        generation, capacity); None: there is no room."""
        cdef wconn *c = <wconn *> pool_at(&self.pump.p.conns, index)
        cdef wlink *k = rmr_link(&self.pump.p, c, which >= 2)
        if k == NULL:
            return None
        c.rmr.number = number
        if which == 0: c.rmr.data = k
        elif which == 1: c.rmr.other = k
        elif which == 2: c.rmr.out = k
        else: c.rmr.back = k
        return pool_index(&self.pump.p.links, k), k.slot.generation, k.capacity

    def link_open(self, uint32_t index, uint32_t generation, bint keyed):
        """The core has let a link in."""
        cdef wlink *k = <wlink *> pool_find2(&self.pump.p.links, index, generation)
        if k != NULL:
            k.open, k.keyed = True, keyed
            mark_dirty(&self.pump.p, k.conn)

    def close(self, uint32_t index, uint32_t generation):
        """End a connection."""
        close_connection(self.pump, <wconn *> pool_find2(&self.pump.p.conns, index, generation), None)

    def end_round(self):
        """Let `Pump.run` come back after this turn."""
        self.pump.p.woken = True
