# Included by forward.pyx: route tables.

cdef extern from "core/rmr/forwarding/active_tables.h" nogil:
    ctypedef struct route_busiest_row:
        int32_t type, subscription
        uint64_t turns
    ctypedef struct route_busiest:
        route_busiest_row *row
        uint32_t count
    bint route_busiest_step(const route_table *, route_busiest *)

NO_TARGET = ROUTE_NONE     # as a target: the entry was deleted; in `moved`: the endpoint is gone


cdef class Column:
    """A Python array, held while native code reads it."""

    cdef Py_buffer held
    cdef bint holds

    def __cinit__(self, values, Py_ssize_t itemsize):
        PyObject_GetBuffer(values, &self.held, PyBUF_SIMPLE)
        self.holds = True
        if self.held.len % itemsize:
            raise ValueError(f"a column of numbers of {itemsize} octets is needed")

    def __dealloc__(self):
        if self.holds:
            PyBuffer_Release(&self.held)

    cdef uint32_t count(self):
        return <uint32_t> (self.held.len // 4)


cdef bytes fill_endpoints(route_endpoints *to, uint64_t seed, list names):
    """Fill in the names of endpoints. Return their text, which must outlive them."""
    cdef bytes text = b"".join(names)
    cdef uint32_t at = 0, i, length
    cdef const uint8_t *bytes_of = <const uint8_t *> PyBytes_AS_STRING(text)
    to.names = bytes_of
    for i in range(to.count):
        length = <uint32_t> len(<bytes> names[i])
        to.at[i].name = at
        to.at[i].length = length
        to.at[i].hash = alias_hash(seed, bytes_of + at, length)
        at += length
    return text


cdef class RouteTable:
    """A route table for the forwarder. Any thread may build it; the interpreter lock is released meanwhile.

    ``given`` are TableColumns, ``names`` the endpoints'. Raises ValueError and MemoryError.
    """

    cdef route_table *table
    cdef uint64_t *senders
    cdef list held
    cdef route_busiest most

    def __cinit__(self, uint64_t seed, given not None, list senders not None, list names not None):
        columns = [Column(one, 4) for one in (given.types, given.subscriptions, given.targets, given.places, given.words,
                                              given.sender_rows, given.sender_starts)]
        cdef route_columns c
        cdef uint32_t i, endpoints = <uint32_t> len(names)
        if not (<Column> columns[0]).count() == (<Column> columns[1]).count() == (<Column> columns[2]).count():
            raise ValueError("the columns of a route table differ in length")
        if (<Column> columns[6]).count() != (<Column> columns[5]).count() + 1:
            raise ValueError("each row for certain senders needs a start, and the end one more")
        c.type = <const int32_t *> (<Column> columns[0]).held.buf
        c.subscription = <const int32_t *> (<Column> columns[1]).held.buf
        c.target = <const uint32_t *> (<Column> columns[2]).held.buf
        c.rows = (<Column> columns[0]).count()
        c.place = <const uint32_t *> (<Column> columns[3]).held.buf
        c.word = <const uint32_t *> (<Column> columns[4]).held.buf
        c.sender_row = <const uint32_t *> (<Column> columns[5]).held.buf
        c.sender_rows = (<Column> columns[5]).count()
        c.sender_start = <const uint32_t *> (<Column> columns[6]).held.buf
        self.senders = <uint64_t *> calloc(len(senders) + 1, sizeof(uint64_t))
        if self.senders is NULL:
            raise MemoryError()
        for i, name in enumerate(senders):
            self.senders[i] = alias_hash(seed, <const uint8_t *> PyBytes_AS_STRING(<bytes?> name), <uint32_t> len(<bytes> name))
        c.sender = self.senders
        with nogil:
            self.table = route_build(&c, endpoints)
        if self.table is NULL:
            raise MemoryError()
        self.held = [columns[4], fill_endpoints(&self.table.endpoints, seed, names)]

    def __dealloc__(self):
        with nogil:
            route_table_free(self.table)
            free(self.senders)

    @property
    def entries(self) -> int:
        """The number of entries in force."""
        return self.table.entries

    def turns(self, int32_t type, int32_t subscription, list senders not None, uint64_t seed) -> int:
        """Return how many messages took the entry of a key for exactly these senders; none means all senders."""
        cdef route_slot *s = route_slot_of(self.table, type, subscription)
        if s is NULL:
            return 0
        if not s.target & ROUTE_SPECIAL:
            return 0 if senders else route_slot_turns(self.table, s)
        wanted = [alias_hash(seed, <const uint8_t *> PyBytes_AS_STRING(<bytes?> one), <uint32_t> len(<bytes> one)) for one in senders]
        cdef uint32_t i = s.target & ~(<uint32_t> ROUTE_SPECIAL), k
        while i != ROUTE_NONE:
            if [self.table.sender[self.table.special[i].senders + k] for k in range(self.table.special[i].sender_count)] == wanted:
                return self.table.special[i].turn
            i = self.table.special[i].next
        return 0

    def busiest(self) -> list[tuple[int, int, int]] | None:
        """Examine a portion of the table.

        Return type, subscription and messages of the busiest keys at the end of a pass, else None.
        """
        cdef route_busiest *b = &self.most
        if not route_busiest_step(self.table, b):
            return None
        return [(b.row[i].type, b.row[i].subscription, b.row[i].turns) for i in range(b.count)]

    def probe(self, types, subscriptions, uint32_t rounds) -> int:
        """Look up all keys of two columns ``rounds`` times, for measurements. Return how many were found."""
        keys = Column(types, 4), Column(subscriptions, 4)
        cdef const int32_t *type = <const int32_t *> (<Column> keys[0]).held.buf
        cdef const int32_t *subscription = <const int32_t *> (<Column> keys[1]).held.buf
        cdef uint32_t count = (<Column> keys[0]).count(), i, found = 0
        cdef uint64_t turn = 0
        with nogil:
            while rounds:
                rounds -= 1
                for i in range(count):
                    if i + 3 < count:
                        route_prefetch(self.table, type[i + 3], subscription[i + 3])
                    found += route_find_target(self.table, type[i], subscription[i], 0, &turn) != ROUTE_GONE
        return found


cdef class RouteOwners:
    """The owners of managed entities, for the forwarder.

    ``starts`` says where in ``text`` each MEID begins and has one item more, the end; ``owners`` are indices
    into ``names``.
    """

    cdef route_owners *owners
    cdef list held

    def __cinit__(self, uint64_t seed, bytes text not None, starts, owners, list names not None):
        columns = Column(starts, 4), Column(owners, 4)
        cdef uint32_t count = (<Column> columns[1]).count(), endpoints = <uint32_t> len(names)
        cdef const uint8_t *bytes_of = <const uint8_t *> PyBytes_AS_STRING(text)
        cdef const uint32_t *start = <const uint32_t *> (<Column> columns[0]).held.buf
        cdef const uint32_t *owner = <const uint32_t *> (<Column> columns[1]).held.buf
        if (<Column> columns[0]).count() != count + 1 or start[count] > <uint32_t> len(text):
            raise ValueError("each MEID needs a start, and the end one more")
        with nogil:
            self.owners = route_owners_build(seed, bytes_of, start, owner, count, endpoints)
        if self.owners is NULL:
            raise MemoryError()
        self.held = [text, fill_endpoints(&self.owners.endpoints, seed, names)]

    def __dealloc__(self):
        with nogil:
            route_owners_free(self.owners)


cdef class Routes:
    """The route table of one address in the forwarder's tables: what is in use, and its counts.

    It begins closed.
    """

    cdef Forwarder forwarder
    cdef core_routes routes
    cdef RouteTable table
    cdef RouteTable former
    cdef RouteOwners owners
    cdef Column moved

    def __cinit__(self, Forwarder forwarder not None, uint64_t address):
        self.forwarder = forwarder
        self.routes.address = forwarder.address(address)
        self.routes.skip_dead = True
        self.routes.closed = True
        address_set_routes(forwarder.core, self.routes.address, &self.routes)

    def open(self) -> None:
        """Grant credit to the table's senders."""
        self.routes.closed = False
        address_set_routes(self.forwarder.core, self.routes.address, &self.routes)

    def close(self) -> None:
        """End the address's use as a route table. Its links to the table find no entries any more."""
        address_set_routes(self.forwarder.core, self.routes.address, NULL)

    @property
    def seed(self) -> int:
        """The seed of text hashes. Tables built with another one do not work here."""
        return self.forwarder.core.aliases.seed

    def set_skip_dead(self, bint skip) -> None:
        """Set whether members of groups without a receiver are skipped."""
        self.routes.skip_dead = skip

    def use_table(self, RouteTable table not None, moved) -> "RouteTable | None":
        """Take a table into use. Return the former one, which must be kept until ``settle`` returns True.

        ``moved`` maps each endpoint of the former table to its present number. Call it only after ``settle``
        has returned True. Raises ValueError.
        """
        if self.routes.former is not NULL:
            raise ValueError("the former table is not settled yet")
        column = Column(moved, 4)
        if self.table is not None and column.count() != self.table.table.endpoints.count:
            raise ValueError("each endpoint of the former table needs its present number")
        self.former, self.table, self.moved = self.table, table, column
        routes_use_table(&self.routes, table.table, <const uint32_t *> column.held.buf)
        return self.former

    def use_owners(self, RouteOwners owners not None, moved) -> None:
        """Take a MEID map into use; it is settled at once. Raises ValueError."""
        column = Column(moved, 4)
        if self.owners is not None and column.count() != self.owners.owners.endpoints.count:
            raise ValueError("each owner of the former map needs its present number")
        routes_use_owners(&self.routes, owners.owners, <const uint32_t *> (<Column> column).held.buf)
        self.owners = owners

    def settle(self) -> bool:
        """Move a portion of the former table's counts. Return True when all have been moved."""
        if not routes_settle(&self.routes):
            return False
        self.former = None
        return True

    def bind(self, int endpoint, int owner, uint64_t address) -> None:
        """Bind an endpoint to an address.

        ``endpoint`` and ``owner`` are its numbers, or -1. ``address`` is a handle, or 0 if the address is
        gone.
        """
        cdef core_address *a = self.forwarder.address(address) if address else NULL
        if endpoint >= 0 and self.table is not None and <uint32_t> endpoint < self.table.table.endpoints.count:
            self.table.table.endpoints.at[endpoint].address = a
        if owner >= 0 and self.owners is not None and <uint32_t> owner < self.owners.owners.endpoints.count:
            self.owners.owners.endpoints.at[owner].address = a

    def counts(self) -> tuple[int, int, int, int, int]:
        """Return the messages routed, without entry, without endpoint, without owner, and refused."""
        return self.routes.routed, self.routes.no_entry, self.routes.no_endpoint, self.routes.no_owner, self.routes.refused

    def unroutable(self) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]:
        """Return the messages without entry, endpoint or owner, each with the key of the last one."""
        cdef core_routes *p = &self.routes
        return (
            (p.no_entry, p.unroutable[ROUTES_NO_ENTRY].type, p.unroutable[ROUTES_NO_ENTRY].subscription),
            (p.no_endpoint, p.unroutable[ROUTES_NO_ENDPOINT].type, p.unroutable[ROUTES_NO_ENDPOINT].subscription),
            (p.no_owner, p.unroutable[ROUTES_NO_OWNER].type, p.unroutable[ROUTES_NO_OWNER].subscription),
        )

    def endpoint(self, int endpoint, int owner) -> tuple[int, int]:
        """Return the messages sent to an endpoint and those that found no receiver.

        Numbers are as for ``bind``.
        """
        cdef uint64_t sent = 0, missed = 0
        if endpoint >= 0 and self.table is not None and <uint32_t> endpoint < self.table.table.endpoints.count:
            sent += self.table.table.endpoints.at[endpoint].sent
            missed += self.table.table.endpoints.at[endpoint].missed
        if owner >= 0 and self.owners is not None and <uint32_t> owner < self.owners.owners.endpoints.count:
            sent += self.owners.owners.endpoints.at[owner].sent
            missed += self.owners.owners.endpoints.at[owner].missed
        return sent, missed
