"""Conversions between the engine's AMQP values and Python's. Included by pump.pyx."""

from shm.contract.failures import failures

cdef enum:
    ERROR_TEXT = 1 << 16      # octets of a peer's description that count: a control message has room for them


cdef str text(const char *s):
    """Return a text; octets that are none become ``\\xNN``. Peers name nobody by those (workers/lane/text.c)."""
    return "" if s == NULL else s.decode("utf-8", "backslashreplace")


cdef str text_at(pn_data_t *d, str encoding):
    """Return the string or symbol at the data's position, as ``text`` does."""
    cdef pn_bytes_t b = pn_data_get_bytes(d)
    return b.start[:b.size].decode(encoding, "backslashreplace")


cdef pn_bytes_t view(bytes b):
    cdef pn_bytes_t out
    out.size = len(b)
    out.start = b
    return out


cdef str error_text(const char *s, str encoding):
    """Return a text of an AMQP error, or its first ERROR_TEXT octets."""
    return "" if s == NULL else s[:min(strlen(s), <size_t> ERROR_TEXT)].decode(encoding, "backslashreplace")


cdef tuple condition(pn_condition_t *c):
    """Return name and description of an AMQP error, or None."""
    if c == NULL or not pn_condition_is_set(c):
        return None
    return error_text(pn_condition_get_name(c), "ascii"), error_text(pn_condition_get_description(c), "utf-8")


cdef void set_condition(pn_condition_t *c, str name, str description):
    cdef bytes n = name.encode()
    cdef bytes d = description.encode()
    pn_condition_set_name(c, n)
    if d:
        pn_condition_set_description(c, d)


cdef list symbols(pn_data_t *d):
    """Return a symbol, or an array of symbols, as a list of str."""
    cdef list out = []
    if d == NULL:
        return out
    pn_data_rewind(d)
    while pn_data_next(d):
        if pn_data_type(d) == PN_SYMBOL:
            out.append(text_at(d, "ascii"))
        elif pn_data_type(d) == PN_ARRAY:
            pn_data_enter(d)
            while pn_data_next(d):
                if pn_data_type(d) == PN_SYMBOL:
                    out.append(text_at(d, "ascii"))
            pn_data_exit(d)
    return out


cdef object number_at(pn_data_t *d, int kind):
    """Return the number at the data's position; None if JSON has no such value."""
    if kind == PN_INT:
        return pn_data_get_int(d)
    if kind == PN_UINT:
        return pn_data_get_uint(d)
    if kind == PN_LONG:
        return pn_data_get_long(d)
    if kind == PN_ULONG:
        return pn_data_get_ulong(d)
    if kind == PN_DOUBLE:
        return pn_data_get_double(d)
    if kind == PN_FLOAT:
        return pn_data_get_float(d)
    if kind == PN_SHORT:
        return pn_data_get_short(d)
    if kind == PN_USHORT:
        return pn_data_get_ushort(d)
    if kind == PN_BYTE:
        return pn_data_get_byte(d)
    if kind == PN_UBYTE:
        return pn_data_get_ubyte(d)
    return None


cdef object value_at(pn_data_t *d, int depth):
    """Return the JSON value at the data's position; symbols become str, unsupported or too deep values None."""
    cdef int kind = pn_data_type(d)
    if kind == PN_STRING or kind == PN_SYMBOL:
        return text_at(d, "utf-8" if kind == PN_STRING else "ascii")
    if kind == PN_BOOL:
        return bool(pn_data_get_bool(d))
    if kind == PN_MAP:
        return entries_of(d, depth - 1) if depth > 0 else None
    if kind == PN_LIST or kind == PN_ARRAY:
        return elements_of(d, depth - 1) if depth > 0 else None
    return number_at(d, kind)


cdef list elements_of(pn_data_t *d, int depth):
    cdef list out = []
    pn_data_enter(d)
    while pn_data_next(d):
        out.append(value_at(d, depth))
    pn_data_exit(d)
    return out


cdef dict entries_of(pn_data_t *d, int depth):
    """Return the entries of a map whose key is a symbol or a string."""
    cdef dict out = {}
    cdef object key
    pn_data_enter(d)
    while pn_data_next(d):
        key = value_at(d, 0)
        if not pn_data_next(d):
            break
        if isinstance(key, str):
            out[key] = value_at(d, depth)
    pn_data_exit(d)
    return out


cdef dict properties_of(pn_data_t *d):
    """Return a properties map as a dict."""
    if d == NULL:
        return {}
    pn_data_rewind(d)
    if not pn_data_next(d) or pn_data_type(d) != PN_MAP:
        return {}
    return entries_of(d, VALUE_DEPTH)


cdef int put_symbols(pn_data_t *d, list names) except -1:
    """Write an array of symbols."""
    cdef bytes b
    pn_data_put_array(d, False, PN_SYMBOL)
    pn_data_enter(d)
    for name in names:
        b = name.encode()
        pn_data_put_symbol(d, view(b))
    pn_data_exit(d)
    return 0


cdef int put_map(pn_data_t *d, dict entries, bint by_symbol) except -1:
    cdef bytes b
    pn_data_put_map(d)
    pn_data_enter(d)
    for key, value in entries.items():
        b = key.encode()
        pn_data_put_symbol(d, view(b)) if by_symbol else pn_data_put_string(d, view(b))
        put_value(d, value)
    pn_data_exit(d)
    return 0


cdef int put_value(pn_data_t *d, object value) except -1:
    """Write a JSON value; integers become AMQP int if they fit, else long, and map keys become strings."""
    cdef bytes b
    if value is None:
        pn_data_put_null(d)
    elif isinstance(value, bool):
        pn_data_put_bool(d, value)
    elif isinstance(value, int):
        pn_data_put_int(d, value) if -0x80000000 <= value <= 0x7fffffff else pn_data_put_long(d, value)
    elif isinstance(value, float):
        pn_data_put_double(d, value)
    elif isinstance(value, dict):
        put_map(d, value, False)
    elif isinstance(value, (list, tuple)):
        pn_data_put_list(d)
        pn_data_enter(d)
        for element in value:
            put_value(d, element)
        pn_data_exit(d)
    else:
        b = value.encode()
        pn_data_put_string(d, view(b))
    return 0
