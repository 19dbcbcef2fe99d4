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
    """A Python array of numbers of four octets, held while native code reads it."""

    cdef Py_buffer held
    cdef bint holds

    def __cinit__(self, values):
        PyObject_GetBuffer(values, &self.held, PyBUF_SIMPLE)
        self.holds = True
        if self.held.len % 4:
            raise ValueError("a column of numbers of 4 octets is needed")

    def __dealloc__(self):
        if self.holds:
            PyBuffer_Release(&self.held)

    cdef uint32_t count(self):
        return <uint32_t> (self.held.len // 4)

    cdef const uint32_t *unsigned(self):
        return <const uint32_t *> self.held.buf

    cdef const int32_t *signed(self):
        return <const int32_t *> self.held.buf


cdef uint64_t name_hash(uint64_t seed, bytes name):
    return alias_hash(seed, <const uint8_t *> PyBytes_AS_STRING(name), <uint32_t> len(name))


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

    ``table`` is a Table. ``rows`` are its rows for certain senders, ascending; ``starts`` says where in ``senders``
    theirs begin, and has one item more. ``names`` are the endpoints'. Raises ValueError and MemoryError.
    """

    cdef route_table *table
    cdef uint64_t *senders
    cdef list held
    cdef route_busiest most

    def __cinit__(self, uint64_t seed, table, rows, starts, list senders not None, list names not None):
        if table is None:          # a recording's, which recorded.pxi fills in
            return
        cdef Column types = Column(table.types), subscriptions = Column(table.subscriptions)
        cdef Column targets = Column(table.targets), sender_rows = Column(rows), sender_starts = Column(starts)
        cdef Column places = Column(table.groups.places), words = Column(table.groups.words)
        cdef uint32_t i, endpoints = <uint32_t> len(names)
        if not types.count() == subscriptions.count() == targets.count():
            raise ValueError("the columns of a route table differ in length")
        if sender_starts.count() != sender_rows.count() + 1:
            raise ValueError("each row for certain senders needs a start, and the end one more")
        self.senders = <uint64_t *> calloc(len(senders) + 1, sizeof(uint64_t))
        if self.senders is NULL:
            raise MemoryError()
        for i, name in enumerate(senders):
            self.senders[i] = name_hash(seed, name)
        cdef route_columns c = route_columns(
            type=types.signed(), subscription=subscriptions.signed(), target=targets.unsigned(), rows=types.count(),
            place=places.unsigned(), word=words.unsigned(), sender_row=sender_rows.unsigned(),
            sender_start=sender_starts.unsigned(), sender_rows=sender_rows.count(), sender=self.senders,
            words=words.count(), senders=<uint32_t> len(senders))
        with nogil:
            self.table = route_build(&c, endpoints)
        if self.table is NULL:
            raise MemoryError()
        self.held = [words, fill_endpoints(&self.table.endpoints, seed, names)]

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
        wanted = [name_hash(seed, one) for one in senders]
        cdef uint32_t i = s.target & ~(<uint32_t> ROUTE_SPECIAL), k
        cdef route_special *special
        while i != ROUTE_NONE:
            special = &self.table.special[i]
            if [self.table.sender[special.senders + k] for k in range(special.sender_count)] == wanted:
                return special.turn
            i = special.next
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
        cdef Column first = Column(types), second = Column(subscriptions)
        cdef const int32_t *type = first.signed()
        cdef const int32_t *subscription = second.signed()
        cdef uint32_t count = first.count(), i, found = 0
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
        cdef Column first = Column(starts), second = Column(owners)
        cdef uint32_t count = second.count(), endpoints = <uint32_t> len(names)
        cdef const uint8_t *bytes_of = <const uint8_t *> PyBytes_AS_STRING(text)
        cdef const uint32_t *start = first.unsigned()
        cdef const uint32_t *owner = second.unsigned()
        if first.count() != count + 1 or start[count] > <uint32_t> len(text):
            raise ValueError("each MEID needs a start, and the end one more")
        with nogil:
            self.owners = route_owners_build(seed, bytes_of, start, owner, count, endpoints)
        if self.owners is NULL:
            raise MemoryError()
        self.held = [text, fill_endpoints(&self.owners.endpoints, seed, names)]

    @property
    def endpoints(self) -> int:
        """The number of owners."""
        return self.owners.endpoints.count

    def __dealloc__(self):
        with nogil:
            route_owners_free(self.owners)


cdef class Routes:
    """The route table of one address in the forwarder's tables: what is in use, and its counts.

    It begins closed.
    """

    cdef Forwarder forwarder
    cdef core_routes routes
    cdef bint ended                # the address is no longer its own, and may be gone
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
        """Grant credit to the table's senders. Raises ValueError after ``close``."""
        if self.ended:
            raise ValueError("a route table that has been closed does not open again; make another for its address")
        self.routes.closed = False
        address_set_routes(self.forwarder.core, self.routes.address, &self.routes)

    def close(self) -> None:
        """End the address's use as a route table for good. Its links to the table find no entries any more."""
        self.ended = True
        address_set_routes(self.forwarder.core, self.routes.address, NULL)

    @property
    def address(self) -> int:
        """The handle of its address."""
        return pool_handle(self.routes.address)

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
        cdef Column column = Column(moved)
        if self.table is not None and column.count() != self.table.table.endpoints.count:
            raise ValueError("each endpoint of the former table needs its present number")
        self.former, self.table, self.moved = self.table, table, column
        routes_use_table(&self.routes, table.table, column.unsigned())
        return self.former

    def use_owners(self, RouteOwners owners not None, moved) -> None:
        """Take a MEID map into use; it is settled at once. Raises ValueError."""
        cdef Column column = Column(moved)
        if self.owners is not None and column.count() != self.owners.owners.endpoints.count:
            raise ValueError("each owner of the former map needs its present number")
        routes_use_owners(&self.routes, owners.owners, column.unsigned())
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
        cdef core_routes *p = &self.routes
        return p.routed, p.no_entry, p.no_endpoint, p.no_owner, p.refused

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


include "recorded.pxi"
