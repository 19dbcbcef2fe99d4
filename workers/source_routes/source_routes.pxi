"""Workers of source routes (route_take.h): their table, and who sends on a link."""

from libc.stdlib cimport free, malloc


cdef int scope_of(void *self, uint32_t worker, const route_stop *s, uint8_t *scope, uint32_t room) noexcept with gil:
    """Python tells the scope of an address, where a pattern says what that is."""
    cdef Pump pump = <Pump> self
    cdef bytes found
    try:
        answer = pump.handler.senders.scope(worker, PyBytes_FromStringAndSize(<const char *> s.at, s.length))
    except Exception as error:
        failures.tell(f"the scope of an address for worker {worker} of source routes", error, "there is none")
        return -1
    if answer is None or len(answer) > room:
        return -1
    found = answer
    memcpy(scope, <const char *> found, len(found))
    return <int> len(found)


cdef uint8_t *change_of(void *self, uint32_t worker, const uint8_t *data, size_t size, size_t *changed) noexcept with gil:
    """Python changes the data of a message."""
    cdef Pump pump = <Pump> self
    cdef bytes made
    cdef uint8_t *memory
    try:
        answer = pump.handler.senders.change(worker, PyBytes_FromStringAndSize(<const char *> data, size))
    except Exception as error:
        failures.tell(f"the transform of worker {worker} of source routes", error, "the message is refused")
        return NULL
    if answer is None:
        return NULL
    made = answer
    memory = <uint8_t *> malloc(len(made) + 1)
    if memory != NULL:
        memcpy(memory, <const char *> made, len(made))
        changed[0] = len(made)
    return memory


cdef class Routes:
    """The workers of one pump, which must outlive this."""

    cdef Pump pump
    cdef route_engine engine

    def __cinit__(self, Pump pump):
        self.pump = pump
        if not route_engine_open(&self.engine):
            raise MemoryError("no memory for workers of source routes")
        self.engine.self = <void *> pump
        self.engine.scope = scope_of
        self.engine.change = change_of

    def __dealloc__(self):
        route_engine_close(&self.engine)

    def set(self, bytes table):
        """The workers from now on, as workers.routes compiles them; None: there are none, and nothing is looked for."""
        cdef route_table *t
        if table is None:
            self.pump.p.routes = NULL
            return
        t = route_table_load(<const uint8_t *> <const char *> table, len(table))
        if t == NULL:
            raise ValueError("the table of workers makes no sense, or there is no memory for it")
        route_engine_set(&self.engine, t)
        self.pump.p.routes = &self.engine

    def sender(self, uint32_t index, uint32_t generation, bint inter_router, target, names, bint foreign, bytes reach):
        """Who sends on an incoming link: ``target``, the type and octets of its address, or None: anonymous; ``names``: numbers of the
        sources that it is; ``reach``: for each address of a worker 0 or 1, None: it may send to all."""
        cdef wlink *k = <wlink *> pool_find2(&self.pump.p.links, index, generation)
        cdef route_stop stop
        cdef const route_entry *entry
        cdef bytes name
        if k == NULL or self.engine.table == NULL:
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
        """Ask again who sends on a link."""
        cdef wlink *k = <wlink *> pool_find2(&self.pump.p.links, index, generation)
        if k != NULL:
            k.sender.epoch = 0

    def counts(self):
        """What each worker has counted since the last time: in, out, and refused by reason; those that have counted nothing are left out."""
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
    """The address of an incoming link's target as this side has it; None: it has none."""
    cdef const char *address = pn_terminus_get_address(pn_link_target(engine))
    return None if address == NULL or address[0] == 0 else text(address)
