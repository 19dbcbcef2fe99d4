"""AMQP values of the engine as Python's, and the other way round. Part of pump.pyx."""


cdef str text(const char *s):
    return "" if s == NULL else s.decode("utf-8", "replace")


cdef pn_bytes_t view(bytes b):
    cdef pn_bytes_t out
    out.size = len(b)
    out.start = b
    return out


cdef tuple condition(pn_condition_t *c):
    """(name, description) of an AMQP error, or None."""
    if c == NULL or not pn_condition_is_set(c):
        return None
    return text(pn_condition_get_name(c)), text(pn_condition_get_description(c))


cdef void set_condition(pn_condition_t *c, str name, str description):
    cdef bytes n = name.encode()
    cdef bytes d = description.encode()
    pn_condition_set_name(c, n)
    if d:
        pn_condition_set_description(c, d)


cdef list symbols(pn_data_t *d):
    """A symbol, or an array of them, as a list of str."""
    cdef list out = []
    cdef pn_bytes_t b
    if d == NULL:
        return out
    pn_data_rewind(d)
    while pn_data_next(d):
        if pn_data_type(d) == PN_SYMBOL:
            b = pn_data_get_bytes(d)
            out.append(b.start[:b.size].decode("ascii", "replace"))
        elif pn_data_type(d) == PN_ARRAY:
            pn_data_enter(d)
            while pn_data_next(d):
                if pn_data_type(d) == PN_SYMBOL:
                    b = pn_data_get_bytes(d)
                    out.append(b.start[:b.size].decode("ascii", "replace"))
            pn_data_exit(d)
    return out


cdef dict string_properties(pn_data_t *d):
    """The entries of a properties map whose key is a symbol and whose value is a string or symbol."""
    cdef dict out = {}
    cdef pn_bytes_t b
    cdef str key
    if d == NULL:
        return out
    pn_data_rewind(d)
    if not pn_data_next(d) or pn_data_type(d) != PN_MAP:
        return out
    pn_data_enter(d)
    while pn_data_next(d):
        if pn_data_type(d) != PN_SYMBOL:
            break
        b = pn_data_get_bytes(d)
        key = b.start[:b.size].decode("ascii", "replace")
        if not pn_data_next(d):
            break
        if pn_data_type(d) == PN_STRING or pn_data_type(d) == PN_SYMBOL:
            b = pn_data_get_bytes(d)
            out[key] = b.start[:b.size].decode("utf-8", "replace")
    pn_data_exit(d)
    return out
