/* The owners of managed entities: MEID -> endpoint.  A map comes into use as a route table does, but independently. */
#include "core/forwarder/tables/hash.h"
#include "core/rmr/forwarding/active_tables.h"

GLUE void route_owners_free(route_owners *o)
{
    if (!o) return;
    free(o->slot);
    free(o->endpoints.at);
    free(o);
}

/* Returns a map of `count` MEIDs, each the text from start[i] to start[i + 1], to their owners; NULL without memory. */
GLUE route_owners *route_owners_build(uint64_t seed, const uint8_t *text, const uint32_t *start, const uint32_t *owner,
                                      uint32_t count, uint32_t endpoints)
{
    route_owners *o = (route_owners *) calloc(1, sizeof *o);
    if (!o) return NULL;
    uint32_t room = 16;
    while (room < count * 2) room *= 2;
    o->mask = room - 1;
    o->count = count;
    o->text = text;
    o->endpoints.count = endpoints;
    o->endpoints.at = (route_endpoint *) calloc(endpoints ? endpoints : 1, sizeof *o->endpoints.at);
    o->slot = (route_owner *) malloc(room * sizeof *o->slot);
    if (!o->slot || !o->endpoints.at) {
        route_owners_free(o);
        return NULL;
    }
    memset(o->slot, 0xff, room * sizeof *o->slot);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = start[i + 1] - start[i];
        uint64_t hash = alias_hash(seed, text + start[i], length);
        uint32_t at = (uint32_t) hash & o->mask;
        while (o->slot[at].owner != ROUTE_NONE) at = (at + 1) & o->mask;
        o->slot[at] = (route_owner) {.hash = hash, .owner = owner[i], .text = start[i], .length = length};
    }
    return o;
}

/* Returns the endpoint that owns a managed entity, or NULL. */
PRIVATE inline route_endpoint *route_owner_of(const route_owners *o, uint64_t seed, const uint8_t *meid,
                                              uint32_t length)
{
    uint64_t hash = alias_hash(seed, meid, length);
    for (uint32_t at = (uint32_t) hash & o->mask;; at = (at + 1) & o->mask) {
        const route_owner *one = &o->slot[at];
        if (one->owner == ROUTE_NONE) return NULL;
        if (one->hash == hash && one->length == length && !memcmp(o->text + one->text, meid, length))
            return &o->endpoints.at[one->owner];
    }
}
