# cython: language_level=3
"""The entries of a route table while they arrive: columns, filled natively by simple records (simple_records.c)."""

from array import array
from cpython.array cimport array as Array, clone
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(str text)
    const uint8_t *PyUnicode_1BYTE_DATA(str text)
    str PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)

cdef extern from "core/rmr/tables/simple_records.h" nogil:
    const uint32_t NAME_NONE
    ctypedef struct record_column:
        uint32_t *at
        uint32_t count
    ctypedef struct record_names:
        const uint8_t *text
        record_column stop
        uint64_t seed
    ctypedef struct record_lists:
        record_column place, word
        record_names text, name
    ctypedef struct record_table:
        record_column type, subscription, target, line, sender_row, sender_list
        record_lists groups, senders
        bint compatible, failed
    bint column_add(record_column *, uint32_t)
    uint32_t name_add(record_names *, const uint8_t *, uint32_t)
    uint32_t name_start(const record_names *, uint32_t)
    uint32_t name_length(const record_names *, uint32_t)
    uint32_t record_new_list(record_lists *)
    bint record_row(record_table *, int32_t, int32_t, uint32_t, uint32_t)
    size_t records_take(record_table *, const uint8_t *, size_t, size_t, uint32_t)
    void records_free(record_table *)

cdef Array SIGNED = array("i")
cdef Array UNSIGNED = array("I")


cdef Array copied(Array kind, const record_column *column):
    """Return the column as an array."""
    cdef Array made = clone(kind, column.count, False)
    if column.count:
        memcpy(made.data.as_chars, column.at, column.count * sizeof(uint32_t))
    return made


cdef tuple named(const record_names *names):
    """Return all names, by number."""
    cdef uint32_t i
    return tuple([
        PyUnicode_DecodeUTF8(<const char *> names.text + name_start(names, i), name_length(names, i), "surrogateescape")
        for i in range(names.stop.count)
    ])


cdef class Records:
    """The entries of one table. ``seed`` is for its hashes; ``compatible``: blanks around names are odd.

    Every method raises MemoryError when memory is exhausted; the entries are then invalid.
    """

    cdef record_table table
    cdef dict given                    # lists of senders by row, as given to `add`

    def __cinit__(self, uint64_t seed, bint compatible):
        self.table.compatible = compatible
        cdef record_table *t = &self.table
        t.groups.text.seed = t.groups.name.seed = t.senders.text.seed = t.senders.name.seed = seed
        self.given = {}

    def __dealloc__(self):
        records_free(&self.table)

    def __len__(self) -> int:
        return self.table.type.count

    @property
    def listed(self) -> int:
        """The simple records that are not for all senders."""
        return self.table.sender_row.count

    def take(self, str text not None, size_t at, uint32_t line) -> tuple[int, int]:
        """Take simple records from ``text[at]`` on; the first stands in ``line``.

        Return where the first record begins that is not simple or not complete, and how many were taken.
        """
        cdef size_t length = len(text)
        cdef uint32_t before = self.table.type.count
        if not PyUnicode_IS_ASCII(text) or at >= length:
            return at, 0
        at = records_take(&self.table, PyUnicode_1BYTE_DATA(text), length, at, line)
        if self.table.failed:
            raise MemoryError("a route table")
        return at, self.table.type.count - before

    def target(self, tuple members not None) -> int:
        """Return a new target: groups of names; none means by MEID."""
        cdef record_lists *groups = &self.table.groups
        cdef uint32_t target = record_new_list(groups)
        cdef bint kept = target != NAME_NONE and column_add(&groups.word, <uint32_t> len(members))
        for group in members:
            kept = kept and column_add(&groups.word, <uint32_t> len(group))
            for name in group:
                kept = kept and column_add(&groups.word, self.number(name))
        if not kept:
            raise MemoryError("a route table")
        return target

    cdef uint32_t number(self, str name) except? NAME_NONE:
        cdef bytes text = name.encode("utf-8", "surrogateescape")
        cdef const uint8_t *octets = <const uint8_t *> PyBytes_AS_STRING(text)
        cdef uint32_t found = name_add(&self.table.groups.name, octets, <uint32_t> PyBytes_GET_SIZE(text))
        if found == NAME_NONE:
            raise MemoryError("a route table")
        return found

    def add(self, int32_t type, int32_t subscription, tuple senders not None, uint32_t target, uint32_t line) -> None:
        """Add an entry. ``target`` is one of ``target()``, or the value that deletes the key."""
        if senders:
            self.given[self.table.type.count] = senders
        if not record_row(&self.table, type, subscription, target, line):
            raise MemoryError("a route table")

    def columns(self) -> tuple[Array, Array, Array, Array]:
        """Return types, subscriptions, targets and lines."""
        cdef record_table *t = &self.table
        types, subscriptions = copied(SIGNED, &t.type), copied(SIGNED, &t.subscription)
        return types, subscriptions, copied(UNSIGNED, &t.target), copied(UNSIGNED, &t.line)

    def destinations(self) -> tuple[Array, Array, tuple[str, ...]]:
        """Return where each target begins in words, the words (core/rmr/forwarding/table.h), and the endpoints' names."""
        cdef record_lists *groups = &self.table.groups
        return copied(UNSIGNED, &groups.place), copied(UNSIGNED, &groups.word), named(&groups.name)

    def senders(self) -> dict[int, tuple[str, ...]]:
        """Return the senders of each row that is not for all senders."""
        cdef record_table *t = &self.table
        cdef record_column *word = &t.senders.word
        cdef tuple names = named(&t.senders.name)
        cdef uint32_t i, k, at
        cdef list lists = []
        for i in range(t.senders.place.count):
            at = t.senders.place.at[i] + 1  # behind the number of groups, which is one
            lists.append(tuple([names[word.at[at + 1 + k]] for k in range(word.at[at])]))
        found = {t.sender_row.at[i]: lists[t.sender_list.at[i]] for i in range(t.sender_row.count)}
        return found | self.given
