/* What the scan for a route table's key costs a worker: `rmr_key ROUNDS` prints ns of CPU time a message, without and with it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rmr_amqp.h"

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* A message with all of a key; its length. */
static size_t compose(uint8_t *message)
{
    uint8_t *p = rmr_put_number(message + 12, "rmr.mt", 6, 1000);
    p = rmr_put_number(p, "rmr.sub-id", 10, 10);
    p = rmr_put_short(p, 0xa1, "rmr.meid", 8);
    p = rmr_put_short(p, 0xa1, "ran-0001", 8);
    p = rmr_put_short(p, 0xa1, "rmr.source", 10);
    p = rmr_put_short(p, 0xa1, "app:4560", 8);
    rmr_section(message, SECTION_APPLICATION_PROPERTIES, 0xd1, p, 8);
    memcpy(p, "\x00\x53\x75\xa0\x40", 5);
    return (size_t) (p - message) + 5 + 64;
}

int main(int argc, char **argv)
{
    static uint8_t message[512];
    size_t size = compose(message);
    scan_found found;
    rmr_key key;
    long rounds = argc == 2 ? atol(argv[1]) : 0;
    if (rounds <= 0) return 2;
    double began = cpu_ns();
    for (long i = 0; i < rounds; i++) {
        __asm__ volatile("" ::"r"(message) : "memory");
        if (scan_message(message, size, true, &found) != SCAN_DONE) return 1;
    }
    double plain = cpu_ns() - began;
    began = cpu_ns();
    for (long i = 0; i < rounds; i++) {
        __asm__ volatile("" ::"r"(message) : "memory");
        if (scan_message(message, size, true, &found) != SCAN_DONE || rmr_key_there(message, size, true, &found) != SCAN_DONE) return 1;
        if (rmr_key_scan(message, size, &found, &key) != SCAN_DONE || key.mt != 1000 || key.sid != 10) return 1;
    }
    printf("%.1f %.1f\n", plain / (double) rounds, (cpu_ns() - began) / (double) rounds);
    return 0;
}
