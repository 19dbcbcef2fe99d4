/* Preloaded into a router: its time of day is off by as many seconds as the first eight bytes of the file CLOCK_SHIFT
 * say.  Whoever writes there sets the clock of all its processes at once. Monotonic clocks, and the kernel's, are as
 * they are: a wait for a point of the time of day would be far too long or none.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds;

__attribute__((constructor)) static void map(void)
{
    const char *name = getenv("CLOCK_SHIFT");
    int fd = name != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        seconds = page;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && seconds != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *seconds;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec spec;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &spec) != 0)
        return -1;
    now->tv_sec = spec.tv_sec;
    now->tv_usec = spec.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (told != NULL)
        *told = now.tv_sec;
    return now.tv_sec;
}
