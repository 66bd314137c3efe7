/* Preloaded between the library and the disk: counts what a job does with the files of its checkpoints, FOLDER/checkpoints/JOB/..., and
 * at a step that is chosen the process ends, as by kill -9, before that step is done. Beside the folder of the job lie:
 *
 *     kill-JOB    "STEP WHO": the first process of the job that comes to this step dies. WHO is `leader` (it has opened the lock)
 *                 or `member`. The file is called died-JOB then, and says what the step was.
 *     full-JOB    while it is there, no byte can be written: no space is left.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FDS = 4096 };

/* Which descriptors are of the job's files, and where these lie. */
static _Atomic char ours[FDS];
static char place[3000], job[256];
static _Atomic int is_leader;
static _Atomic long steps;

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

/* Whether a path lies in the folder of a job. */
static int is_ours(const char *path)
{
    static const char word[] = "/checkpoints/";
    const char *at = path ? strstr(path, word) : NULL, *end = at ? strchr(at + sizeof word - 1, '/') : NULL;
    if (!end && at) end = strchr(at, 0);
    if (!at || !strncmp(at + sizeof word - 1, "kill-", 5) || !strncmp(at + sizeof word - 1, "died-", 5)) return 0;
    /* A file of the program's own, beside the folder of the job, and not it. */
    struct stat about;
    if (!*end && (stat(path, &about) || !S_ISDIR(about.st_mode))) return 0;
    if (!*job) {
        snprintf(place, sizeof place, "%.*s", (int)(at - path) + (int)sizeof word - 1, path);
        snprintf(job, sizeof job, "%.*s", (int)(end - at) - (int)sizeof word + 1, at + sizeof word - 1);
    }
    return 1;
}

static const char *beside(const char *what)
{
    static __thread char path[4096];
    snprintf(path, sizeof path, "%s%s-%s", place, what, job);
    return path;
}

/* One step more; the process may end here. */
static void step(const char *what, const char *path)
{
    char text[64] = "", died[4096];
    FILE *f = fopen(beside("kill"), "r");
    if (!f) return;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    if ((strstr(text, "leader") != NULL) != is_leader || steps++ != atol(text)) return;
    snprintf(died, sizeof died, "%s", beside("died"));
    if (rename(beside("kill"), died)) return;
    f = fopen(died, "a");
    if (f) fprintf(f, " died before %s %s\n", what, path), fclose(f);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int is_mine(int fd) { return fd >= 0 && fd < FDS && ours[fd]; }

static int opened(int fd, int counts)
{
    if (fd >= 0 && fd < FDS) ours[fd] = (char)counts;
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        NEXT(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int counts = is_ours(path); \
        const char *file = counts ? strrchr(path, '/') : NULL; \
        if (file && !strcmp(file, "/lock")) is_leader = 1; \
        if (counts && flags & O_CREAT) step("creating", path); \
        return opened(next(path, flags, mode), counts); \
    }
OPEN(open)
OPEN(open64)

int close(int fd)
{
    NEXT(close);
    opened(fd, 0);
    return next(fd);
}
ssize_t write(int fd, const void *bytes, size_t count)
{
    NEXT(write);
    if (is_mine(fd)) {
        step("writing in", job);
        if (!access(beside("full"), F_OK)) {
            errno = ENOSPC;
            return -1;
        }
    }
    return next(fd, bytes, count);
}
int fsync(int fd)
{
    NEXT(fsync);
    if (is_mine(fd)) step("the sync of", job);
    return next(fd);
}
int fdatasync(int fd)
{
    NEXT(fdatasync);
    if (is_mine(fd)) step("the sync of", job);
    return next(fd);
}
int rename(const char *from, const char *to)
{
    NEXT(rename);
    if (is_ours(from)) step("renaming", from);
    return next(from, to);
}
int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    if (is_ours(path)) step("making", path);
    return next(path, mode);
}
int unlink(const char *path)
{
    NEXT(unlink);
    if (is_ours(path)) step("removing", path);
    return next(path);
}
int rmdir(const char *path)
{
    NEXT(rmdir);
    if (is_ours(path)) step("removing", path);
    return next(path);
}
