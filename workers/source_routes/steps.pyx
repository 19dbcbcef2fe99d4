# cython: language_level=3, freethreading_compatible=False
"""Takes messages through the route workers of one router step by step, as worker processes do, without sockets."""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from shm.contract.source_routes import REASONS
from workers.source_routes.routes cimport *

cdef extern from "workers/source_routes/single.h" nogil:
    ctypedef struct scan_found:
        pass
    const uint8_t *single_write(route_engine *, const route_run *, const uint8_t *, const scan_found *)
    void single_push(route_path *, const route_stop *)
    void single_clean(route_engine *)
    route_level *single_new(route_engine *, scan_found *)
    int single_sent(route_engine *)
    int single_step(route_engine *, const route_sender *, uint32_t, const uint8_t *, size_t, scan_found *)
    uint8_t *single_unchanged(void *, uint32_t, const uint8_t *, size_t, size_t *) noexcept
    const route_level *single_inside(const route_run *)

STATES = ("complete", "partial", "none")


class StepRefusedError(Exception):
    """A route worker refuses the message; ``reason`` is the counter's name, ``detail`` a sentence."""

    def __init__(self, reason, condition, detail):
        super().__init__(detail)
        self.reason = reason
        self.condition = condition
        self.detail = detail


cdef int scope_of(void *self, uint32_t worker, const route_stop *s, uint8_t *scope, uint32_t room) noexcept with gil:
    cdef bytes found = (<Steps> self).scopes(worker, PyBytes_FromStringAndSize(<const char *> s.at, s.length))
    if found is None or len(found) > room:
        return -1
    memcpy(scope, PyBytes_AS_STRING(found), len(found))
    return <int> len(found)


cdef tuple path_of(const route_path *path):
    cdef const route_stop *s
    cdef list found = []
    cdef int32_t i
    for i in range(<int32_t> path.count - 1, -1, -1):
        s = &path.stop[i]
        found.append((s.type, PyBytes_FromStringAndSize(<const char *> s.at, s.length)))
    return tuple(found)


cdef fill(route_path *path, route):
    cdef route_stop stop
    cdef bytes name
    if len(route) > ROUTE_STOPS:
        path.count = <uint32_t> len(route)   # no limit allows so many: single_sent() looks no further
        return
    for kind, name in reversed(route):
        stop.type, stop.length, stop.at = kind, <uint16_t> min(len(name), 0xffff), <const uint8_t *> PyBytes_AS_STRING(name)
        single_push(path, &stop)


cdef class Steps:
    """The route workers of a compiled table (table.py). ``scopes`` finds the scope of an address by a worker's number.

    A route is a tuple of addresses, each its type and octets. A message is the octets that would leave a router.
    """

    cdef route_engine engine
    cdef scan_found found
    cdef object scopes

    def __cinit__(self, bytes table, scopes):
        cdef route_table *loaded
        if not route_engine_open(&self.engine):
            raise MemoryError("no memory for route workers")
        loaded = route_table_load(<const uint8_t *> PyBytes_AS_STRING(table), len(table))
        if loaded == NULL:
            raise ValueError("the table of route workers is malformed")
        route_engine_set(&self.engine, loaded)
        self.scopes = scopes
        self.engine.self = <void *> self
        self.engine.scope = scope_of
        self.engine.change = single_unchanged

    def __dealloc__(self):
        route_engine_close(&self.engine)

    def sent(self, onward, returning):
        """Return a new message without data, as its sender would send it. Raises StepRefusedError."""
        cdef route_level *level = single_new(&self.engine, &self.found)
        fill(&level.onward, onward)
        fill(&level.returning, returning)
        if single_sent(&self.engine) == ROUTE_REFUSED:
            raise self.refused()
        return self.left(&self.engine.run, b"")

    def step(self, bytes message, int32_t sender, numbers, bint foreign):
        """Take a message through the worker at its first address; return what leaves, the copies of a tee last.

        ``sender`` is the number of the route worker that the message comes from, or -1; then ``numbers`` are those of
        the source's names, and ``foreign`` tells whether it is an uplink. The result is None if no route worker here
        has this address. Raises StepRefusedError.
        """
        cdef route_sender who
        cdef uint32_t from_ = ROUTE_NOBODY
        cdef route_run *copy
        cdef int done, i
        memset(&who, 0, sizeof(who))
        who.anonymous, who.source.foreign = True, foreign
        for i in numbers:
            who.source.names.bits[i // 64] |= (<uint64_t> 1) << (i % 64)
        if sender >= 0:
            if <uint32_t> sender >= self.engine.table.worker_count:
                raise ValueError(f"there is no route worker {sender}")
            from_ = <uint32_t> sender
        try:
            done = single_step(&self.engine, &who, from_, <const uint8_t *> PyBytes_AS_STRING(message), len(message), &self.found)
            if done == ROUTE_REFUSED:
                raise self.refused()
            if done == ROUTE_PASS:
                return None
            found = [self.left(&self.engine.run, message)]
            copy = self.engine.run.copies
            while copy != NULL:
                found.append(self.left(copy, message))
                copy = copy.copies
            return found
        finally:
            single_clean(&self.engine)

    cdef refused(self):
        cdef const route_run *run = &self.engine.run
        return StepRefusedError(REASONS[run.reason], route_condition[run.reason].decode(), run.detail.decode())

    cdef tuple left(self, const route_run *run, bytes start):
        """Return octets, onward and return route, state, and the routes of the message inside if it was just wrapped."""
        cdef const route_level *level = &run.level[run.depth]
        cdef const route_level *inside = single_inside(run)
        cdef bytes octets
        cdef const uint8_t *front
        front = single_write(&self.engine, run, <const uint8_t *> PyBytes_AS_STRING(start), &self.found)
        if front == NULL:
            raise MemoryError("no memory for a message")
        octets = PyBytes_FromStringAndSize(<const char *> front, self.engine.out.used)
        octets += PyBytes_FromStringAndSize(<const char *> run.rest, run.rest_size)
        wrapped = None if inside == NULL else (path_of(&inside.onward), path_of(&inside.returning))
        return octets, path_of(&level.onward), path_of(&level.returning), STATES[level.state], wrapped
