/* What every program of the bench has: two sides, a clock, samples, and what they are printed as. The same loops run over
 * MPI, PVM, sockets and bare memory, so that only what carries the bytes differs. */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* Two ends that exchange bytes in order. Side 0 holds the clock. */
struct channel {
    int side;
    void (*send)(const void *from, size_t bytes);
    void (*recv)(void *to, size_t bytes);
};
static struct channel channel;

/* How long a sample lasts, and how many there are of each value; from the command line. */
static double slice = 0.01;
static int samples = 5;
static size_t most = (size_t)64 << 20;

enum { MOST_SAMPLES = 100 };

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

UNUSED static void fail(const char *what)
{
    fprintf(stderr, "bench: side %d: %s\n", channel.side, what);
    exit(1);
}

/* All threads of this process, and those to come, on the side's core: one core each in every case alike. */
UNUSED static void pin(int side)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2) return;
    int cpu = -1;
    for (int left = side % CPU_COUNT(&all); left >= 0; --left)
        do ++cpu;
        while (!CPU_ISSET(cpu, &all));
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (atoi(entry->d_name) > 0) sched_setaffinity(atoi(entry->d_name), sizeof one, &one);
    if (tasks) closedir(tasks);
}

/* 1 MiB of data with gaps: every other double, and structs as compilers lay them out, 13 bytes of data in 24. */
enum { DOUBLES = (1 << 20) / sizeof(double), PARTICLES = (1 << 20) / 13 };
struct particle {
    char kind;
    double mass;
    int cell;
};

/* A word of each side on lines of its own, in the file that BENCH_LINE names. */
struct words {
    _Alignas(128) volatile uint64_t of[2][16];
};

/* How far the sides' cores are from each other at this moment: what a cache line takes from one to the other, in ns. A virtual machine's cores
 * move while it runs. Both sides call it at once; side 0 gets it. 0: nobody has named a file. */
UNUSED static double cores_apart(void)
{
    enum { TRIES = 4, ROUNDS = 50 };
    static struct words *words;
    static uint64_t turn;
    const char *name = getenv("BENCH_LINE");
    if (!name) return 0;
    if (!words) {
        int file = open(name, O_RDWR);
        words = mmap(NULL, sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (file < 0 || words == MAP_FAILED) fail("BENCH_LINE");
        close(file);
    }
    double least = 1e9;
    for (int i = 0; i < TRIES; ++i) {
        double start = now();
        for (int n = 0; n < ROUNDS; ++n) {
            ++turn;
            if (!channel.side) words->of[0][0] = turn;
            while (words->of[!channel.side][0] < turn) {}
            if (channel.side) words->of[1][0] = turn;
        }
        double took = (now() - start) / ROUNDS / 2 * 1e9;
        if (took < least) least = took;
    }
    return least;
}

/* Memory that is there: a page's first touch is nobody's transfer. */
UNUSED static char *memory(size_t bytes)
{
    char *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("no memory");
    memset(p, 1, bytes ? bytes : 1);
    return p;
}

/* Lines for the runner. Printed at the end: what carries them away would run beside the measurement. */
static char *printed;
static size_t printed_bytes;
static FILE *lines;

static void report_list(const char *name, const double *values, int count)
{
    fprintf(lines, ",\"%s\":[", name);
    for (int i = 0; i < count; ++i) fprintf(lines, "%s%.9g", i ? "," : "", values[i]);
    fprintf(lines, "]");
}

/* No values: the unit is the reason why there are none. `apart`: what `cores_apart` said before each of them and after the last, or NULL. */
UNUSED static void report_apart(const char *row, long size, const char *unit, const double *values, const double *apart, int count)
{
    if (!lines && !(lines = open_memstream(&printed, &printed_bytes))) fail("no memory");
    fprintf(lines, "BENCH {\"row\":\"%s\",\"size\":%ld,\"unit\":\"%s\"", row, size, unit);
    report_list("samples", values, count);
    if (apart && apart[0] > 0) report_list("apart", apart, count + 1);
    fprintf(lines, "}\n");
}

UNUSED static void report(const char *row, long size, const char *unit, const double *values, int count)
{
    report_apart(row, size, unit, values, NULL, count);
}

/* The command line that all have in common: samples, milliseconds of a slice, the largest size. */
UNUSED static void settings(char **words)
{
    samples = atoi(words[0]);
    slice = atof(words[1]) * 1e-3;
    most = strtoull(words[2], NULL, 10);
    if (samples < 1 || samples > MOST_SAMPLES || slice <= 0) fail("arguments: SAMPLES SLICE_MS LARGEST ...");
}

UNUSED static void print_lines(void)
{
    if (!lines) return;
    fclose(lines);
    fwrite(printed, 1, printed_bytes, stdout);
    fflush(stdout);
}

/* Side 0 asks for it between two batches. */
static double ask_how_far(void)
{
    int64_t how_far = -1;
    channel.send(&how_far, sizeof how_far);
    return cores_apart();
}

/* `work(n)` is n rounds of something, on both sides at once. Side 0 finds out how many fill a slice, and tells the other
 * before each batch. A time is `factor` times the seconds of a round, a rate (`is_rate`) `factor` times rounds a second. */
UNUSED static void measure(const char *row, long size, const char *unit, double factor, int is_rate, void (*work)(long))
{
    int64_t rounds = 1;
    if (channel.side) {
        for (;;) {
            channel.recv(&rounds, sizeof rounds);
            if (!rounds) return;
            if (rounds < 0) cores_apart();
            else work((long)rounds);
        }
    }
    double values[MOST_SAMPLES], apart[MOST_SAMPLES + 1], quickest = 1e9;
    int count = 0, wanted = samples, tries = 0;
    for (int warm = 1; count < wanted;) {
        if (!warm) apart[count] = ask_how_far();
        channel.send(&rounds, sizeof rounds);
        double start = now();
        work((long)rounds);
        double took = now() - start;
        if (!warm) {
            values[count++] = is_rate ? factor * (double)rounds / took : factor * took / (double)rounds;
            continue;
        }
        /* One try among three that was disturbed must not decide how many rounds there are. */
        if (took < quickest) quickest = took;
        if (quickest < slice * 0.7) {
            double more = slice / (quickest > 1e-7 ? quickest : 1e-7);
            rounds = (int64_t)((double)rounds * (more < 8 ? more : 8)) + 1;
            tries = 0;
            quickest = 1e9;
        } else if (++tries == 3 || quickest > slice * 5) {
            warm = 0;
            if (quickest > slice * 20 && wanted > 3) wanted = 3; /* what is slow is not done so often */
        }
    }
    apart[count] = ask_how_far();
    rounds = 0;
    channel.send(&rounds, sizeof rounds);
    report_apart(row, size, unit, values, apart, count);
}

static char *outgoing, *incoming;
static size_t now_bytes;

UNUSED static void pingpong_rounds(long n)
{
    for (long i = 0; i < n; ++i) {
        if (channel.side) {
            channel.recv(incoming, now_bytes);
            channel.send(outgoing, now_bytes);
        } else {
            channel.send(outgoing, now_bytes);
            channel.recv(incoming, now_bytes);
        }
    }
}

/* Once, outside the clock: what goes there and back is what comes. */
UNUSED static void pingpong_check(void)
{
    for (size_t i = 0; i < now_bytes; ++i) outgoing[i] = (char)(i * 7 + (i >> 12) + 3 + (size_t)channel.side);
    memset(incoming, 0, now_bytes);
    pingpong_rounds(1);
    for (size_t i = 0; i < now_bytes; ++i)
        if (incoming[i] != (char)(i * 7 + (i >> 12) + 3 + (size_t)!channel.side)) fail("wrong data");
}

/* Half round trips of one size. */
static void pingpong_of(const char *row, size_t bytes)
{
    now_bytes = bytes;
    measure(row, (long)bytes, "us", 0.5e6, 0, pingpong_rounds);
    pingpong_check();
}

/* Half round trips of all sizes up to `most`. */
UNUSED static void pingpong(void)
{
    static const size_t sizes[] = {0,       1,       8,       64,          256,          1024,         4096,        16384,
                                   1 << 16, 1 << 18, 1 << 20, (size_t)4 << 20, (size_t)16 << 20, (size_t)64 << 20};
    outgoing = memory(most);
    incoming = memory(most);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        if (sizes[i] > most) break;
        pingpong_of("pingpong", sizes[i]);
    }
    munmap(outgoing, most);
    munmap(incoming, most);
}

/* Half round trips of every power of two, and of an odd size between each and the next. */
UNUSED static void all_sizes(void)
{
    enum { LARGEST = 4 << 20 };
    size_t end = most < LARGEST ? most : LARGEST;
    outgoing = memory(end);
    incoming = memory(end);
    for (size_t size = 1; size <= end; size *= 2) {
        pingpong_of("sizes", size);
        if (size > 2 && size + size / 2 + 1 <= end) pingpong_of("sizes", size + size / 2 + 1);
    }
    munmap(outgoing, end);
    munmap(incoming, end);
}

#endif
