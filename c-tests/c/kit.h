/* What every test program here needs: checks that count themselves, patterns, signs to and from the harness. */
#ifndef KIT_H
#define KIT_H

#include <mpi.h>
#include "lam.h"
#ifndef KIT_NATIVE
#include <mpi_connect.h>
#ifdef KIT_WEAK
/* Not linked with the library: LD_PRELOAD fills these in. */
#pragma weak MPI_Conn_register
#pragma weak MPI_Conn_intercomm_create
#pragma weak MPI_Conn_remove
#pragma weak MPI_Conn_error_class
#pragma weak MPI_Conn_hold
#pragma weak MPI_Conn_notify
#pragma weak MPI_Conn_notify_cancel
#pragma weak MPI_Conn_on_hold
#pragma weak MPI_Conn_resume
#pragma weak MPI_Conn_checkpoint
#pragma weak MPI_Conn_restart
#pragma weak MPI_Conn_getfile
#pragma weak MPI_Conn_putfile
#endif
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* What MPI-4 and MPI-4.1 added. Open MPI 5 calls itself 3.1, and has the first but for large counts. */
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAVE_4
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define HAVE_41
#endif

static _Atomic long kit_checks, kit_failures; /* threads check too */
static int kit_rank = -1;
static const char *kit_label = "?";

/* Told twice: launchers lose what a job printed just before it aborts, the file "failures" keeps it. */
UNUSED static void kit_fail(const char *file, int line, const char *format, ...)
{
    char what[2000], path[4096];
    const char *dir = getenv("MPI_CONNECT_TEST_DIR"), *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    va_list args;
    if (++kit_failures > 20) return; /* the first ones tell the story */
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    printf("FAIL %s rank %d %s:%d %s\n", kit_label, kit_rank, name, line, what);
    fflush(stdout);
    snprintf(path, sizeof path, "%s/failures", dir ? dir : ".");
    FILE *f = dir ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "FAIL %s rank %d %s:%d %s\n", kit_label, kit_rank, name, line, what);
    fclose(f);
}

#define CHECK(condition, ...) \
    do { \
        ++kit_checks; \
        if (!(condition)) kit_fail(__FILE__, __LINE__, #condition ": " __VA_ARGS__); \
    } while (0)

/* Two whole numbers that must be the same. */
#define SAME(got, want) \
    do { \
        long long kit_got = (long long)(got), kit_want = (long long)(want); \
        ++kit_checks; \
        if (kit_got != kit_want) kit_fail(__FILE__, __LINE__, #got " is %lld, not %lld", kit_got, kit_want); \
    } while (0)

UNUSED static const char *kit_error(int code)
{
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "(no string for %d)", code);
    return text;
}

UNUSED static int kit_class(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* A call that must work; what follows it could only hang. `POLL` does not count: how often is up to the clock. */
#define OK(call) \
    do { \
        ++kit_checks; \
        POLL(call); \
    } while (0)
#define POLL(call) \
    do { \
        int kit_code = (call); \
        if (kit_code != MPI_SUCCESS) { \
            kit_fail(__FILE__, __LINE__, #call ": %s", kit_error(kit_code)); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)

/* A call that must fail with this class. */
#define REFUSED(call, wanted) \
    do { \
        int kit_code = (call); \
        ++kit_checks; \
        if (kit_code == MPI_SUCCESS) \
            kit_fail(__FILE__, __LINE__, #call " succeeded, not " #wanted); \
        else if (kit_class(kit_code) != (wanted)) \
            kit_fail(__FILE__, __LINE__, #call " gave class %d, not " #wanted ": %s", kit_class(kit_code), \
                     kit_error(kit_code)); \
    } while (0)

/* A call that must fail, with every one of these words in its error string. */
#define FAILS_SAYING(call, ...) kit_fails_saying(__FILE__, __LINE__, #call, (call), (const char *[]){__VA_ARGS__, NULL})

UNUSED static void kit_fails_saying(const char *file, int line, const char *call, int code, const char **words)
{
    ++kit_checks;
    if (code == MPI_SUCCESS) {
        kit_fail(file, line, "%s succeeded", call);
        return;
    }
    const char *text = kit_error(code);
    for (; *words; ++words)
        if (!strstr(text, *words)) kit_fail(file, line, "%s: no \"%s\" in \"%s\"", call, *words, text);
}

/* Patterns: the k-th 64-bit word of message `seed`. */
static inline uint64_t kit_word(uint64_t seed, uint64_t k)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + k * 0xD1B54A32D192ED03u + 1;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    return z ^ (z >> 27);
}

UNUSED static void kit_fill(void *to, size_t bytes, uint64_t seed)
{
    unsigned char *at = to;
    size_t k = 0;
    for (; (k + 1) * 8 <= bytes; ++k) {
        uint64_t word = kit_word(seed, k);
        memcpy(at + k * 8, &word, 8);
    }
    uint64_t last = kit_word(seed, k);
    memcpy(at + k * 8, &last, bytes - k * 8);
}

/* The first byte that is not as `kit_fill` wrote it, or -1. */
UNUSED static long long kit_wrong(const void *from, size_t bytes, uint64_t seed)
{
    const unsigned char *at = from;
    for (size_t k = 0; k * 8 < bytes; ++k) {
        size_t n = bytes - k * 8 < 8 ? bytes - k * 8 : 8;
        uint64_t word = kit_word(seed, k);
        if (memcmp(at + k * 8, &word, n))
            for (size_t i = 0; i < n; ++i)
                if (at[k * 8 + i] != ((unsigned char *)&word)[i]) return (long long)(k * 8 + i);
    }
    return -1;
}

#define HOLDS(from, bytes, seed) \
    do { \
        size_t kit_bytes = (bytes); \
        long long kit_at = kit_wrong(from, kit_bytes, seed); \
        kit_checks += 1 + (long)(kit_bytes / 8); \
        if (kit_at >= 0) kit_fail(__FILE__, __LINE__, "byte %lld of %zu of " #from " is wrong", kit_at, kit_bytes); \
    } while (0)

/* Memory in which a byte that nobody wrote shows as 0xA5. */
UNUSED static void *kit_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        printf("FAIL %s rank %d no memory for %zu bytes\n", kit_label, kit_rank, bytes);
        fflush(stdout);
        _exit(1);
    }
    return memset(p, 0xA5, bytes ? bytes : 1);
}

UNUSED static double kit_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

UNUSED static void kit_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&t, &t) && errno == EINTR) {}
}

/* Signs: files in the folder of this test, which all its jobs and the harness see. */
UNUSED static const char *kit_path(const char *format, ...)
{
    static char path[4096];
    const char *dir = getenv("MPI_CONNECT_TEST_DIR");
    int n = snprintf(path, sizeof path, "%s/", dir ? dir : ".");
    va_list args;
    va_start(args, format);
    vsnprintf(path + n, sizeof path - (size_t)n, format, args);
    va_end(args);
    return path;
}

/* The content appears at once or not at all: a reader never sees half of it. */
UNUSED static void kit_write(const char *path, const char *text)
{
    char draft[4200];
    snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
    FILE *f = fopen(draft, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) || rename(draft, path)) {
        perror(path);
        _exit(1);
    }
}

UNUSED static int kit_is_there(const char *path) { return access(path, F_OK) == 0; }

/* Waits without entering MPI: what progress there is, the library made by itself. The harness holds the time limit. */
UNUSED static void kit_await(const char *path)
{
    char held[4096];
    snprintf(held, sizeof held, "%s", path);
    while (!kit_is_there(held)) kit_sleep_ms(2);
}

/* A field of /proc/self/status, in KiB. */
UNUSED static long kit_status_kib(const char *field)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':') kib = atol(line + strlen(field) + 1);
    if (f) fclose(f);
    return kib;
}

/* The rank as the launcher tells it, for use before MPI_Init. */
UNUSED static const char *kit_launched_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "LAMRANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (getenv(names[i])) return getenv(names[i]);
    return NULL;
}

/* A part of a program, run when it is named on the command line. */
struct kit_section {
    const char *name;
    void (*run)(void);
};

/* The section of this name; the output says that it begins. */
UNUSED static const struct kit_section *kit_begin(const struct kit_section *all, size_t count, const char *name)
{
    size_t s = 0;
    while (s < count && strcmp(all[s].name, name)) ++s;
    if (s == count) {
        fprintf(stderr, "no section %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (kit_rank == 0) {
        printf("BEGIN %s\n", name);
        fflush(stdout);
    }
    return &all[s];
}

/* Says how it went, for the harness, and gives what `main` returns. Called by all ranks, before Finalize. */
UNUSED static int kit_end(void)
{
    long mine[2] = {kit_checks, kit_failures}, all[2] = {0, 0};
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (kit_rank == 0) {
        printf("DONE %s checks %ld failures %ld\n", kit_label, all[0], all[1]);
        fflush(stdout);
    }
    return all[1] ? 1 : 0;
}

#endif
