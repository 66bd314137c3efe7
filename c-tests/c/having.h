/* What a process has, for tests that look whether it comes to have more: memory, descriptors, threads, files of the naming
 * service, communicators. Needs _GNU_SOURCE. */
#ifndef HAVING_H
#define HAVING_H

#include "kit.h"
#include <dirent.h>
#include <malloc.h>

struct having {
    long resident_kib, allocated_kib, descriptors, mappings, threads, files;
};

static long entries(const char *path)
{
    long n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d)) ++n;
    if (d) closedir(d);
    return n - 2; /* itself and the one above */
}

static long files(const char *path)
{
    long n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char below[4096];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.') n += 1 + (e->d_type == DT_DIR ? files(below) : 0);
    }
    if (d) closedir(d);
    return n;
}

/* The sum of the numbers behind `key`, or how many lines have it where `counts`, in a file of /proc/self. */
static long proc_self(const char *name, const char *key, int counts)
{
    char line[512];
    long sum = 0;
    FILE *f = fopen(name, "r");
    CHECK(f != NULL, "%s cannot be read", name);
    while (f && fgets(line, sizeof line, f)) {
        const char *found = strstr(line, key);
        if (found) sum += counts ? 1 : atol(found + strlen(key));
    }
    if (f) fclose(f);
    return sum;
}

/* The process's own pages. Pages of files and of the MPI's shared segments are not counted: how many of them a process has
 * touched says nothing of what it keeps. */
static long resident_kib(void)
{
    malloc_trim(0);
    return proc_self("/proc/self/smaps_rollup", "Anonymous:", 0); /* exact, unlike what /proc/self/status says */
}

/* The library's shared segments. */
static long mappings(void)
{
    return proc_self("/proc/self/maps", "memfd:mpi_connect", 1);
}

/* How many more communicators the MPI can make. Open MPI and LAM have no limit that is soon reached, but number them from
 * the lowest free one: there, that number. */
UNUSED static long communicators(void)
{
    enum { MOST = 40000 };
    static MPI_Comm made[MOST];
    long n = 0, result;
#if defined(OPEN_MPI) || defined(LAM_MPI)
    int number = -1;
    OK(MPI_Comm_split(MPI_COMM_SELF, 0, 0, &made[n++]));
#ifdef LAM_MPI
    MPIL_Comm_id(made[0], &number);
#else
    number = MPI_Comm_c2f(made[0]);
#endif
    CHECK(number > 0);
    result = number;
#else
    while (n < MOST && MPI_Comm_split(MPI_COMM_SELF, 0, 0, &made[n]) == MPI_SUCCESS && made[n] != MPI_COMM_NULL) ++n;
    CHECK(n < MOST, "more communicators than can be counted");
    result = n;
#endif
    while (n) OK(MPI_Comm_free(&made[--n]));
    return result;
}

/* By glibc's malloc: a leak may fill holes for long before another page is touched. */
static long allocated_kib(void)
{
    struct mallinfo2 info = mallinfo2();
    return (long)((info.uordblks + info.hblkhd) >> 10);
}

UNUSED static struct having look(void)
{
    struct having now = {0};
    const char *naming = getenv("MPI_CONNECT_NAMING");
    now.resident_kib = resident_kib();
    now.allocated_kib = allocated_kib();
    now.descriptors = entries("/proc/self/fd") - 1; /* not the one that looks */
    now.mappings = mappings();
    now.threads = entries("/proc/self/task");
    now.files = naming ? files(naming + strlen("file:")) : 0;
    return now;
}

UNUSED static void say(int round, const struct having *h)
{
    printf("HAS rank %d round %d resident %ld allocated %ld descriptors %ld mappings %ld threads %ld files %ld\n", kit_rank, round,
           h->resident_kib, h->allocated_kib, h->descriptors, h->mappings, h->threads, h->files);
    fflush(stdout);
}

UNUSED static int has_more(const struct having *now, const struct having *most)
{
    return now->descriptors > most->descriptors || now->mappings > most->mappings || now->threads > most->threads;
}

/* Of what a round gives back at once, nothing is left. Each test says itself what holds for memory and threads. */
UNUSED static void no_more(const struct having *now, const struct having *then)
{
    CHECK(now->descriptors <= then->descriptors, "%ld descriptors, not %ld", now->descriptors, then->descriptors);
    CHECK(now->mappings <= then->mappings, "%ld mappings, not %ld", now->mappings, then->mappings);
    SAME(now->files, then->files);
}

/* The names of all threads. */
UNUSED static const char *thread_names(void)
{
    static char names[1000];
    names[0] = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *comm = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (comm && fscanf(comm, "%31s", name) == 1 && strlen(names) + sizeof name < sizeof names)
            strcat(strcat(names, " "), name);
        if (comm) fclose(comm);
    }
    if (tasks) closedir(tasks);
    return names;
}

/* What all descriptors are of, each on a line: said where there are more than there may be. */
UNUSED static void say_descriptors(const char *when)
{
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && (e = readdir(all));) {
        char path[300], what[300] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        if (e->d_name[0] != '.' && readlink(path, what, sizeof what - 1) > 0)
            printf("DESCRIPTOR rank %d %s %s %s\n", kit_rank, when, e->d_name, what);
    }
    if (all) closedir(all);
}

/* What the process has now, while the inter-communicator of this round stands and both sides are there, as `meet` sees to.
 * What is about to be closed or to end may still be there: it is given some time when there is more than there may be. */
UNUSED static struct having look_together(void (*meet)(void), int round, const struct having *most)
{
    meet();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    struct having now = look();
    for (double start = kit_ms(); most && has_more(&now, most) && kit_ms() - start < 10e3;) now = look();
    say(round, &now);
    if (!most || has_more(&now, most)) say_descriptors(most ? "now" : "before");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    meet();
    return now;
}

#endif
