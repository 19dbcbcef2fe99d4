# Included by forward.pyx: route tables as the flight recorder has them (image.h), and as a replay makes them again.

from array import array

cdef extern from "core/forwarder/tables/planes.h" nogil:
    ctypedef struct routes_cursor:
        uint32_t kind, at

cdef extern from "core/rmr/forwarding/image.h" nogil:
    const int ENTRY_ROUTES, ENTRY_TABLE, ENTRY_SLOTS, ENTRY_SPECIALS, ENTRY_SENDERS, ENTRY_WORDS, ENTRY_ENDPOINTS, ENTRY_OWNERS
    ctypedef struct image_routes:
        uint32_t address
        uint8_t table, owners
    ctypedef struct image_table:
        uint32_t keys, specials, senders, words, endpoints
    ctypedef struct image_slot:
        pass
    ctypedef struct image_endpoint:
        uint64_t hash
        uint32_t address
    ctypedef struct image_parts:
        image_table about
        const image_slot *slot
        const route_special *special
        const uint64_t *sender
        const uint32_t *word
        const image_endpoint *endpoint
    bint route_table_fits(const route_table *)
    uint64_t route_table_lines(const route_table *)
    uint32_t route_table_part(const route_table *, routes_cursor *, uint8_t *, uint32_t *)
    const char *route_restore(const image_parts *, route_table **)
    void routes_restore(core_routes *, const image_routes *)
    void endpoints_restore(route_endpoints *, const image_endpoint *)
    core_address *address_numbered(const core_router *, uint32_t)

TABLE_ENTRIES = (ENTRY_ROUTES, ENTRY_OWNERS)   # the first and the last kind of entry that says something of route tables
OWNERS_MOST = 1 << 18                          # owners in a recorded MEID map


def table_lines(RouteTable table not None) -> int | None:
    """Return the lines of the flight recorder that a table takes. None: it is too large for any recording."""
    return route_table_lines(table.table) if route_table_fits(table.table) else None


def table_parts(RouteTable table not None) -> list[tuple[int, bytes]]:
    """Return what a recording has of a table: kinds of entries and their octets."""
    cdef uint8_t octets[16384]
    cdef routes_cursor at
    cdef uint32_t kind, length = 0
    memset(&at, 0, sizeof(at))
    found = []
    while True:
        kind = route_table_part(table.table, &at, octets, &length)
        if not kind:
            return found
        found.append((kind, PyBytes_FromStringAndSize(<char *> octets, length)))


cdef uint64_t stood_in(uint64_t seed, uint64_t hashed):
    """Return the hash of what stands for a name that has this hash in a recording."""
    return name_hash(seed, b"%016x" % hashed)


cdef class TableImage:
    """A route table as a recording has it, which is read part by part."""

    cdef dict parts

    def __cinit__(self):
        self.parts = {}

    def take(self, uint32_t kind, bytes octets not None) -> None:
        """Take a part. Raises ValueError if there is no such kind."""
        if not ENTRY_TABLE <= kind <= ENTRY_ENDPOINTS:
            raise ValueError("a part of a route table is of an unknown kind")
        self.parts.setdefault(kind, []).append(octets)

    cdef bytes joined(self, uint32_t kind):
        return b"".join(self.parts.get(kind, ()))

    cdef bytes part(self, uint32_t kind, uint64_t octets):
        found = self.joined(kind)
        if <uint64_t> len(found) != octets:
            raise ValueError("a route table has another size than it says")
        return found

    def table(self, Forwarder forwarder not None) -> RouteTable:
        """Return the table of the parts taken, which are forgotten. Raises ValueError and MemoryError."""
        cdef core_router *c = forwarder.core
        cdef uint64_t seed = c.aliases.seed
        cdef image_parts from_
        cdef RouteTable made = RouteTable(seed, None, None, None, [], [])
        cdef uint32_t i
        memset(&from_, 0, sizeof(from_))
        cdef bytes about = self.part(ENTRY_TABLE, sizeof(image_table))
        memcpy(&from_.about, PyBytes_AS_STRING(about), sizeof(image_table))
        cdef bytes slots = self.part(ENTRY_SLOTS, <uint64_t> from_.about.keys * sizeof(image_slot))
        cdef bytes specials = self.part(ENTRY_SPECIALS, <uint64_t> from_.about.specials * sizeof(route_special))
        cdef bytes senders = self.part(ENTRY_SENDERS, <uint64_t> from_.about.senders * sizeof(uint64_t))
        cdef bytes endpoints = self.part(ENTRY_ENDPOINTS, <uint64_t> from_.about.endpoints * sizeof(image_endpoint))
        cdef Column words = Column(self.part(ENTRY_WORDS, <uint64_t> from_.about.words * sizeof(uint32_t)))
        self.parts = {}
        made.senders = <uint64_t *> calloc(from_.about.senders + 1, sizeof(uint64_t))
        if made.senders is NULL:
            raise MemoryError()
        for i in range(from_.about.senders):
            made.senders[i] = stood_in(seed, (<const uint64_t *> PyBytes_AS_STRING(senders))[i])
        from_.slot = <const image_slot *> PyBytes_AS_STRING(slots)
        from_.special = <const route_special *> PyBytes_AS_STRING(specials)
        from_.endpoint = <const image_endpoint *> PyBytes_AS_STRING(endpoints)
        from_.sender, from_.word = made.senders, words.unsigned()
        cdef const char *wrong = route_restore(&from_, &made.table)
        if wrong is not NULL:
            raise ValueError(wrong.decode())
        names = [b"%016x" % from_.endpoint[i].hash for i in range(from_.about.endpoints)]
        made.held = [words, fill_endpoints(&made.table.endpoints, seed, names)]
        endpoints_restore(&made.table.endpoints, from_.endpoint)
        return made


def numbered_owners(Forwarder forwarder not None, uint32_t count) -> RouteOwners:
    """Return a MEID map as a replay has it: the MEIDs are numbers of four octets, those of their owners."""
    if count > OWNERS_MOST:
        raise ValueError(f"{count} owners are more than a recording has")
    numbers, starts = array("I", range(count)), array("I", range(0, 4 * count + 4, 4))
    return RouteOwners(forwarder.core.aliases.seed, numbers.tobytes(), starts, numbers, [b""] * count)


cdef list bound(core_router *c, bytes endpoints):
    """Return the numbers of endpoints that have an address, and its handle."""
    cdef const image_endpoint *image = <const image_endpoint *> PyBytes_AS_STRING(endpoints)
    cdef core_address *a
    cdef uint32_t i
    found = []
    for i in range(len(endpoints) // sizeof(image_endpoint)):
        a = address_numbered(c, image[i].address)
        if a is not NULL:
            found.append((i, pool_handle(a)))
    return found


def restored_routes(
    Forwarder forwarder not None, bytes about not None, TableImage table not None, bytes owners not None
) -> tuple[Routes, list[tuple[int, int, int]]]:
    """Return a route table in use, as a checkpoint's entries say, and what its endpoints are to be bound to.

    Raises ValueError and MemoryError.
    """
    cdef core_router *c = forwarder.core
    cdef image_routes image
    cdef RouteTable made = None
    cdef RouteOwners map = None
    if PyBytes_GET_SIZE(about) != sizeof(image) or len(owners) % sizeof(image_endpoint):
        raise ValueError("an entry is too short or too long")
    memcpy(&image, PyBytes_AS_STRING(about), sizeof(image))
    cdef core_address *a = address_numbered(c, image.address)
    if a is NULL or a.routes is not NULL:
        raise ValueError("a route table is of no address, or there twice")
    cdef list bindings = [(i, -1, handle) for i, handle in bound(c, table.joined(ENTRY_ENDPOINTS))]
    if image.table:
        made = table.table(forwarder)
    if image.owners:
        map = numbered_owners(forwarder, <uint32_t> (len(owners) // sizeof(image_endpoint)))
        endpoints_restore(&map.owners.endpoints, <const image_endpoint *> PyBytes_AS_STRING(owners))
    cdef bint redirects = a.redirects
    cdef Routes one = Routes(forwarder, pool_handle(a))
    routes_restore(&one.routes, &image)
    a.redirects = redirects
    one.table, one.owners = made, map
    one.routes.table = NULL if made is None else made.table
    one.routes.owners = NULL if map is None else map.owners
    return one, bindings + [(-1, i, handle) for i, handle in bound(c, owners)]
