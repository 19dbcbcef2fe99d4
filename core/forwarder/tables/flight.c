/* Lines of the flight recorder about what the core reads of messages. */
#include "core/forwarder/tables/access.h"
#include "shm/codec/utf8.h"

__attribute__((noinline, cold)) PRIVATE void flight_read(const core_router *c, flight_line line, uint32_t block)
{
    line.block = block;
    flight_put(c->flight, &line);
}

/* Writes what stands for a text in a recording, its hash in hexadecimal digits, and returns the length. */
PRIVATE uint32_t flight_stand_in(uint64_t hash, bool about, uint8_t *text)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < 16; i++) text[i] = (uint8_t) digits[hash >> (60 - 4 * i) & 15];
    if (about) memcpy(text + 16, ABOUT_ADDRESSES, ABOUT_ADDRESSES_LENGTH);
    return about ? STAND_IN_MOST : 16;
}

/* Records which text a message names, by its hash, and whether it is an AMQP string. */
__attribute__((noinline)) PRIVATE void flight_text(const core_router *c, uint32_t w, uint32_t block, uint32_t length,
                                                   uint64_t hash)
{
    flight_line line = flight_about(c, FLIGHT_TEXT, w);
    if (length <= CORE_MAX_TEXT && utf8_valid(c->text, length))
        line.count = text_about_addresses(c->text, length) ? FLIGHT_TEXT_VALID | FLIGHT_TEXT_ABOUT : FLIGHT_TEXT_VALID;
    line.length = length;
    line.hash = hash;
    flight_read(c, line, block);
}

/* Records what a message's header says of routers; `origin` and `trace`: where it has been, as bits. */
__attribute__((noinline)) PRIVATE void flight_routed(const core_router *c, uint32_t w, uint32_t block,
                                                     const arena_content *content, int origin, const core_mask *trace)
{
    flight_line line = flight_about(c, FLIGHT_ROUTED, w);
    line.detail[0] = content->annotations;
    line.detail[1] = content->routed;
    line.detail[2] = content->phase;
    line.detail[3] = (uint8_t) origin;
    memcpy(line.detail + 4, &content->trace_count, 4);
    memcpy(line.detail + 8, &content->section_end, 4);
    memcpy(line.detail + 12, trace, sizeof *trace);
    flight_read(c, line, block);
}
