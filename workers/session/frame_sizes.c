/* The engine's frames are no larger than the peer takes (AMQP 1.0 part 2.7.1); those of the lane never are.
 *
 *   DETACH, END, CLOSE    their error loses the end of its description, on their way out
 *   OPEN                  loses properties and capabilities, on its way out
 *   ATTACH                is not opened: whoever would open it asks first (amqp/attaching.pxi)
 *   BEGIN                 is always small
 *
 * Our OPEN stands before the peer's where we connect: nobody knows the peer's size then.
 */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

/* Octets of the largest frame that a peer takes. */
GLUE uint32_t frame_largest(const worker_connection *c)
{
    const uint32_t most = c->lane->opened ? pn_transport_get_remote_max_frame(c->transport) : 0;
    return most ? most : UINT32_MAX;
}

/* Whether a peer's link may have such a name: the answer to its ATTACH repeats it. */
PRIVATE bool name_fits(const lane_connection *l, size_t size)
{
    return size <= frame_largest(l->c) - LANE_ATTACH_MAX;
}

/* The same frame in fewer octets; its size, 0: it has no shorter form. */
static uint32_t frame_shortened(uint8_t *to, uint32_t most, const lane_frame *f)
{
    lane_ending e;
    if (f->performative == LANE_OPEN) return lane_put_first(to, most, f);
    if (f->performative < LANE_DETACH || lane_ending_read(f, &e)) return 0;
    return lane_put_ending(to, most, f, &e);
}

/* Makes a frame of the output so short that the peer takes it; its size then.  What stands behind it moves up. */
PRIVATE size_t frame_fit(lane_connection *l, uint8_t *octets, size_t size, const lane_frame *f)
{
    const uint32_t most = frame_largest(l->c);
    if (__builtin_expect(size <= most, 1)) return size;
    uint8_t *made = (uint8_t *) memory_for(NULL, most), *behind = octets + size;
    const uint32_t fits = frame_shortened(made, most, f);
    if (fits) {
        memcpy(octets, made, fits);
        memmove(octets + fits, behind, (size_t) (l->out + l->out_end - behind));
        l->out_end -= size - fits;
        size = fits;
    }
    free(made);
    return size;
}
