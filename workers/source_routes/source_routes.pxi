"""Route workers (take.c): their table, and the senders on links."""

from libc.stdlib cimport free, malloc


cdef int scope_of(void *self, uint32_t worker, const route_stop *s, uint8_t *scope, uint32_t room) noexcept with gil:
    """Find the scope of an address by a route worker's pattern, in Python; return its length or -1."""
    cdef Pump pump = <Pump> self
    cdef bytes found
    try:
        answer = pump.handler.senders.scope(worker, PyBytes_FromStringAndSize(<const char *> s.at, s.length))
    except Exception as error:
        failures.tell(f"finding the scope of an address for route worker {worker}", error, "the address has none")
        return -1
    if answer is None or len(answer) > room:
        return -1
    found = answer
    memcpy(scope, <const char *> found, len(found))
    return <int> len(found)


cdef uint8_t *change_of(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed) noexcept with gil:
    """Apply a transform to the data of a message, in Python; return allocated memory, or NULL if it fails."""
    cdef Pump pump = <Pump> self
    cdef bytes made
    cdef uint8_t *memory
    try:
        answer = pump.handler.senders.change(worker, PyBytes_FromStringAndSize(<const char *> data, size))
    except Exception as error:
        failures.tell(f"the transform of route worker {worker}", error, "the message is refused")
        return NULL
    if answer is None:
        return NULL
    made = answer
    memory = <uint8_t *> malloc(len(made) + 1)
    if memory != NULL:
        memcpy(memory, <const char *> made, len(made))
        changed[0] = len(made)
    return memory


cdef class Routes(PumpPart):
    """The route workers of one pump, which must outlive this object."""

    cdef route_engine engine

    def __cinit__(self, Pump pump):
        if not route_engine_open(&self.engine):
            raise MemoryError("no memory for route workers")
        self.engine.self = <void *> pump
        self.engine.scope = scope_of
        self.engine.change = change_of

    def __dealloc__(self):
        route_engine_close(&self.engine)

    def set(self, bytes table):
        """Replace the route workers by a table of workers.source_routes.table; None disables source routes.

        Raises ValueError.
        """
        cdef route_table *t
        if table is None:
            self.pump.p.routes = NULL
            return
        t = route_table_load(<const uint8_t *> <const char *> table, len(table))
        if t == NULL:
            raise ValueError("the table of route workers is malformed, or there is no memory for it")
        route_engine_set(&self.engine, t)
        self.pump.p.routes = &self.engine

    def sender(self, uint32_t index, uint32_t generation, bint inter_router, target, names, bint foreign, bytes reach):
        """Set the sender on an incoming link.

        ``target`` is type and octets of the link's address, None for an anonymous link. ``names`` are the numbers
        of the sources that the sender is. ``reach`` has a byte for each route worker's address, 1 if the sender
        may send there; None permits all.
        """
        cdef worker_link *k = <worker_link *> pool_find2(&self.pump.p.links, index, generation)
        cdef route_stop stop
        cdef const route_entry *entry
        cdef bytes name
        if k == NULL or k.sender == NULL or self.engine.table == NULL:
            return
        memset(&k.sender.source, 0, sizeof(k.sender.source))
        k.sender.inter_router, k.sender.anonymous, k.sender.source.foreign = inter_router, target is None, foreign
        for one in names:
            k.sender.source.names.bits[<int> one // 64] |= (<uint64_t> 1) << (<int> one % 64)
        k.sender.off = False
        if target is not None:
            name = target[1]
            stop.type, stop.length, stop.at = target[0], <uint16_t> min(len(name), 0xffff), <const uint8_t *> <const char *> name
            entry = route_find(self.engine.table, &stop)
            k.sender.off = entry == NULL
            k.sender.entry = 0 if entry == NULL else <uint32_t> (entry - self.engine.table.entry)
        free(k.sender.reach)
        k.sender.reach = NULL
        k.sender.limited = reach is not None
        if reach is not None and len(reach) >= self.engine.table.entry_count:
            k.sender.reach = <uint8_t *> malloc(len(reach) + 1)
            if k.sender.reach != NULL:
                memcpy(k.sender.reach, <const char *> reach, len(reach))

    def forget_sender(self, uint32_t index, uint32_t generation):
        """Forget the sender on a link; the next message asks again."""
        cdef worker_link *k = <worker_link *> pool_find2(&self.pump.p.links, index, generation)
        if k != NULL and k.sender != NULL:
            k.sender.epoch = 0

    def counts(self):
        """Return the increments of each route worker since the last call: in, out, and refused by reason.

        Route workers without increments are absent.
        """
        cdef uint32_t i, j
        cdef route_worker *w
        found = {}
        if self.engine.table == NULL:
            return found
        for i in range(self.engine.table.worker_count):
            w = &self.engine.table.worker[i]
            if w.in_:
                found[i] = (w.in_, w.out, [w.refused[j] for j in range(ROUTE_REASONS)])
            w.in_ = w.out = 0
            memset(w.refused, 0, sizeof(w.refused))
        return found


cdef target_of(pn_link_t *engine):
    """Return the router's address of an incoming link's target; None if it has none."""
    cdef const char *address = pn_terminus_get_address(pn_link_target(engine))
    return None if address == NULL or address[0] == 0 else text(address)
