/* The scan as a function that a test can call. */
#include "scan.h"

int scan(const uint8_t *bytes, size_t size, int complete, scan_found *found);

int scan(const uint8_t *bytes, size_t size, int complete, scan_found *found)
{
    return scan_message(bytes, size, complete != 0, found);
}
