# cython: language_level=3
"""The native load client as one Python class; the loop itself is in ``load.h``.

Import it through ``bench.client``, which loads the engine first.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t

from workers.loop.libproton cimport (
    PN_SSL_ANONYMOUS_PEER, PN_SSL_MODE_CLIENT, pn_ssl_domain, pn_ssl_domain_free,
    pn_ssl_domain_set_peer_authentication, pn_ssl_domain_t,
)

cdef extern from "bench/load.h" nogil:
    cdef enum load_mode:
        LOAD_SEND
        LOAD_RECV
        LOAD_PINGPONG
        LOAD_ECHO

    enum: LOAD_LINKS_MAX

    struct load_options:
        load_mode mode
        bint listen
        bint presettled
        const char *host
        const char *port
        const char *address
        const char *far
        uint64_t count
        size_t size
        int credit
        int links
        unsigned int pause_us
        pn_ssl_domain_t *tls

    struct endpoint:
        pass

    struct samples:
        uint64_t *ns
        size_t n

    struct load:
        int n
        samples samples
        uint64_t bad, first_ns, last_ns, cpu_first_ns, cpu_last_ns
        char error[256]

    uint64_t load_total(const load *l, uint64_t (*of)(const endpoint *) nogil)
    uint64_t endpoint_sent(const endpoint *e)
    uint64_t endpoint_received(const endpoint *e)
    int load_open(load *l, const load_options *opt)
    int load_hold(load *l)
    int load_run(load *l)
    void load_close(load *l)

MODES = {"send": LOAD_SEND, "recv": LOAD_RECV, "pingpong": LOAD_PINGPONG, "echo": LOAD_ECHO}
ADDRESS_MAX = 200


cdef class Load:
    """One load client. Each method runs with the interpreter lock released; ``ConnectionError`` says what failed."""

    cdef load _load
    cdef load_options _options
    cdef bytes _host, _port, _address, _far

    def __cinit__(
        self, str mode, str host, int port, str address, *, uint64_t count, size_t size, bint presettled=False,
        int credit=1000, int links=1, unsigned int pause_us=0, bint listen=False, int far=0, bint tls=False,
    ):
        self._host, self._port, self._address = host.encode(), str(port).encode(), address.encode()
        self._far = str(far or port).encode()
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is not one of {', '.join(MODES)}")
        if not 1 <= links <= LOAD_LINKS_MAX:
            raise ValueError(f"links {links} is not between 1 and {LOAD_LINKS_MAX}")
        if len(self._address) > ADDRESS_MAX:
            raise ValueError(f"the address is longer than {ADDRESS_MAX} bytes")
        if tls and listen:
            raise ValueError("a client that listens has no certificate for TLS")
        self._options.mode = MODES[mode]
        self._options.listen, self._options.presettled = listen, presettled
        self._options.host, self._options.port, self._options.address = self._host, self._port, self._address
        self._options.far = self._far
        self._options.count, self._options.size = count, size
        self._options.credit, self._options.pause_us = credit, pause_us
        self._options.links = 2 if mode in ("pingpong", "echo") else links
        if tls:
            self._options.tls = pn_ssl_domain(PN_SSL_MODE_CLIENT)
            pn_ssl_domain_set_peer_authentication(self._options.tls, PN_SSL_ANONYMOUS_PEER, NULL)

    def __dealloc__(self):
        if self._options.tls is not NULL:
            pn_ssl_domain_free(self._options.tls)

    cdef _check(self, int result):
        if result:
            raise ConnectionError(self._load.error.decode(errors="replace").strip())

    def open(self):
        """Connect and attach, or start to listen; return when senders have credit."""
        cdef int result
        with nogil:
            result = load_open(&self._load, &self._options)
        self._check(result)

    def hold(self):
        """Serve the connections until a line arrives on standard input."""
        cdef int result
        with nogil:
            result = load_hold(&self._load)
        self._check(result)

    def run(self):
        """Send or receive everything."""
        cdef int result
        with nogil:
            result = load_run(&self._load)
        self._check(result)

    def close(self):
        """Close the connections; the object cannot be used afterwards."""
        with nogil:
            load_close(&self._load)

    @property
    def messages(self):
        """The number of messages received, or sent by a sender."""
        cdef bint sender = self._options.mode == LOAD_SEND
        return load_total(&self._load, endpoint_sent if sender else endpoint_received)

    @property
    def bad(self):
        """The number of messages that were not accepted, or arrived cut short or aborted."""
        return self._load.bad

    @property
    def seconds(self):
        """The time from the first message to the last outcome."""
        return (self._load.last_ns - self._load.first_ns) / 1e9 if self._load.first_ns else 0.0

    @property
    def cpu_seconds(self):
        """The user and system time between the same two moments."""
        return (self._load.cpu_last_ns - self._load.cpu_first_ns) / 1e9 if self._load.first_ns else 0.0

    @property
    def latencies(self):
        """The sampled latencies: native-endian 64-bit nanoseconds."""
        return PyBytes_FromStringAndSize(<char *> self._load.samples.ns, self._load.samples.n * sizeof(uint64_t))
