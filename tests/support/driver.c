/* A driver of a GPU without a GPU, with costs that are known. The tests compile it as libcuda.so.1.
 *
 * Variables of the environment decide what it does:
 *   CUDA_FAKE_DEVICES   devices that it shows, one without it
 *   CUDA_FAKE_SUBMIT    nanoseconds that a launch takes
 *   CUDA_FAKE_WAIT      nanoseconds that a wait takes for each kernel that has not ended
 *   CUDA_FAKE_CALL      nanoseconds that a copy takes
 *   CUDA_FAKE_BYTE      picoseconds that each byte of a copy takes in addition, twice as many for pageable memory
 *   CUDA_FAKE_FAILS     a call that fails with CUDA_FAKE_ERROR
 *   CUDA_FAKE_HANGS     a call that never returns
 *   CUDA_FAKE_DIES      a call in which the process is killed by SIGSEGV
 *   CUDA_FAKE_LIES      a call that does nothing and reports success
 *   CUDA_FAKE_SPOILS    a copy that changes its last byte
 *   CUDA_FAKE_LOG       a file that gets a line for each call: number of the process, call
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long long number(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

static int is(const char *name, const char *call)
{
    const char *text = getenv(name);
    return text && strcmp(text, call) == 0;
}

static void wait_for(long long nanoseconds)
{
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - began.tv_sec) * 1000000000LL + now.tv_nsec - began.tv_nsec < nanoseconds);
}

static FILE *calls;
static int begun;

/* What a call does first: an error, or 0. */
static int enter(const char *call)
{
    if (calls) {
        fprintf(calls, "%d %s\n", getpid(), call);
        fflush(calls);
    }
    while (is("CUDA_FAKE_HANGS", call))
        pause();
    if (is("CUDA_FAKE_DIES", call))
        raise(SIGSEGV);
    if (is("CUDA_FAKE_FAILS", call))
        return (int)number("CUDA_FAKE_ERROR", 999);
    /* CUDA_ERROR_NOT_INITIALIZED, as of the real driver. */
    return begun || strcmp(call, "cuDriverGetVersion") == 0 ? 0 : 3;
}

#define ENTER() do { int error = enter(__func__); if (error) return error; } while (0)

static long long submit, each_wait, each_copy, each_byte;
static long long unfinished;
static char *pinned;
static size_t pinned_bytes;
static int lies_of_launches;
static enum { NONE, NOTHING, SPOILT } fault_to, fault_from;

int cuInit(unsigned flags)
{
    if (flags)
        return 1;
    begun = 1;
    if (!calls && getenv("CUDA_FAKE_LOG"))
        calls = fopen(getenv("CUDA_FAKE_LOG"), "a");
    ENTER();
    return 0;
}

int cuDriverGetVersion(int *version) { ENTER(); *version = 12040; return 0; }
int cuDeviceGetCount(int *count) { ENTER(); *count = (int)number("CUDA_FAKE_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int which) { ENTER(); *device = 100 + which; return which ? 101 : 0; }

int cuDeviceGetName(char *name, int bytes, int device)
{
    ENTER();
    snprintf(name, bytes, "Pretended GPU %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    ENTER();
    (void)device;
    switch (attribute) {
    case 18: *value = 0; return 0;
    case 33: *value = 0xfe; return 0;
    case 34: *value = 0x1f; return 0;
    case 50: *value = 0xffff; return 0;
    default: return 1;
    }
}

int cuDevicePrimaryCtxRetain(void **context, int device) { ENTER(); *context = malloc(1); return device == 100 ? 0 : 101; }

static int fault_of(const char *call)
{
    return is("CUDA_FAKE_LIES", call) ? NOTHING : is("CUDA_FAKE_SPOILS", call) ? SPOILT : NONE;
}

int cuCtxSetCurrent(void *context)
{
    ENTER();
    submit = number("CUDA_FAKE_SUBMIT", 2000);
    each_wait = number("CUDA_FAKE_WAIT", 5000);
    each_copy = number("CUDA_FAKE_CALL", 6000);
    each_byte = number("CUDA_FAKE_BYTE", 50);
    lies_of_launches = is("CUDA_FAKE_LIES", "cuLaunchKernel");
    fault_to = fault_of("cuMemcpyHtoD_v2");
    fault_from = fault_of("cuMemcpyDtoH_v2");
    return context ? 0 : 201;
}

int cuModuleLoadData(void **module, const void *image)
{
    ENTER();
    *module = malloc(1);
    return strstr(image, ".entry count(") && strstr(image, "red.global.add.u32") ? 0 : 218;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER();
    *function = module;
    return strcmp(name, "count") ? 500 : 0;
}

/* Calls that are timed only look at variables that were read before. */
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    static int entered;
    if (!entered++)
        ENTER();
    wait_for(submit);
    if (!function || stream || extra || shared_bytes || grid_x * grid_y * grid_z * block_x * block_y * block_z != 1)
        return 1;
    unfinished++;
    if (!lies_of_launches)
        ++**(unsigned **)parameters[0];
    return 0;
}

/* Kernels run while others are handed over, so that only the last one is waited for. */
int cuStreamSynchronize(void *stream)
{
    static int entered;
    if (!entered++)
        ENTER();
    if (unfinished)
        wait_for(each_wait);
    unfinished = 0;
    return stream ? 1 : 0;
}

int cuCtxSynchronize(void) { ENTER(); return 0; }

int cuMemAlloc_v2(unsigned long long *place, size_t bytes)
{
    ENTER();
    *place = (unsigned long long)calloc(1, bytes);
    return *place ? 0 : 2;
}

int cuMemsetD32_v2(unsigned long long place, unsigned value, size_t count)
{
    ENTER();
    for (size_t at = 0; at < count; at++)
        ((unsigned *)place)[at] = value;
    return 0;
}

int cuMemAllocHost_v2(void **place, size_t bytes)
{
    ENTER();
    *place = pinned = malloc(bytes);
    pinned_bytes = bytes;
    return *place ? 0 : 2;
}

/* The bytes are copied within the time that the copy takes, where that is long enough. */
static int copied(void *to, const void *from, size_t bytes, int fault)
{
    struct timespec began, now;
    const char *host = from;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (host < pinned || host >= pinned + pinned_bytes)
        host = to;
    int is_pinned = host >= pinned && host < pinned + pinned_bytes;
    if (fault != NOTHING)
        memcpy(to, from, bytes);
    if (fault == SPOILT)
        ((char *)to)[bytes - 1] ^= 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long passed = (now.tv_sec - began.tv_sec) * 1000000000LL + now.tv_nsec - began.tv_nsec;
    wait_for(each_copy + (long long)bytes * each_byte * (is_pinned ? 1 : 2) / 1000 - passed);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    static int entered;
    if (!entered++)
        ENTER();
    return copied((void *)to, from, bytes, fault_to);
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    static int entered;
    if (!entered++)
        ENTER();
    return copied(to, (void *)from, bytes, fault_from);
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
    return *name ? 0 : 1;
}
