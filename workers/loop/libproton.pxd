"""The AMQP engine's functions that the glue calls: those that C calls, too, by engine.h, and those of the glue alone."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "stdbool.h" nogil:
    ctypedef bint cbool "bool"

cdef extern from "workers/state/engine.h" nogil:
    ctypedef struct pn_connection_t
    ctypedef struct pn_transport_t
    ctypedef struct pn_link_t
    ctypedef struct pn_session_t
    ctypedef struct pn_terminus_t
    ctypedef struct pn_condition_t
    ctypedef struct pn_collector_t
    ctypedef struct pn_sasl_t
    ctypedef struct pn_data_t
    ctypedef struct pn_ssl_t
    ctypedef struct pn_ssl_domain_t
    ctypedef struct pn_bytes_t:
        size_t size
        const char *start
    int PN_NULL, PN_BOOL, PN_UBYTE, PN_BYTE, PN_USHORT, PN_SHORT, PN_UINT, PN_INT, PN_ULONG, PN_LONG, PN_FLOAT, PN_DOUBLE
    int PN_SYMBOL, PN_STRING, PN_ARRAY, PN_LIST, PN_MAP, PN_COORDINATOR, PN_SOURCE, PN_UNSPECIFIED
    pn_collector_t *pn_collector()
    pn_condition_t *pn_connection_condition(pn_connection_t *)
    pn_condition_t *pn_connection_remote_condition(pn_connection_t *)
    void pn_connection_set_container(pn_connection_t *, const char *)
    const char *pn_connection_remote_container(pn_connection_t *)
    void pn_connection_open(pn_connection_t *)
    void pn_connection_close(pn_connection_t *)
    pn_condition_t *pn_transport_condition(pn_transport_t *)
    pn_sasl_t *pn_sasl(pn_transport_t *)
    int pn_sasl_outcome(pn_sasl_t *)
    int PN_SASL_OK, PN_SASL_AUTH, PN_SASL_SYS, PN_SASL_TEMP
    pn_transport_t *pn_transport()
    void pn_transport_free(pn_transport_t *)
    void pn_transport_set_max_frame(pn_transport_t *, unsigned int)
    unsigned int pn_transport_get_max_frame(pn_transport_t *)
    int pn_transport_set_channel_max(pn_transport_t *, unsigned short)
    int PN_SSL_MODE_CLIENT, PN_SSL_MODE_SERVER, PN_SSL_VERIFY_PEER, PN_SSL_VERIFY_PEER_NAME, PN_SSL_ANONYMOUS_PEER
    pn_ssl_t *pn_ssl(pn_transport_t *)
    void pn_link_open(pn_link_t *)
    void pn_link_close(pn_link_t *)
    const char *pn_link_name(pn_link_t *)
    const char *pn_transport_get_user(pn_transport_t *)
    pn_session_t *pn_link_session(pn_link_t *link)
    pn_terminus_t *pn_link_source(pn_link_t *)
    pn_terminus_t *pn_link_target(pn_link_t *)
    pn_terminus_t *pn_link_remote_source(pn_link_t *)
    pn_terminus_t *pn_link_remote_target(pn_link_t *)
    pn_condition_t *pn_link_condition(pn_link_t *)
    pn_condition_t *pn_link_remote_condition(pn_link_t *)
    void pn_link_set_snd_settle_mode(pn_link_t *, int)
    pn_data_t *pn_link_remote_properties(pn_link_t *)
    int pn_link_state(pn_link_t *)
    void pn_link_detach(pn_link_t *)
    int PN_REMOTE_CLOSED
    pn_data_t *pn_terminus_properties(pn_terminus_t *)
    pn_data_t *pn_terminus_outcomes(pn_terminus_t *)
    pn_data_t *pn_terminus_filter(pn_terminus_t *)
    Py_ssize_t pn_data_encode(pn_data_t *, char *, size_t)
    Py_ssize_t pn_data_decode(pn_data_t *, const char *, size_t)
    size_t pn_data_size(pn_data_t *)
    bint pn_terminus_is_dynamic(pn_terminus_t *)
    const char *pn_terminus_get_address(pn_terminus_t *)
    int pn_terminus_set_address(pn_terminus_t *, const char *)
    int pn_terminus_get_type(pn_terminus_t *)
    uint32_t pn_terminus_get_timeout(pn_terminus_t *)
    bint pn_terminus_has_expiry_policy(pn_terminus_t *)
    int pn_terminus_get_expiry_policy(pn_terminus_t *)
    int pn_terminus_copy(pn_terminus_t *, pn_terminus_t *)
    pn_data_t *pn_terminus_capabilities(pn_terminus_t *)
    bint pn_condition_is_set(pn_condition_t *)
    const char *pn_condition_get_name(pn_condition_t *)
    const char *pn_condition_get_description(pn_condition_t *)
    int pn_condition_set_name(pn_condition_t *, const char *)
    int pn_condition_set_description(pn_condition_t *, const char *)
    void pn_data_clear(pn_data_t *)
    void pn_data_rewind(pn_data_t *)
    bint pn_data_next(pn_data_t *)
    bint pn_data_enter(pn_data_t *)
    bint pn_data_exit(pn_data_t *)
    int pn_data_type(pn_data_t *)

# C calls none of these, so the module declares them itself.
cdef extern nogil:
    const char *pn_connection_remote_hostname(pn_connection_t *connection)
    pn_data_t *pn_connection_remote_properties(pn_connection_t *connection)
    pn_data_t *pn_connection_remote_offered_capabilities(pn_connection_t *connection)
    pn_data_t *pn_connection_properties(pn_connection_t *connection)
    pn_data_t *pn_connection_offered_capabilities(pn_connection_t *connection)
    pn_data_t *pn_connection_desired_capabilities(pn_connection_t *connection)
    const char *pn_sasl_get_mech(pn_sasl_t *sasl)
    void pn_sasl_config_name(pn_sasl_t *sasl, const char *name)
    void pn_sasl_config_path(pn_sasl_t *sasl, const char *path)
    cbool pn_transport_is_encrypted(pn_transport_t *transport)
    cbool pn_transport_is_authenticated(pn_transport_t *transport)
    pn_ssl_domain_t *pn_ssl_domain(int mode)
    void pn_ssl_domain_free(pn_ssl_domain_t *domain)
    int pn_ssl_domain_set_credentials(pn_ssl_domain_t *domain, const char *certificate, const char *key, const char *password)
    int pn_ssl_domain_set_trusted_ca_db(pn_ssl_domain_t *domain, const char *certificates)
    int pn_ssl_domain_set_peer_authentication(pn_ssl_domain_t *domain, int mode, const char *announced)
    int pn_ssl_domain_set_protocols(pn_ssl_domain_t *domain, const char *protocols)
    int pn_ssl_domain_set_ciphers(pn_ssl_domain_t *domain, const char *ciphers)
    int pn_ssl_domain_allow_unsecured_client(pn_ssl_domain_t *domain)
    cbool pn_ssl_get_cipher_name(pn_ssl_t *ssl, char *name, size_t size)
    cbool pn_ssl_get_protocol_name(pn_ssl_t *ssl, char *name, size_t size)
    int pn_ssl_get_ssf(pn_ssl_t *ssl)
    const char *pn_ssl_get_remote_subject(pn_ssl_t *ssl)
    int pn_ssl_get_cert_fingerprint(pn_ssl_t *ssl, char *text, size_t size, int hash)
    void pn_link_set_max_message_size(pn_link_t *link, uint64_t size)
    int pn_link_remote_snd_settle_mode(pn_link_t *link)
    int pn_link_remote_rcv_settle_mode(pn_link_t *link)
    void pn_link_set_rcv_settle_mode(pn_link_t *link, int mode)
    pn_data_t *pn_link_properties(pn_link_t *link)
    uint64_t pn_link_remote_max_message_size(pn_link_t *link)
    int pn_terminus_get_durability(pn_terminus_t *terminus)
    int pn_terminus_set_durability(pn_terminus_t *terminus, int durability)
    int pn_terminus_set_expiry_policy(pn_terminus_t *terminus, int policy)
    int pn_terminus_set_timeout(pn_terminus_t *terminus, uint32_t seconds)
    int pn_terminus_get_distribution_mode(pn_terminus_t *terminus)
    int pn_terminus_set_distribution_mode(pn_terminus_t *terminus, int mode)
    ssize_t pn_data_encoded_size(pn_data_t *data)
    int pn_terminus_set_type(pn_terminus_t *terminus, int type)
    int pn_terminus_set_dynamic(pn_terminus_t *terminus, cbool dynamic)
    pn_bytes_t pn_data_get_bytes(pn_data_t *data)
    cbool pn_data_get_bool(pn_data_t *data)
    uint8_t pn_data_get_ubyte(pn_data_t *data)
    int8_t pn_data_get_byte(pn_data_t *data)
    uint16_t pn_data_get_ushort(pn_data_t *data)
    int16_t pn_data_get_short(pn_data_t *data)
    uint32_t pn_data_get_uint(pn_data_t *data)
    int32_t pn_data_get_int(pn_data_t *data)
    uint64_t pn_data_get_ulong(pn_data_t *data)
    int64_t pn_data_get_long(pn_data_t *data)
    float pn_data_get_float(pn_data_t *data)
    double pn_data_get_double(pn_data_t *data)
    int pn_data_put_null(pn_data_t *data)
    int pn_data_put_bool(pn_data_t *data, cbool value)
    int pn_data_put_long(pn_data_t *data, int64_t value)
    int pn_data_put_double(pn_data_t *data, double value)
    int pn_data_put_list(pn_data_t *data)
    int pn_data_put_map(pn_data_t *data)
    int pn_data_put_array(pn_data_t *data, cbool described, int type)
    int pn_data_put_symbol(pn_data_t *data, pn_bytes_t symbol)
    int pn_data_put_string(pn_data_t *data, pn_bytes_t string)
    int pn_data_put_int(pn_data_t *data, int32_t value)
