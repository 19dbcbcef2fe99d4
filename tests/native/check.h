/* What the native tests share: checks that end the process, seeded random numbers, a pair of threads or processes. */
#ifndef ROUTERD_TESTS_CHECK_H
#define ROUTERD_TESTS_CHECK_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            abort(); \
        } \
    } while (0)

static inline uint64_t random_next(uint64_t *state)      /* xorshift64*, state is not 0 */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit) { return (random_next(state) >> 11) % limit; }

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static inline void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "no memory");
    return p;
}

/* Runs both sides: as threads (for ThreadSanitizer) or, with PROCESSES, as two processes that share only memory.
 * A lost wake-up shows as a hang; the alarm turns it into a failure. */
static inline void run_pair(void *(*left)(void *), void *(*right)(void *), void *shared)
{
    alarm(500);
#ifdef PROCESSES
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (!child) {
        alarm(500);
        right(shared);
        _exit(0);
    }
    left(shared);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with status %d", status);
#else
    pthread_t other;
    CHECK(pthread_create(&other, NULL, right, shared) == 0, "no thread");
    left(shared);
    CHECK(pthread_join(other, NULL) == 0, "join");
#endif
    alarm(0);
}

#endif
