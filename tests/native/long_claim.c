/* A message over a link route whose second section claims to be the longest that there can be, behind one that fills
 * more than a block: it is gathered once for that, not with each of its TRANSFERs.
 *
 * The program ends with a line for the first mistake.
 */
#define _GNU_SOURCE
#include "tests/native/growth/growth_world.h"

enum { FIRST = 20000, PART = 10000, PARTS = 8 };               /* octets of the first section, of a TRANSFER */

static uint8_t message[PARTS * PART];

static void put_claims(void)
{
    uint8_t *at = amqp_put_descriptor(message, SECTION_DELIVERY_ANNOTATIONS);
    at = amqp_put_head(at, AMQP_MAP32, FIRST) + FIRST;
    amqp_put_head(amqp_put_descriptor(at, SECTION_MESSAGE_ANNOTATIONS), AMQP_MAP32, UINT32_MAX);
}

static void say_part(client *k, uint32_t i)
{
    uint8_t frame[LANE_TRANSFER_MAX + PART];
    lane_transfer t = { .has_id = !i, .has_format = !i, .more = true, .tag = { message, i ? 0 : 4 } };
    uint8_t *at = lane_put_transfer(frame, 0, &t);
    memcpy(at, message + i * PART, PART);
    say(k, frame, lane_put_size(frame, at + PART));
}

int main(void)
{
    put_claims();
    world_open(64);
    client k = client_with(1, false);
    worker_link *link = (worker_link *) pool_at(&world.p.links, world.links[0].index);
    link->routed = true;
    link->conn->user = strdup("u");                            /* so its properties are read */
    to_worker(W_FLOW, world.links[0])->credit = 1;
    turns(false);
    for (uint32_t i = 0; i < PARTS; i++) { say_part(&k, i); utter(&k, false); }
    const in_delivery *s = link->current;
    CHECK(s && s->writer.written > sizeof message, "the message does not arrive");
    CHECK(s->scan_at == SCAN_LIMIT, "it is gathered again with %u octets", (uint32_t) s->scan_at);
    client_goes(&k, false);
    return 0;
}
