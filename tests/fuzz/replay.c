/* Gives a fuzzing target the inputs of files, and the same again with changes at random: what libFuzzer does, for a
 * compiler that does not have it.  Arguments: seed, number of changed inputs, files.
 *
 * FUZZ_FAILED, in the environment, is a file that the input is written to before it is tried; so that one that ends the
 * process is there. */
#include <fcntl.h>

#include "tests/fuzz/parts/input.h"

enum { LONGEST = 1 << 16 };

static uint8_t octets[LONGEST];

static size_t load(const char *name)
{
    FILE *f = fopen(name, "rb");
    CHECK(f, "%s: cannot be read", name);
    size_t size = fread(octets, 1, LONGEST, f);
    fclose(f);
    return size;
}

static void keep(size_t size)
{
    const char *name = getenv("FUZZ_FAILED");
    int fd = name ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0) return;
    CHECK(write(fd, octets, size) == (ssize_t) size, "%s: cannot be written", name);
    close(fd);
}

static size_t changed(uint64_t *state, size_t size)
{
    for (uint64_t n = 1 + random_below(state, 4); n && size; n--) {
        size_t at = random_below(state, size), more = 1 + random_below(state, 8);
        switch (random_below(state, 5)) {
        case 0: octets[at] ^= (uint8_t) (1u << random_below(state, 8)); break;
        case 1: octets[at] = (uint8_t) (random_below(state, 2) ? 0xff : 0x80); break;
        case 2: octets[at] = (uint8_t) random_next(state); break;
        case 3:
            if (more > size - at) more = size - at;
            memmove(octets + at, octets + at + more, size - at - more);
            size -= more;
            break;
        default:
            if (size + more > LONGEST) break;
            memmove(octets + at + more, octets + at, size - at);
            size += more;
        }
    }
    return size;
}

/* In an allocation of its own size, for AddressSanitizer. */
static void once(size_t size)
{
    keep(size);
    uint8_t *copy = copy_of(octets, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

int main(int argc, char **argv)
{
    CHECK(argc > 3, "arguments: seed, number of changed inputs, files");
    uint64_t state = mix(strtoull(argv[1], NULL, 10)) | 1;
    for (int i = 3; i < argc; i++) once(load(argv[i]));
    for (uint64_t n = strtoull(argv[2], NULL, 10); n; n--)
        once(changed(&state, load(argv[3 + random_below(&state, (uint64_t) argc - 3)])));
    const char *missing = fuzz_missing ? fuzz_missing() : NULL;
    CHECK(!missing, "the inputs never reach: %s", missing);
    return 0;
}
