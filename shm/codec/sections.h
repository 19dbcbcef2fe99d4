/* The sections of a message by number and name (AMQP 1.0 part 3.2): C reads the enum, Python section_names
 * (shm/contract/sections.py). */
#ifndef ROUTERD_SHM_SECTIONS_H
#define ROUTERD_SHM_SECTIONS_H

#include <stdint.h>

#define SECTIONS(X) \
    X(HEADER, 0x70, "amqp:header:list") \
    X(DELIVERY_ANNOTATIONS, 0x71, "amqp:delivery-annotations:map") \
    X(MESSAGE_ANNOTATIONS, 0x72, "amqp:message-annotations:map") \
    X(PROPERTIES, 0x73, "amqp:properties:list") \
    X(APPLICATION_PROPERTIES, 0x74, "amqp:application-properties:map") \
    X(DATA, 0x75, "amqp:data:binary") \
    X(SEQUENCE, 0x76, "amqp:amqp-sequence:list") \
    X(VALUE, 0x77, "amqp:amqp-value:*") \
    X(FOOTER, 0x78, "amqp:footer:map")

#define X(name, number, text) SECTION_##name = number,
enum section { SECTIONS(X) };
#undef X

typedef struct { uint8_t code; const char *text; } section_name;

#define X(name, number, text) { number, text },
static const section_name section_names[] = { SECTIONS(X) };
#undef X
#define SECTION_COUNT (sizeof section_names / sizeof *section_names)

#endif
