/*
 * The operations of other benchmarks, written out plainly, so that a difference between their figures and ours can be put down
 * to one property at a time. Each prints the mean nanoseconds of one operation, as those benchmarks do.
 *
 *   cc -O2 -o twins peer-twins.c      (-static for those that stand for ours)
 *   ./twins NAME
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* A system call in line: no function, so no return after it. */
static inline long in_line(long number, long a, long b, long c)
{
#if defined(__x86_64__)
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

static void check(int right, const char *what)
{
    if (!right) {
        perror(what);
        exit(1);
    }
}

static int there[2], back[2];
enum { SIZE = 4 };
#define ALWAYS_IN_LINE static inline __attribute__((always_inline))

ALWAYS_IN_LINE void get(int from, void *into, int by_library)
{
    check((by_library ? read(from, into, SIZE) : in_line(SYS_read, from, (long)into, SIZE)) == SIZE, "read");
}

ALWAYS_IN_LINE void put(int to, void *from, int by_library)
{
    check((by_library ? write(to, from, SIZE) : in_line(SYS_write, to, (long)from, SIZE)) == SIZE, "write");
}

enum { ROUND_TRIPS = 100000 };

ALWAYS_IN_LINE void answer(int by_library)
{
    char token[SIZE];
    for (long i = 0; i < ROUND_TRIPS; i++) {
        get(there[0], token, by_library);
        put(back[1], token, by_library);
    }
}

ALWAYS_IN_LINE void ask(int by_library)
{
    char token[SIZE] = {1};
    for (long i = 0; i < ROUND_TRIPS; i++) {
        put(there[1], token, by_library);
        get(back[0], token, by_library);
    }
}

static void *answers(void *by_library)
{
    if (by_library)
        answer(1);
    else
        answer(0);
    return NULL;
}

/* A hop is half of a round trip of a token through two pipes. */
static double hop(int threads, int by_library)
{
    pthread_t thread;
    pid_t child = 0;
    void *how = by_library ? "" : NULL;
    check(!pipe(there) && !pipe(back), "pipe");
    double start = now(); /* Making the partner is inside, as in perf bench sched pipe. */
    if (threads) {
        check(!pthread_create(&thread, NULL, answers, how), "pthread_create");
    } else if (!(child = fork())) {
        answers(how);
        _exit(0);
    }
    if (by_library)
        ask(1);
    else
        ask(0);
    if (threads)
        pthread_join(thread, NULL);
    else
        waitpid(child, NULL, 0);
    return (now() - start) / ROUND_TRIPS / 2;
}

/* Pairs of areas of memory of a larger parent, four touched pages in one of each pair. */
static void grow(int areas)
{
    long page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < areas; i++) {
        /* Neighbours of different protection stay areas of their own. */
        char *area = mmap(NULL, 5 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(area != MAP_FAILED, "mmap");
        memset(area, 1, 4 * page);
        check(!mprotect(area + 4 * page, page, PROT_NONE), "mprotect");
    }
}

static double fork_wait(int busy_child)
{
    long count = 4000;
    double start = now();
    for (long i = 0; i < count; i++) {
        pid_t child = fork();
        if (!child) {
            if (busy_child) { /* What the child of stress-ng --fork does. */
                setsid();
                in_line(SYS_vhangup, 0, 0, 0);
                setpgid(0, 0);
                sched_yield();
                prctl(PR_SET_NAME, "twin");
            }
            _exit(0);
        }
        check(child > 0 && waitpid(child, NULL, 0) == child, "fork");
    }
    return (now() - start) / count;
}

static double vfork_wait(void)
{
    long count = 10000;
    double start = now();
    for (long i = 0; i < count; i++) {
        pid_t child = vfork();
        if (!child)
            _exit(0);
        check(child > 0 && waitpid(child, NULL, 0) == child, "vfork");
    }
    return (now() - start) / count;
}

int main(int count, char **words)
{
    const char *name = count > 1 ? words[1] : "";
    double each;
    if (!strcmp(name, "hop-processes")) {
        each = hop(0, 1);
    } else if (!strcmp(name, "hop-processes-in-line")) {
        each = hop(0, 0);
    } else if (!strcmp(name, "hop-threads")) {
        each = hop(1, 1);
    } else if (!strcmp(name, "hop-threads-in-line")) {
        each = hop(1, 0);
    } else if (!strcmp(name, "fork")) {
        each = fork_wait(0);
    } else if (!strcmp(name, "fork-grown-busy")) {
        grow(75);
        each = fork_wait(1);
    } else if (!strcmp(name, "vfork")) {
        each = vfork_wait();
    } else if (!strcmp(name, "vfork-grown")) {
        grow(75);
        each = vfork_wait();
    } else {
        fprintf(stderr, "error: no twin of this name: '%s'\n", name);
        return 2;
    }
    printf("%.1f\n", each);
    return 0;
}
