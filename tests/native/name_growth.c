/* Numbers so many texts.  Output: the most steps that one of them took. */
#include <stdio.h>
#include <string.h>

#include "core/rmr/tables/unity.c"
#include "tests/native/check.h"

static unsigned long steps;

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { steps++; }

int main(int count, char **arguments)
{
    uint32_t many = count > 1 ? (uint32_t) atoi(arguments[1]) : 0, number;
    unsigned long worst = 0;
    record_names names = { .seed = 1 };
    for (uint32_t i = 0; i < many; i++) {
        char text[32];
        uint32_t length = (uint32_t) snprintf(text, sizeof text, "host-%08u:4560", i);
        steps = 0;
        number = name_add(&names, (const uint8_t *) text, length);
        if (steps > worst) worst = steps;
        CHECK(number == i, "text %u is number %u", i, number);
    }
    for (uint32_t i = 0; i < many; i++) {
        char text[32];
        uint32_t length = (uint32_t) snprintf(text, sizeof text, "host-%08u:4560", i);
        number = name_add(&names, (const uint8_t *) text, length);
        CHECK(number == i, "text %u has become number %u", i, number);
    }
    names_free(&names);
    printf("%lu\n", worst);
    return 0;
}
