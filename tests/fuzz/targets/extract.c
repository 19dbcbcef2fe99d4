/* The flow extract of a message that the scan takes: it is read inside of the message, and lies inside of it. */
#define ROUTERD_UNITY

#include "tests/fuzz/parts/input.h"

#include "shm/codec/scan.h"
#include "workers/amqp/flow_extract.c"

static void inside(uint32_t offset, uint32_t length, size_t size)
{
    CHECK(!offset || (uint64_t) offset + length <= size, "%u octets at %u of %zu", length, offset, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t octet_count)
{
    scan_found found;
    content_extract extract = { 0 };
    input_open(octets, octet_count);
    uint32_t how = below(4);
    size_t size = choices_left();
    uint8_t *message = copy_of(input.at, size);
    if (scan_message(message, size, how & 1, &found) == SCAN_DONE) {
        extract_read(&extract, message, size, how & 1, &found, EXTRACT_MESSAGES | (how & 2 ? EXTRACT_TRANSACTIONS : 0));
        inside(extract.body, 0, size);
        inside(extract.trace, EXTRACT_TRACEPARENT, size);
        inside(extract.transaction, RMR_XACT_BYTES, size);
        inside(extract.onward, 1, size);
        inside(extract.back, 1, size);
        CHECK(extract.state <= 3, "state %u", extract.state);
    }
    free(message);
    return 0;
}
