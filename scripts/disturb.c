/*
 * Takes a share of one CPU with real-time priority, in slices of random length: a neighbour for tests.
 *
 * disturb CPU SHARE SECONDS SEED: computes on CPU for 50 µs to 5 ms at a time (uniform in the logarithm), sleeps in between so
 * that SHARE of the time is taken, and ends after SECONDS, or with the process that started it.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "error: usage: disturb CPU SHARE SECONDS SEED\n");
        return 2;
    }
    const double share = atof(words[2]), seconds = atof(words[3]);
    if (!(share > 0 && share < 0.9 && seconds > 0 && seconds <= 3600)) {
        fprintf(stderr, "error: a share between 0 and 0.9 and at most 3600 seconds\n");
        return 2;
    }
    srand48(atol(words[4]));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Whatever happens below, this ends. */
    alarm((unsigned)seconds + 1);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(words[1]), &cpus);
    const struct sched_param priority = {.sched_priority = 50};
    if (sched_setaffinity(0, sizeof cpus, &cpus) || sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("error: real-time priority on this CPU");
        return 1;
    }
    const int64_t end = now() + (int64_t)(seconds * 1e9);
    while (now() < end) {
        const double slice = 50e3 * pow(100, drand48());
        for (const int64_t until = now() + (int64_t)slice; now() < until;) {
        }
        const double pause = slice * (1 / share - 1);
        const struct timespec rest = {.tv_sec = (time_t)(pause / 1e9), .tv_nsec = (long)pause % 1000000000L};
        nanosleep(&rest, NULL);
    }
    return 0;
}
