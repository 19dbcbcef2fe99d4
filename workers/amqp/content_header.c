/* The content header: what the scan of an arriving message has found, for the core and other workers. */
#include <stdlib.h>
#include <string.h>

#include "workers/amqp/amqp.h"
#include "workers/amqp/annotations.h"
#include "workers/transport/transport.h"

PRIVATE inline void content_header_fill(arena_content *c, const scan_found *found)
{
    c->message_annotations = found->message_annotations;
    c->properties = found->properties;
    c->annotations_end = found->annotations_end;
    c->body = found->body;
    c->to_offset = found->to;
    c->to_length = found->to_length;
}

/* Checks router annotations and user-id of a message whose sections have arrived. */
PRIVATE inline enum scan_result content_check(const worker_connection *conn, arena_content *c, uint8_t *bytes,
                                              scan_found *found, enum scan_result result, bool *moved)
{
    result = annotations_check(c, bytes, found, conn->trusted, result, moved);
    return __builtin_expect(conn->user != NULL, 0) ? security_user_id(conn, bytes, found, result) : result;
}

/* Finds the key by which a route table routes a message. MORE: its application properties have not arrived. */
PRIVATE inline enum scan_result content_key(const uint8_t *bytes, size_t size, bool complete, enum scan_result result,
                                            scan_found *found, rmr_key *key)
{
    if (result == SCAN_DONE) result = rmr_key_there(bytes, size, complete, found);
    return result == SCAN_DONE ? rmr_key_scan(bytes, size, found, key) : result;
}

/* What is to be there of a message that is not complete before it can be posted, from where its scan got.  Whatever its
 * link leads to, an exchange, a route worker or a later configuration may bring it to a route table: the core looks for
 * its key then, in the application properties.  Malformed ones are for their reader. */
PRIVATE inline enum scan_result content_there(const uint8_t *bytes, size_t size, enum scan_result result,
                                              scan_found *found)
{
    scan_found more = *found;
    if (result != SCAN_DONE) return result;
    uint32_t most = rmr_key_from(found->message_annotations, found->body) + RMR_KEY_WITHIN;
    if (most > SCAN_LIMIT) most = SCAN_LIMIT;
    result = rmr_key_there(bytes, size, false, &more);
    found->need = more.need < most ? more.need : most;
    return result == SCAN_MORE && size < most ? SCAN_MORE : SCAN_DONE;
}

/* The same, and on a link to a route table, for which this side finds the key, whether what has it is sound. `all`:
 * the bytes are the whole message. */
static enum scan_result intake_there(const uint8_t *bytes, size_t size, bool all, bool complete, bool to_table,
                                     enum scan_result result, scan_found *found)
{
    if (to_table && result == SCAN_DONE) return rmr_key_there(bytes, size, all, found);
    return to_table || complete ? result : content_there(bytes, size, result, found);
}

/* Writes gathered bytes, whose order has changed, back into their blocks. */
static void content_return(const arena_view *v, uint32_t head, const uint8_t *gathered, uint64_t size)
{
    arena_reader reader;
    chain_open(&reader, head);
    while (reader.position < size) {
        uint32_t n;
        uint8_t *to = (uint8_t *) (uintptr_t) chain_read(v, &reader, size, &n);
        if (!to) return;
        memcpy(to, gathered + reader.position, n);
        chain_advance(&reader, n);
    }
}

/* Copies the first bytes of a chain into one piece, which the caller frees; NULL: out of memory. */
PRIVATE inline uint8_t *chain_gather(const arena_view *v, uint32_t head, uint64_t size)
{
    uint8_t *gathered = (uint8_t *) malloc(size);
    arena_reader reader;
    chain_open(&reader, head);
    while (gathered && reader.position < size) {
        uint32_t n;
        const uint8_t *from = chain_read(v, &reader, size, &n);
        if (!from) break;
        memcpy(gathered + reader.position, from, n);
        chain_advance(&reader, n);
    }
    return gathered;
}

/* Scans what has arrived of a long message, in its first block, or gathered if the sections reach further. `key` is set
 * for a route table. */
PRIVATE inline enum scan_result intake_scan(pump *p, in_delivery *s, bool complete, scan_found *found, rmr_key *key)
{
    arena_view *v = &p->arena.view;
    arena_content *c = arena_content_of(v, s->writer.head);
    uint8_t *bytes = (uint8_t *) c + sizeof *c;
    bool moved = false, to_table = s->link->to_table;
    uint64_t size = s->writer.written;
    uint32_t first = arena_capacity(v, s->writer.head, true), there = size < first ? (uint32_t) size : first;
    bool all = complete && size <= first;
    enum scan_result result = scan_message(bytes, there, all, found);
    result = intake_there(bytes, there, all, complete, to_table, result, found);
    if (result != SCAN_MORE || size <= first) {
        result = content_check(s->link->conn, c, bytes, found, result, &moved);
        return to_table ? content_key(bytes, there, all, result, found, key) : result;
    }
    if (size > SCAN_LIMIT) size = SCAN_LIMIT;
    uint8_t *gathered = chain_gather(v, s->writer.head, size);
    if (!gathered) return scan_bad(found, "the router is out of memory");
    all = complete && size == s->writer.written;
    result = scan_message(gathered, size, all, found);
    result = intake_there(gathered, size, all, complete, to_table, result, found);
    if (result == SCAN_MORE && size == SCAN_LIMIT)
        result = scan_bad(found, "annotations and properties are longer than 1 MiB");
    result = content_check(s->link->conn, c, gathered, found, result, &moved);
    if (to_table) result = content_key(gathered, size, all, result, found, key);
    if (moved) content_return(v, s->writer.head, gathered, size);
    if (result == SCAN_DONE && found->to != SCAN_ABSENT && (uint64_t) found->to + found->to_length > first) {
        /* `to` lies across blocks: keep a copy in one piece for the core */
        uint32_t copy = arena_alloc(&p->arena, ARENA_LARGE);
        if (copy == ROUTERD_NIL || found->to_length > arena_capacity(v, copy, false)) {
            if (copy != ROUTERD_NIL) arena_free_one(&p->arena, copy);
            result = scan_bad(found, "properties.to is too long");
        } else {
            memcpy(arena_at(v, copy)->data, gathered + found->to, found->to_length);
            c->key_block = copy;
            found->to = 0;
        }
    }
    free(gathered);
    return result;
}
