/* Coroutines with heaps of their own. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/simulation/depth/simulation.h"

enum { STACK = 1 << 19, ALIGNMENT = 64 };
#define HEAP ((size_t) 1 << 31)        /* octets of addresses */
#define HEAP_KEPT ((size_t) 8 << 20)   /* octets of memory that the next process gets */

process processes[PROCESSES];
int running = -1, heap_now = PEOPLE;
uint64_t virtual_now;
static void *scheduler;
static void (*bodies[PROCESSES])(int);

/* ---- heaps: blocks of powers of two, freed ones in lists by their size ---- */

/* power 0: it is inside of `whole`, which goes with it. */
typedef struct { uint64_t size; uint32_t power, owner; void *whole; uint8_t rest[ALIGNMENT - 24]; } heap_head;
_Static_assert(sizeof(heap_head) == ALIGNMENT, "what a block's owner gets is aligned");

static void *mapped(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HOLDS(at != MAP_FAILED, "no addresses");
    return at;
}

void *heap_take(size_t size)
{
    process *p = &processes[heap_now];
    uint32_t power = 64u - (uint32_t) __builtin_clzll(size + ALIGNMENT - 1);
    if (power < 7) power = 7;
    heap_head *h = (heap_head *) p->free_of[power];
    HOLDS(power < 32, "a block of %zu octets", size);
    if (h) {
        memcpy(&p->free_of[power], h + 1, sizeof(void *));
    } else {
        if (!p->heap) p->heap = (uint8_t *) mapped(HEAP);
        HOLDS(p->heap_top + ((size_t) 1 << power) <= HEAP, "the heap of process %d is full", heap_now);
        h = (heap_head *) (p->heap + p->heap_top);
        p->heap_top += (size_t) 1 << power;
    }
    h->size = size;
    h->power = power;
    h->owner = (uint32_t) heap_now + 1;
    p->heap_live += size;
    if (p->heap_live > p->heap_most) p->heap_most = p->heap_live;
    return h + 1;
}

void *heap_take_clear(size_t count, size_t size)
{
    void *at = heap_take(count * size);
    return memset(at, 0, count * size);
}

int heap_take_pages(void **to, size_t alignment, size_t size)
{
    void *whole = heap_take(size + alignment + ALIGNMENT);
    uintptr_t at = ((uintptr_t) whole + ALIGNMENT + alignment - 1) & ~(uintptr_t) (alignment - 1);
    ((heap_head *) at)[-1] = (heap_head) { .whole = whole };
    *to = (void *) at;
    return 0;
}

void heap_give(void *old)
{
    if (!old) return;
    heap_head *h = (heap_head *) old - 1;
    if (!h->power) h = (heap_head *) h->whole - 1;
    HOLDS(h->owner == (uint32_t) heap_now + 1, "process %d frees what is not its own, or free already", heap_now);
    process *p = &processes[heap_now];
    p->heap_live -= h->size;
    h->owner = 0;
    memcpy(h + 1, &p->free_of[h->power], sizeof(void *));
    p->free_of[h->power] = h;
}

void *heap_change(void *old, size_t size)
{
    if (!old) return heap_take(size);
    heap_head *h = (heap_head *) old - 1;
    if (size <= ((size_t) 1 << h->power) - ALIGNMENT && h->owner == (uint32_t) heap_now + 1) {
        processes[heap_now].heap_live += size - h->size;
        h->size = size;
        return old;
    }
    void *new = heap_take(size);
    memcpy(new, old, h->size < size ? h->size : size);
    heap_give(old);
    return new;
}

static void heap_drop(process *p)
{
    if (p->heap_top > HEAP_KEPT) madvise(p->heap + HEAP_KEPT, p->heap_top - HEAP_KEPT, MADV_DONTNEED);
    p->heap_top = p->heap_live = 0;
    memset(p->free_of, 0, sizeof p->free_of);
}

/* ---- coroutines ---- */

#ifdef __x86_64__
void stack_switch(void **save, void *to);
__asm__(".text\n.globl stack_switch\n.type stack_switch, @function\nstack_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size stack_switch, .-stack_switch\n");

static void process_begin(void)
{
    bodies[running](running);
    HOLDS(false, "process %d has ended", running);
}

static void stack_begin(process *p)
{
    void **top = (void **) ((uint8_t *) p->stack + STACK) - 2;
    *top = (void *) process_begin;
    p->at = top - 6;
}
#else
#include <ucontext.h>
static ucontext_t contexts[PROCESSES + 1];

static void process_begin(void) { bodies[running](running); }

static void stack_begin(process *p)
{
    ucontext_t *c = &contexts[p - processes];
    getcontext(c);
    c->uc_stack.ss_sp = p->stack;
    c->uc_stack.ss_size = STACK;
    makecontext(c, process_begin, 0);
    p->at = c;
}

static void stack_switch(void **save, void *to)
{
    ucontext_t *from = save == &scheduler ? &contexts[PROCESSES] : &contexts[(process *) ((uint8_t *) save
        - offsetof(process, at)) - processes];
    *save = from;
    swapcontext(from, (ucontext_t *) to);
}
#endif

void process_start(int number, void (*body)(int))
{
    process *p = &processes[number];
    HOLDS(!p->alive, "process %d is there", number);
    if (!p->stack) p->stack = mapped(STACK);
    bodies[number] = body;
    p->alive = true;
    p->asleep = false;
    p->wake_at = 0;
    stack_begin(p);
}

void process_kill(int number)
{
    process *p = &processes[number];
    p->alive = p->asleep = false;
    heap_drop(p);
}

/* Lets a process run until it has passed so many points, or sleeps. */
void process_resume(int number, uint32_t points)
{
    process *p = &processes[number];
    p->points = points;
    p->asleep = false;
    running = heap_now = number;
    stack_switch(&scheduler, p->at);
    running = -1;
    heap_now = PEOPLE;
}

__attribute__((noinline)) void process_pause(void)
{
    process *p = &processes[running];
    stack_switch(&p->at, scheduler);
}

void process_sleep(uint64_t until)
{
    process *p = &processes[running];
    p->asleep = true;
    p->wake_at = until;
    process_pause();
}

int clock_virtual(int clock, void *time)
{
    (void) clock;
    virtual_now += 40;                 /* so that loops that wait for a time end */
    *(struct timespec *) time = (struct timespec) { .tv_sec = (time_t) (virtual_now / 1000000000u),
                                                    .tv_nsec = (long) (virtual_now % 1000000000u) };
    return 0;
}
