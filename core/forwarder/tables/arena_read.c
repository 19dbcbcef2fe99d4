/* Reading what a worker wrote into its arena: the `to` of a message, a control payload.  Nothing there is trusted. */
#include "core/forwarder/tables/access.h"

/* Copies [offset, offset + size) of a chain; false if the chain does not hold that. */
GLUE bool content_copy(const arena_view *v, uint32_t head, uint64_t offset, uint8_t *to, uint32_t size, uint32_t hops)
{
    arena_content *content = arena_content_of(v, head);
    if (!content) return false;
    uint64_t limit = chain_length(content);
    if (limit < size || limit - size < offset) return false;
    limit = offset + size;
    if (__builtin_expect(limit <= arena_capacity(v, head, true), 1)) {
        memcpy(to, (const uint8_t *) (content + 1) + offset, size);
        return true;
    }
    arena_reader reader;
    chain_open(&reader, head);
    while (reader.position < limit) {
        uint32_t run;
        const uint8_t *bytes = chain_read(v, &reader, limit, &run);
        if (!bytes || !hops--) return false;
        if (reader.position + run > offset) {
            uint32_t skip = reader.position < offset ? (uint32_t) (offset - reader.position) : 0;
            memcpy(to, bytes + skip, run - skip);
            to += run - skip;
        }
        chain_advance(&reader, run);
    }
    return true;
}

/* Copies properties.to of a message, at most CORE_MAX_TEXT octets.  Returns its length, 0 if there is none; a length
 * beyond CORE_MAX_TEXT, or a place that makes no sense, is CORE_MAX_TEXT + 1 and nothing is copied. */
GLUE uint32_t content_to(const arena_view *v, uint32_t head, uint8_t *text)
{
    const arena_content *content = arena_content_of(v, head);
    uint32_t offset = content->to_offset, length = content->to_length, key = content->key_block;
    if (offset == ARENA_NO_OFFSET || !length) return 0;
    if (length > CORE_MAX_TEXT) return CORE_MAX_TEXT + 1;
    if (key != ROUTERD_NIL) {
        const arena_block *b = arena_at(v, key);
        uint32_t room = b ? arena_capacity(v, key, false) : 0;
        if (room < length || room - length < offset) return CORE_MAX_TEXT + 1;
        memcpy(text, b->data + offset, length);
        return length;
    }
    return content_copy(v, head, offset, text, length, CONTENT_HOPS) ? length : CORE_MAX_TEXT + 1;
}
