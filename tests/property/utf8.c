/* The check for text as a function that a test can call. */
#include "shm/codec/utf8.h"

int valid(const uint8_t *bytes, size_t size);

int valid(const uint8_t *bytes, size_t size) { return utf8_valid(bytes, size); }
