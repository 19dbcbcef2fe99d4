/* A check of a peer's decoded values, before the engine encodes them again.
 *
 * The engine trusts an array's constructor and count. It decodes an array of described values, or with fewer elements
 * than stated, into a tree whose encoding reads and writes out of bounds. So a peer's values are only copied or encoded
 * after this check.
 */
#include "workers/amqp/amqp.h"

#define SOUND_DEPTH 32

static bool data_level_sound(pn_data_t *d, int depth)
{
    if (depth > SOUND_DEPTH) return false;
    while (pn_data_next(d)) {
        int type = pn_data_type(d), element = 0;
        size_t claimed, found = 0;
        if (type < PN_DESCRIBED || type > PN_MAP) continue;
        if (type == PN_ARRAY) {
            claimed = pn_data_get_array(d);
            element = pn_data_get_array_type(d);
            if (pn_data_is_array_described(d) || element < 1 || element > PN_MAP || element == PN_DESCRIBED)
                return false;
        } else claimed = type == PN_DESCRIBED ? 2 : type == PN_LIST ? pn_data_get_list(d) : pn_data_get_map(d);
        if (type == PN_MAP && claimed % 2) return false;
        if (!pn_data_enter(d)) return false;
        while (pn_data_next(d)) {
            if (type == PN_ARRAY && pn_data_type(d) != element) return false;
            found++;
        }
        if (found != claimed || !pn_data_exit(d) || !pn_data_enter(d)) return false;
        if (!data_level_sound(d, depth + 1) || !pn_data_exit(d)) return false;
    }
    return true;
}

static bool data_sound(pn_data_t *d)
{
    if (!d || !pn_data_size(d)) return true;
    pn_data_rewind(d);
    bool sound = data_level_sound(d, 0);
    pn_data_rewind(d);
    return sound;
}

static bool terminus_sound(pn_terminus_t *t)
{
    return data_sound(pn_terminus_properties(t)) && data_sound(pn_terminus_capabilities(t))
           && data_sound(pn_terminus_outcomes(t)) && data_sound(pn_terminus_filter(t));
}

/* Whether all values in a peer's attach are sound. */
PRIVATE inline bool attach_sound(pn_link_t *l)
{
    return terminus_sound(pn_link_remote_source(l)) && terminus_sound(pn_link_remote_target(l))
           && data_sound(pn_link_remote_properties(l));
}
