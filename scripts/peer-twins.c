/*
 * The operations of other benchmarks, written out plainly, so that a difference between their figures and ours can be put down
 * to one property at a time. Each prints the mean nanoseconds of one operation, as those benchmarks do.
 *
 *   cc -O2 -pthread -o twins peer-twins.c      (-static for those that stand for ours)
 *   ./twins NAME
 *   ./twins in-work      (all operations in ordinary work: a line of name, nanoseconds and core cycles for each)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
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

/* The same with six arguments. */
static inline long in_line_6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
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

/* Ordinary work: words are counted in a hash table. */
enum { WORDS = 64, LONGEST = 12, SLOTS = 256 };
static char text[WORDS][LONGEST];
static struct slot {
    const char *word;
    unsigned count;
} slots[SLOTS];

static unsigned hash(const char *word)
{
    unsigned sum = 2166136261u;
    while (*word)
        sum = (sum ^ (unsigned char)*word++) * 16777619u;
    return sum;
}

static struct slot *find(const char *word)
{
    unsigned at = hash(word) % SLOTS;
    while (slots[at].word && strcmp(slots[at].word, word))
        at = (at + 1) % SLOTS;
    return &slots[at];
}

static unsigned count_word(const char *word)
{
    struct slot *slot = find(word);
    if (!slot->word)
        slot->word = word;
    if (++slot->count > 1000000)
        slot->count = 1;
    return slot->count;
}

static void write_text(void)
{
    for (int i = 0; i < WORDS; i++) {
        int letters = 3 + rand() % (LONGEST - 3);
        for (int k = 0; k < letters; k++)
            text[i][k] = 'a' + rand() % 26;
    }
}

static int zero, null, own_pipe[2], own_eventfd, block, set, timer;
static char path[4096], page[4096], facts[1024];
static struct timespec moment;
static char byte;
static uint64_t one = 1;
static unsigned word;
static const char *const missing = "/twins-have-no-such-file", *const there_is = "/dev/null";

#define MOST_ENTRIES 100
static struct pollfd entries[MOST_ENTRIES];
static int ready;
static fd_set ready_set;

static int stream[2], datagram[2];
static char large[65536];
static long number;
static int held;
static const struct flock range = { .l_type = F_WRLCK, .l_len = 1 }, no_range = { .l_type = F_UNLCK, .l_len = 1 };

/* Bytes to a channel and back. */
ALWAYS_IN_LINE long through(const int *ends, long bytes)
{
    long sent = in_line(SYS_write, ends[1], (long)large, bytes);
    return sent + in_line(SYS_read, ends[0], (long)large, bytes);
}

/* What a mutex does that no other task wants. */
ALWAYS_IN_LINE long lock_and_unlock(void)
{
    int is_free = 0;
    int taken = __atomic_compare_exchange_n(&held, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    return taken ? __atomic_exchange_n(&held, 0, __ATOMIC_RELEASE) : -1;
}

/* Changes of an area with neighbours that the kernel cannot join with it. */
static char *between, *kept, *one_kept;
static int mapped_file;

ALWAYS_IN_LINE long map_and_unmap(long pages, int is_written, int file)
{
    long bytes = pages * sizeof page, sum = 0;
    int protection = file ? PROT_READ : PROT_READ | PROT_WRITE;
    char *area = mmap(between, bytes, protection, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file ? file : -1, 0);
    if (area != between)
        return -1;
    for (long at = 0; at < bytes && is_written; at += sizeof page)
        *(volatile char *)(area + at) = 1;
    for (long at = 0; at < bytes && file; at += sizeof page)
        sum += *(volatile char *)(area + at);
    return sum + munmap(area, bytes);
}

ALWAYS_IN_LINE long discard_and_write(char *area, long pages)
{
    long bytes = pages * sizeof page, answer = madvise(area, bytes, MADV_DONTNEED);
    for (long at = 0; at < bytes; at += sizeof page)
        *(volatile char *)(area + at) = 1;
    return answer;
}

static void make_areas(void)
{
    enum { PAGES = 64 };
    long page_bytes = sizeof page, bytes = PAGES * page_bytes;
    between = mmap(NULL, bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept = mmap(NULL, bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    one_kept = mmap(NULL, 3 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(between != MAP_FAILED && kept != MAP_FAILED && one_kept != MAP_FAILED, "mmap");
    between += page_bytes, kept += page_bytes, one_kept += page_bytes;
    check(!mprotect(kept, bytes, PROT_READ | PROT_WRITE) && !mprotect(one_kept, page_bytes, PROT_READ | PROT_WRITE), "mprotect");
    discard_and_write(one_kept, 1);
    mapped_file = memfd_create("mapped", MFD_CLOEXEC);
    for (int i = 0; i < PAGES; i++)
        check(write(mapped_file, page, sizeof page) == sizeof page, "write");
    check(!munmap(between, bytes), "munmap");
}

/* Sockets on the loopback interface, through which nothing is sent. */
static int listening, connected;
static const int set_to = 1;
static const struct sockaddr_in any_port = { .sin_family = AF_INET, .sin_addr = { 0x0100007f } };
static struct sockaddr_in found_address;
static socklen_t address_bytes = sizeof found_address;
static struct iovec buffers[10];
static struct epoll_event same_event;
static unsigned words[4], held_word;

ALWAYS_IN_LINE long bind_and_close(void)
{
    long made = in_line(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return in_line(SYS_bind, made, (long)&any_port, sizeof any_port) + in_line(SYS_close, made, 0, 0);
}

ALWAYS_IN_LINE long pair_and_close(void)
{
    int pair[2];
    long made = in_line_6(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, (long)pair, 0, 0);
    return made + in_line(SYS_close, pair[0], 0, 0) + in_line(SYS_close, pair[1], 0, 0);
}

static void make_sockets(void)
{
    listening = socket(AF_INET, SOCK_STREAM, 0), connected = socket(AF_INET, SOCK_DGRAM, 0);
    check(!bind(listening, (const struct sockaddr *)&any_port, sizeof any_port) && !listen(listening, 128), "listen");
    check(!bind(connected, (const struct sockaddr *)&any_port, sizeof any_port), "bind");
    check(!getsockname(connected, (struct sockaddr *)&found_address, &address_bytes), "getsockname");
    check(!connect(connected, (struct sockaddr *)&found_address, sizeof found_address), "connect");
    for (int i = 0; i < 10; i++)
        buffers[i] = (struct iovec){ &byte, 1 };
}

/* An operation, its name and its code. The answer goes into a sum that is looked at. */
#define OPERATIONS(X) \
    X(REFUSED, "enosys", in_line(-1, 0, 0, 0)) \
    X(GETPID, "getpid", in_line(SYS_getpid, 0, 0, 0)) \
    X(GETPPID, "getppid", in_line(SYS_getppid, 0, 0, 0)) \
    X(GETTID, "gettid", in_line(SYS_gettid, 0, 0, 0)) \
    X(READ, "read_dev_zero", in_line(SYS_read, zero, (long)&byte, 1)) \
    X(WRITE, "write_dev_null", in_line(SYS_write, null, (long)&byte, 1)) \
    X(GETCWD, "getcwd", in_line(SYS_getcwd, (long)path, sizeof path, 0)) \
    X(CLOCK, "clock_gettime", in_line(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&moment, 0)) \
    X(YIELD, "sched_yield", in_line(SYS_sched_yield, 0, 0, 0)) \
    X(PIPE, "pipe", in_line(SYS_write, own_pipe[1], (long)&byte, 1) + in_line(SYS_read, own_pipe[0], (long)&byte, 1)) \
    X(EVENTFD, "eventfd", in_line(SYS_write, own_eventfd, (long)&one, 8) + in_line(SYS_read, own_eventfd, (long)&one, 8)) \
    X(PIPE_BLOCK, "pipe_4096", through(own_pipe, sizeof page)) \
    X(PIPE_FULL, "pipe_65536", through(own_pipe, sizeof large)) \
    X(STREAM, "unix_stream_1", through(stream, 1)) \
    X(STREAM_BLOCK, "unix_stream_4096", through(stream, sizeof page)) \
    X(STREAM_FULL, "unix_stream_65536", through(stream, sizeof large)) \
    X(DATAGRAM, "unix_datagram_1", through(datagram, 1)) \
    X(DATAGRAM_BLOCK, "unix_datagram_4096", through(datagram, sizeof page)) \
    X(ADD, "atomic_add", __atomic_fetch_add(&number, 1, __ATOMIC_SEQ_CST)) \
    X(MUTEX, "mutex", lock_and_unlock()) \
    X(FLOCK, "file_lock", in_line(SYS_flock, block, LOCK_EX | LOCK_NB, 0) + in_line(SYS_flock, block, LOCK_UN, 0)) \
    X(RANGE, "range_lock", in_line(SYS_fcntl, block, F_SETLK, (long)&range) + in_line(SYS_fcntl, block, F_SETLK, (long)&no_range)) \
    X(STAT, "stat", in_line_6(SYS_newfstatat, AT_FDCWD, (long)there_is, (long)facts, 0, 0, 0)) \
    X(MISSING, "stat_missing", in_line_6(SYS_newfstatat, AT_FDCWD, (long)missing, (long)facts, 0, 0, 0)) \
    X(FSTAT, "fstat", in_line(SYS_fstat, block, (long)facts, 0)) \
    X(STATX, "statx", in_line_6(SYS_statx, AT_FDCWD, (long)there_is, 0, STATX_BASIC_STATS, (long)facts, 0)) \
    X(ACCESS, "access", in_line(SYS_faccessat, AT_FDCWD, (long)there_is, R_OK)) \
    X(OPEN, "open_close", in_line(SYS_close, in_line_6(SYS_openat, AT_FDCWD, (long)there_is, O_RDONLY | O_CLOEXEC, 0, 0, 0), 0, 0)) \
    X(DUP, "dup_close", in_line(SYS_close, in_line(SYS_dup, block, 0, 0), 0, 0)) \
    X(SEEK, "lseek", in_line(SYS_lseek, block, 0, SEEK_SET)) \
    X(GETFL, "fcntl_getfl", in_line(SYS_fcntl, block, F_GETFL, 0)) \
    X(ISATTY, "isatty", in_line(SYS_ioctl, block, TCGETS, (long)facts)) \
    X(PREAD1, "pread_1", in_line_6(SYS_pread64, block, (long)page, 1, 0, 0, 0)) \
    X(PREAD, "pread_4096", in_line_6(SYS_pread64, block, (long)page, sizeof page, 0, 0, 0)) \
    X(PWRITE1, "pwrite_1", in_line_6(SYS_pwrite64, block, (long)page, 1, 0, 0, 0)) \
    X(PWRITE, "pwrite_4096", in_line_6(SYS_pwrite64, block, (long)page, sizeof page, 0, 0, 0)) \
    X(RANDOM, "getrandom_16", in_line(SYS_getrandom, (long)page, 16, 0)) \
    X(UNAME, "uname", in_line(SYS_uname, (long)facts, 0, 0)) \
    X(RUSAGE, "getrusage", in_line(SYS_getrusage, 0, (long)facts, 0)) \
    X(MASK, "sigprocmask", in_line_6(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)facts, 8, 0, 0)) \
    X(FUTEX, "futex_wake", in_line(SYS_futex, (long)&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1)) \
    X(MISMATCH, "futex_mismatch", in_line_6(SYS_futex, (long)&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, 0, 0, 0)) \
    X(EPOLL, "epoll_wait_ready", in_line_6(SYS_epoll_pwait, set, (long)facts, 1, 0, 0, 8)) \
    X(POLL1, "poll_1", in_line_6(SYS_ppoll, (long)&entries[MOST_ENTRIES - 1], 1, 0, 0, 0, 0)) \
    X(POLL100, "poll_100", in_line_6(SYS_ppoll, (long)entries, MOST_ENTRIES, 0, 0, 0, 0)) \
    X(SELECT, "select_1", in_line_6(SYS_pselect6, ready + 1, (long)&ready_set, 0, 0, 0, 0)) \
    X(FIONREAD_, "ioctl_fionread", in_line(SYS_ioctl, own_pipe[0], FIONREAD, (long)facts)) \
    X(TIMER, "timerfd_gettime", in_line(SYS_timerfd_gettime, timer, (long)facts, 0)) \
    X(BARRIER, "membarrier", in_line(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)) \
    X(CHDIR, "chdir", in_line(SYS_chdir, (long)".", 0, 0)) \
    X(SETFL, "fcntl_setfl", in_line(SYS_fcntl, block, F_SETFL, O_RDWR)) \
    X(WRITEV, "writev_10", in_line(SYS_writev, null, (long)buffers, 10)) \
    X(TIMES, "times", in_line(SYS_times, (long)facts, 0, 0)) \
    X(EPOLL_CTL, "epoll_ctl", in_line_6(SYS_epoll_ctl, set, EPOLL_CTL_MOD, ready, (long)&same_event, 0, 0)) \
    X(REQUEUE, "futex_requeue", in_line_6(SYS_futex, (long)words, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 1, 1, (long)(words + 2), 0)) \
    X(SOCKET, "socket_close", in_line(SYS_close, in_line(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0, 0)) \
    X(BIND, "socket_bind_close", bind_and_close()) \
    X(PAIR, "socketpair_close", pair_and_close()) \
    X(LISTEN, "listen", in_line(SYS_listen, listening, 128, 0)) \
    X(SETOPTION, "setsockopt", in_line_6(SYS_setsockopt, connected, SOL_SOCKET, SO_REUSEADDR, (long)&set_to, sizeof set_to, 0)) \
    X(OWN_NAME, "getsockname", in_line(SYS_getsockname, connected, (long)&found_address, (long)&address_bytes)) \
    X(PEER_NAME, "getpeername", in_line(SYS_getpeername, connected, (long)&found_address, (long)&address_bytes)) \
    X(INHERIT, "inheriting_lock", in_line_6(SYS_futex, (long)&held_word, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0) + in_line(SYS_futex, (long)&held_word, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0)) \
    X(MAP1, "map_unmap.1", map_and_unmap(1, 0, 0)) \
    X(MAPW1, "map_write_unmap.1", map_and_unmap(1, 1, 0)) \
    X(MAPW64, "map_write_unmap.64", map_and_unmap(64, 1, 0)) \
    X(MAPF1, "map_read_unmap_file.1", map_and_unmap(1, 0, mapped_file)) \
    X(MAPF64, "map_read_unmap_file.64", map_and_unmap(64, 0, mapped_file)) \
    X(PROTECT, "protect.1", mprotect(one_kept, sizeof page, PROT_READ) + mprotect(one_kept, sizeof page, PROT_READ | PROT_WRITE)) \
    X(DISCARD1, "discard_write.1", discard_and_write(one_kept, 1)) \
    X(DISCARD64, "discard_write.64", discard_and_write(kept, 64))

#define NUMBER(which, name, code) which,
#define NAME(which, name, code) name,
#define CASE(which, name, code) case which: return code;
enum operation { NONE, OPERATIONS(NUMBER) COUNT };
static const char *const operation_names[COUNT] = { "none", OPERATIONS(NAME) };

ALWAYS_IN_LINE long operate(enum operation which)
{
    switch (which) {
    OPERATIONS(CASE)
    default:
        /* The compiler takes the work as it takes it around an operation. */
        __asm__ volatile("" : : : "memory");
        return 0;
    }
}

/* Operations that the kernel refuses. */
static int is_refused(enum operation which)
{
    return which == REFUSED || which == MISSING || which == ISATTY || which == MISMATCH;
}

static volatile long looked_at;

ALWAYS_IN_LINE double work_with(enum operation which, long turns)
{
    long sum = operate(which);
    check((sum < 0) == is_refused(which), operation_names[which]);
    double start = now();
    for (long i = 0; i < turns; i++) {
        sum += count_word(text[i % WORDS]);
        sum += operate(which);
        sum += count_word(text[i * 7 % WORDS]);
    }
    double took = now() - start;
    looked_at = sum;
    return took;
}

/* A loop of its own for each operation, as a program has it. */
#define LOOP(which, name, code) static double work_with_##which(long turns) { return work_with(which, turns); }
#define POINTER(which, name, code) work_with_##which,
LOOP(NONE, , )
OPERATIONS(LOOP)
static double (*const loops[COUNT])(long) = { work_with_NONE, OPERATIONS(POINTER) };

/* Instructions that wait for each other, with a known latency. */
#if defined(__x86_64__)
enum { LATENCY = 3 };
#define LINK "imul %0, %0\n"
#elif defined(__aarch64__)
enum { LATENCY = 1 };
#define LINK "eor %0, %0, %0\n"
#endif

/* Nanoseconds of a core cycle: those of a chain, the fastest of some. */
static double cycle(void)
{
    enum { LINKS = 8000, TRIES = 5 };
    double best = 1e18;
    for (int try = 0; try < TRIES; try++) {
        unsigned long x = 3;
        double start = now();
        for (int i = 0; i < LINKS / 8; i++)
            __asm__ volatile(LINK LINK LINK LINK LINK LINK LINK LINK : "+r"(x) : : "cc");
        double took = (now() - start) / LINKS / LATENCY;
        best = took < best ? took : best;
    }
    return best;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

/* What each operation adds to the work around it. This includes that the words before and after it no longer overlap in the
 * core. The process has one thread: with several, the kernel counts the users of a file around each read and write. */
static void in_work(void)
{
    enum { BATCHES = 61, WARM_UP = 200, TURNS = 400 };
    static double nanoseconds[BATCHES], cycles[BATCHES];
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    own_eventfd = eventfd(0, 0);
    check(zero >= 0 && null >= 0 && own_eventfd >= 0 && !pipe(own_pipe), "open");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, stream) && !socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram), "socketpair");
    block = memfd_create("block", MFD_CLOEXEC);
    set = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    int quiet = eventfd(0, EFD_CLOEXEC);
    ready = eventfd(1, EFD_CLOEXEC);
    for (int i = 0; i < MOST_ENTRIES; i++)
        entries[i] = (struct pollfd){ i == MOST_ENTRIES - 1 ? ready : quiet, POLLIN, 0 };
    FD_SET(ready, &ready_set);
    struct epoll_event event = { .events = EPOLLIN };
    check(write(block, page, sizeof page) == sizeof page && set >= 0 && timer >= 0, "files");
    check(!epoll_ctl(set, EPOLL_CTL_ADD, ready, &event), "epoll_ctl");
    check(!in_line(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0), "membarrier");
    make_areas();
    make_sockets();
    write_text();
    for (int which = NONE + 1; which < COUNT; which++) {
        for (int batch = 0; batch < BATCHES; batch++) {
            double unit = cycle();
            loops[which](WARM_UP);
            double with = loops[which](TURNS);
            loops[NONE](WARM_UP);
            double without = loops[NONE](TURNS);
            nanoseconds[batch] = (with - without) / TURNS;
            cycles[batch] = nanoseconds[batch] / unit;
        }
        printf("%s %.2f %.1f\n", operation_names[which], median(nanoseconds, BATCHES), median(cycles, BATCHES));
    }
}

/* More kinds of work, for what the two shortest calls add to each. */
static unsigned numbers[4096];
static unsigned char table[256];

static long sorted(int i)
{
    int own[12];
    for (int k = 0; k < 12; k++)
        own[k] = numbers[(i * 13 + k) % 1024] & 255;
    for (int k = 1; k < 12; k++) {
        int next = own[k], at = k - 1;
        for (; at >= 0 && own[at] > next; at--)
            own[at + 1] = own[at];
        own[at + 1] = next;
    }
    return own[5];
}

static long encoded(int i)
{
    const unsigned char *from = (unsigned char *)&numbers[i * 12 % 2048];
    unsigned char to[64];
    for (int k = 0; k < 16; k++) {
        unsigned three = from[3 * k] << 16 | from[3 * k + 1] << 8 | from[3 * k + 2];
        for (int part = 0; part < 4; part++)
            to[4 * k + part] = table[three >> (18 - 6 * part) & 63];
    }
    return to[i % 64];
}

static long printed(int i)
{
    char into[40];
    return snprintf(into, sizeof into, "%u %s %x", numbers[i % 1024], "word", i);
}

static long chased(int i)
{
    unsigned at = i % 1024;
    for (int k = 0; k < 8; k++)
        at = numbers[at] % 1024;
    return at;
}

static long added(int i)
{
    long sum = 0;
    for (int k = 0; k < 64; k++)
        sum += numbers[(i * 64 + k) % 4096];
    return sum;
}

static long parsed(int i)
{
    const char *from = (char *)&numbers[i * 17 % 1024];
    long value = 0, sum = 0;
    for (int k = 0; k < 24; k++) {
        if (from[k] >= '0' && from[k] <= '9')
            value = value * 10 + from[k] - '0';
        else if (from[k] == ' ')
            sum += value, value = 0;
        else
            sum += from[k];
    }
    return sum + value;
}

static long drawn(int i) { return rand() + i; }

#define KINDS(X) X(sorted) X(encoded) X(printed) X(chased) X(added) X(parsed) X(drawn)
#define LOOP_OF(kind) \
    static double kind##_with(long turns, int calls, long number) \
    { \
        long sum = 0; \
        double start = now(); \
        for (long i = 0; i < turns; i++) { \
            sum += kind(i); \
            if (calls) \
                sum += in_line(number, 0, 0, 0); \
            else \
                __asm__ volatile("" : : : "memory"); \
            sum += kind(i * 7 + 3); \
        } \
        double took = now() - start; \
        looked_at = sum; \
        return took; \
    }
KINDS(LOOP_OF)
#define KIND(kind) kind##_with,
static double (*const kinds[])(long, int, long) = { KINDS(KIND) };

static void in_kinds(void)
{
    enum { BATCHES = 61, WARM_UP = 200, TURNS = 400, LETTERS = 26 };
    double nanoseconds[BATCHES];
    for (int i = 0; i < 4096; i++)
        for (int byte = 0; byte < 4; byte++)
            ((char *)&numbers[i])[byte] = rand() % 3 ? '0' + rand() % 10 : rand() % 2 ? ' ' : 'a' + rand() % LETTERS;
    for (int i = 0; i < 256; i++)
        table[i] = rand();
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int call = 0; call < 2; call++) {
            long number = call ? SYS_getpid : -1;
            for (int batch = 0; batch < BATCHES; batch++) {
                kinds[kind](WARM_UP, 1, number);
                double with = kinds[kind](TURNS, 1, number);
                kinds[kind](WARM_UP, 0, number);
                nanoseconds[batch] = (with - kinds[kind](TURNS, 0, number)) / TURNS;
            }
            printf("%s %.2f\n", call ? "getpid" : "enosys", median(nanoseconds, BATCHES));
        }
}

int main(int count, char **words)
{
    const char *name = count > 1 ? words[1] : "";
    double each;
    if (!strcmp(name, "in-work")) {
        in_work();
        return 0;
    }
    if (!strcmp(name, "in-kinds")) {
        in_kinds();
        return 0;
    }
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
