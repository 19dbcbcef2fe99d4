"""The engine's terms of listeners, TLS, SASL and connection limits, for workers.control's listeners, tls and guard."""

from shm.contract.peer_address import watch_peers

cdef extern from "stdlib.h" nogil:
    void free(void *)

cdef extern from "string.h" nogil:
    char *strdup(const char *)

cdef enum:
    CERTIFICATE_TEXT = 256     # a SHA-512 in hexadecimal is 128 characters


cdef int listener_terms(worker_listener *l, tuple terms) except -1:
    """Take over the terms of `Pump.add_listener`. Raises ValueError, and then the former ones stay."""
    cdef worker_listener n = l[0]
    cdef bytes mechanisms = terms[9].encode()
    if len(mechanisms) >= 256:
        raise ValueError("the list of SASL mechanisms is longer than 255 characters")
    try:
        n.config, n.max_frame, n.channel_max, n.idle_timeout_ms, n.handshake_ms, n.link_capacity, n.window, n.widest, n.authenticate = terms[:9]
    except OverflowError as error:
        raise ValueError(f"a number of its settings is too large: {error}") from error
    strncpy(n.mechanisms, mechanisms, 255)
    l[0] = n
    return 0


def sasl_configure(str directory, str name):
    """Tell Cyrus SASL, before the first connection, that its configuration is ``directory``/``name``.conf."""
    cdef pn_transport_t *t = pn_transport()
    cdef bytes d = directory.encode()
    cdef bytes n = name.encode()
    if t == NULL:
        raise MemoryError()
    pn_sasl_config_name(pn_sasl(t), n)
    if d:
        pn_sasl_config_path(pn_sasl(t), d)
    pn_transport_free(t)


cdef str set_up(pn_ssl_domain_t *domain, dict tls):
    """Set up a TLS domain; return the attribute that the engine refuses, or None."""
    cdef bytes certificate = tls["certificate"].encode()
    cdef bytes key = tls["key"].encode()
    cdef bytes password = tls["password"].encode()
    cdef bytes authorities = tls["authorities"].encode()
    cdef bytes announced = tls["announced"].encode()
    cdef bytes protocols = tls["protocols"].encode()
    cdef bytes ciphers = tls["ciphers"].encode()
    if certificate and pn_ssl_domain_set_credentials(domain, certificate, key, password):
        return "certFile and privateKeyFile"
    if authorities and pn_ssl_domain_set_trusted_ca_db(domain, authorities):
        return "caCertFile"
    if protocols and pn_ssl_domain_set_protocols(domain, protocols):
        return "protocols"
    if ciphers and pn_ssl_domain_set_ciphers(domain, ciphers):
        return "ciphers"
    if tls["client"]:
        if pn_ssl_domain_set_peer_authentication(domain, PN_SSL_VERIFY_PEER_NAME if tls["verify"] else PN_SSL_VERIFY_PEER, NULL):
            return "verifyHostname"
        watch_peers(<uintptr_t>domain)
        return None
    if tls["verify"] and pn_ssl_domain_set_peer_authentication(domain, PN_SSL_VERIFY_PEER, announced):
        return "trustedCertsFile"
    if not tls["required"] and pn_ssl_domain_allow_unsecured_client(domain):
        return "requireSsl"
    return None


cdef class Security(PumpPart):
    """The protection of one pump's connections; ``index`` is that of the pump's events."""

    cdef worker_listener *listener(self, uint32_t number) except NULL:
        if number >= self.pump.p.listener_count:
            raise ValueError(f"there is no listener {number}")
        return &self.pump.p.listeners[number]

    cdef worker_connection *connection(self, uint32_t index) except NULL:
        return <worker_connection *> pool_at(&self.pump.p.conns, index)

    def require_encryption(self, uint32_t number, bint required):
        """Set whether a listener refuses connections without encryption."""
        self.listener(number).encrypt = required

    def secure_listener(self, uint32_t number, tls):
        """Set the TLS of new connections of a listener or connector; None means no TLS.

        Returns None, or the attribute that the engine refuses, and then leaves the previous TLS in place.
        """
        cdef worker_listener *l = self.listener(number)
        cdef pn_ssl_domain_t *domain
        if tls is None:
            if l.tls != NULL:
                pn_ssl_domain_free(l.tls)
            l.tls = NULL
            return None
        domain = pn_ssl_domain(PN_SSL_MODE_CLIENT if tls["client"] else PN_SSL_MODE_SERVER)
        if domain == NULL:
            return "TLS, which this build of the engine does not have,"
        failed = set_up(domain, tls)
        if failed is not None:
            pn_ssl_domain_free(domain)
            return failed
        if l.tls != NULL:
            pn_ssl_domain_free(l.tls)      # its connections hold references
        l.tls = domain
        return None

    def protection(self, uint32_t index):
        """Return a connection's protection: authenticated, encrypted, TLS protocol, cipher, strength in bits."""
        cdef worker_connection *c = self.connection(index)
        cdef char protocol[64]
        cdef char cipher[128]
        cdef pn_ssl_t *ssl
        protocol[0] = cipher[0] = 0
        strength = 0
        if c.secured:
            ssl = pn_ssl(c.transport)
            if pn_ssl_get_protocol_name(ssl, protocol, 64) and pn_ssl_get_cipher_name(ssl, cipher, 128):
                strength = pn_ssl_get_ssf(ssl)
        return (bool(pn_transport_is_authenticated(c.transport)), bool(pn_transport_is_encrypted(c.transport)),
                text(protocol), text(cipher), strength)

    def certificate_subject(self, uint32_t index):
        """Return the subject of a client's certificate as RFC 2253 spells it, in ASCII; empty without one.

        The engine's function for its fields returns their octets without their length and without their encoding.
        """
        cdef worker_connection *c = self.connection(index)
        return text(pn_ssl_get_remote_subject(pn_ssl(c.transport))) if c.secured else ""

    def certificate_digest(self, uint32_t index, int algorithm):
        """Return the hexadecimal digest of a client's certificate (engine.h, PN_SSL_SHA…), or None."""
        cdef worker_connection *c = self.connection(index)
        cdef char digest[CERTIFICATE_TEXT]
        if not c.secured:
            return None
        if pn_ssl_get_cert_fingerprint(pn_ssl(c.transport), digest, CERTIFICATE_TEXT, algorithm):
            return None
        return text(digest)

    def peer(self, uint32_t index):
        """Return the peer's address:port, also for a lost connection; "-" if it has none."""
        cdef char name[64]
        security_peer(self.connection(index), name, 64)
        return text(name)

    def sasl_refused(self, uint32_t index):
        """Return whether a connection ends because its SASL exchange failed."""
        cdef worker_connection *c = self.connection(index)
        return pn_sasl_outcome(pn_sasl(c.transport)) > PN_SASL_OK

    def listener_of(self, uint32_t index):
        """Return a connection's place: that of its listening socket or connector."""
        return self.connection(index).listener

    def limit(self, uint32_t index, user, uint64_t max_message, uint32_t max_frame, uint32_t max_sessions, uint32_t window):
        """Set a connection's limits before its OPEN is answered; 0 keeps those of its listener.

        ``max_message``, ``max_frame`` and ``window`` are in bytes. With ``user``, messages may have no other
        user-id.
        """
        cdef worker_connection *c = self.connection(index)
        cdef bytes name
        c.max_message = max_message
        if max_frame:
            pn_transport_set_max_frame(c.transport, max_frame)
        if max_sessions:
            pn_transport_set_channel_max(c.transport, min(max_sessions, 32768) - 1)
            c.max_sessions = max_sessions
        if window:
            c.window = c.widest = max(2, window // (max_frame or self.pump.p.listeners[c.listener].max_frame))
        if user is not None:
            name = user.encode()
            free(c.user)
            c.user = strdup(name)
            if c.user == NULL:
                raise MemoryError()
