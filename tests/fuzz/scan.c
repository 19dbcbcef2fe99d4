/* The scan, and what the flow log wants to know of a message, as functions that a test can call. */
#define ROUTERD_UNITY

#include "workers/amqp/flow_extract.c"
#include "shm/codec/scan.h"

int scan(const uint8_t *bytes, size_t size, int complete, scan_found *found);

int scan(const uint8_t *bytes, size_t size, int complete, scan_found *found)
{
    return scan_message(bytes, size, complete != 0, found);
}

int digest(const uint8_t *bytes, size_t size, content_extract *found);

int digest(const uint8_t *bytes, size_t size, content_extract *found)
{
    scan_found sections;
    if (scan_message(bytes, size, true, &sections) != SCAN_DONE) return 0;
    extract_read(found, bytes, size, true, &sections, EXTRACT_MESSAGES | EXTRACT_TRANSACTIONS);
    return 1;
}
