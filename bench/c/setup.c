/* What it takes to join two jobs: time, connections, messages and bytes on sockets, by all processes of both; and the memory
 * that a process has more of for each other one it talks to. What a process takes for its calls has in it how long it waits
 * for the processor behind those that have not come yet; so it is also told how long it takes from when the last process of
 * both jobs has come until the last one has joined, beside a bare barrier of as many, which both jobs make at once. The time of
 * intercomm_create begins when the last process of both jobs has registered.
 *   setup joined OWN_NAME OTHER_NAME SAMPLES
 * The functions that are counted stand in front of the C library's. What the MPI below sends on sockets meanwhile counts
 * too: within a host it sends nothing there. */
#include "bench.h"
#include "joined.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CONNECTIONS, MESSAGES, BYTES, COUNTS };
static _Atomic long counts[COUNTS];

static ssize_t counted(int fd, ssize_t bytes)
{
    struct stat what;
    int held = errno;
    if (bytes > 0 && !fstat(fd, &what) && S_ISSOCK(what.st_mode)) {
        ++counts[MESSAGES];
        counts[BYTES] += bytes;
    }
    errno = held;
    return bytes;
}

/* The function that would have been called. */
#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    NEXT(connect);
    int code = next(fd, to, length);
    if (!code || errno == EINPROGRESS) ++counts[CONNECTIONS];
    return code;
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    NEXT(write);
    return counted(fd, next(fd, from, bytes));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    NEXT(writev);
    return counted(fd, next(fd, parts, count));
}

ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    NEXT(send);
    return counted(fd, next(fd, from, bytes, flags));
}

ssize_t sendto(int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t length)
{
    NEXT(sendto);
    return counted(fd, next(fd, from, bytes, flags, to, length));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    return counted(fd, next(fd, message, flags));
}

/* A file of the side whose name is `owner`. */
static void file_of(char path[4096], const char *owner, const char *kind)
{
    const char *folder = getenv("MPI_CONNECT_TEST_DIR");
    snprintf(path, 4096, "%s/%s.%s", folder ? folder : ".", owner, kind);
}

/* Both jobs are here: told by files, since they have nothing else in common yet. No rank waits in its MPI meanwhile: beside 31
 * ranks of MPICH in a barrier, 32 ranks of Intel MPI take 70 s for MPI_Init on two cores, and 2 alone. */
static void meet_by_files(const char *own, const char *other, int round, int rank)
{
    char path[4096];
    char kind[16];
    snprintf(kind, sizeof kind, "%d", round);
    if (!rank) {
        file_of(path, own, kind); /* names are of this launch alone */
        FILE *sign = fopen(path, "w");
        if (!sign || fclose(sign)) fail("no sign can be left");
    }
    file_of(path, other, kind);
    struct timespec pause = {0, 1000000};
    while (access(path, F_OK)) nanosleep(&pause, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* KiB of memory that are there, shared or not. */
static double resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) fail("no /proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* Rank 0 of side 0 and each rank of the other side but the leader say a word to each other: what the former grows by, for
 * one. The leaders have talked before. */
static double talk(MPI_Comm joined, int rank, int ranks)
{
    int64_t word = rank;
    double before = resident();
    if (channel.side && rank) {
        MPI_Recv(&word, sizeof word, MPI_BYTE, 0, 1, joined, MPI_STATUS_IGNORE);
        MPI_Send(&word, sizeof word, MPI_BYTE, 0, 1, joined);
    }
    for (int peer = 1; peer < ranks && !channel.side && !rank; ++peer) {
        MPI_Send(&word, sizeof word, MPI_BYTE, peer, 1, joined);
        MPI_Recv(&word, sizeof word, MPI_BYTE, peer, 1, joined, MPI_STATUS_IGNORE);
    }
    return ranks > 1 ? (resident() - before) / (ranks - 1) : 0;
}

/* Seconds until a word has come from each rank of the other side: every pair is connected then. */
static double words_of_all(MPI_Comm joined, int ranks)
{
    enum { MOST_RANKS = 256 };
    static MPI_Request requests[2 * MOST_RANKS];
    static int64_t words[MOST_RANKS];
    int64_t word = 1;
    if (ranks > MOST_RANKS) fail("too many ranks");
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (int peer = 0; peer < ranks; ++peer) {
        MPI_Irecv(&words[peer], sizeof word, MPI_BYTE, peer, 2, joined, &requests[peer]);
        MPI_Isend(&word, sizeof word, MPI_BYTE, peer, 2, joined, &requests[ranks + peer]);
    }
    MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    double took = now() - start, longest;
    MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

enum { ROUNDS = 20 };

/* Both jobs meet at a port of side 0 and part again: ms a round. */
static void connect_and_disconnect(const char *own, const char *other, int rank, double ms[ROUNDS])
{
    char port[MPI_MAX_PORT_NAME] = "", path[4096];
    file_of(path, channel.side ? other : own, "port");
    if (!channel.side && !rank) {
        MPI_Open_port(MPI_INFO_NULL, port);
        FILE *f = fopen(path, "w");
        if (!f || fputs(port, f) < 0 || fclose(f)) fail("no port can be left");
    }
    meet_by_files(own, other, samples, rank);
    if (channel.side && !rank) {
        FILE *f = fopen(path, "r");
        if (!f || !fgets(port, sizeof port, f)) fail("no port is there");
        fclose(f);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Comm met;
        double start = now();
        if (channel.side) MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
        else MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
        MPI_Comm_disconnect(&met);
        ms[i] = (now() - start) * 1e3;
    }
    if (!channel.side && !rank) MPI_Close_port(port);
}

static double later(double one, double other)
{
    return one > other ? one : other;
}

int main(int argc, char **argv)
{
    enum { COME, LEFT, REGISTERED, JOINED, MOMENTS };
    double registering[MOST_SAMPLES], creating[MOST_SAMPLES], figures[COUNTS][MOST_SAMPLES], kib[MOST_SAMPLES], words[MOST_SAMPLES];
    double barrier[MOST_SAMPLES], joining[MOST_SAMPLES], rounds[ROUNDS];
    int ranks, rank;
    if (argc != 5) fail("arguments: joined OWN OTHER SAMPLES");
    samples = atoi(argv[4]);
    if (samples < 1 || samples > MOST_SAMPLES) fail("too many samples");
    channel.side = strcmp(argv[2], argv[3]) > 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Who has joined takes no processor from those who still join. */
    const struct timespec rest = {0, 300000000};
    for (int s = 0; s < samples; ++s) {
        int handle;
        MPI_Comm joined;
        double took, longest, moments[MOMENTS], last[MOMENTS], others[MOMENTS];
        long before[COUNTS], grown[COUNTS], here[COUNTS], there[COUNTS];
        meet_by_files(argv[2], argv[3], s, rank);
        for (int c = 0; c < COUNTS; ++c) before[c] = counts[c];
        moments[COME] = now();
        MPI_Barrier(MPI_COMM_WORLD);
        moments[LEFT] = now();
        MPI_Conn_register(argv[2], MPI_COMM_WORLD, &handle);
        moments[REGISTERED] = now();
        MPI_Conn_intercomm_create(handle, argv[3], &joined);
        moments[JOINED] = now();
        took = moments[REGISTERED] - moments[LEFT];
        for (int c = 0; c < COUNTS; ++c) grown[c] = counts[c] - before[c];
        nanosleep(&rest, NULL);
        MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(grown, here, COUNTS, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Reduce(moments, last, MOMENTS, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (!rank && channel.side) {
            MPI_Send(here, COUNTS, MPI_LONG, 0, 0, joined);
            MPI_Send(last, MOMENTS, MPI_DOUBLE, 0, 0, joined);
        }
        if (!rank && !channel.side) {
            MPI_Recv(there, COUNTS, MPI_LONG, 0, 0, joined, MPI_STATUS_IGNORE);
            MPI_Recv(others, MOMENTS, MPI_DOUBLE, 0, 0, joined, MPI_STATUS_IGNORE);
            barrier[s] = later(last[LEFT] - last[COME], others[LEFT] - others[COME]) * 1e3;
            double joined_at = later(last[JOINED], others[JOINED]);
            joining[s] = (joined_at - later(last[LEFT], others[LEFT])) * 1e3;
            creating[s] = (joined_at - later(last[REGISTERED], others[REGISTERED])) * 1e3;
            registering[s] = longest * 1e3;
            for (int c = 0; c < COUNTS; ++c) figures[c][s] = (double)(here[c] + there[c]);
        }
        kib[s] = talk(joined, rank, ranks);
        words[s] = words_of_all(joined, ranks) * 1e3;
        MPI_Conn_remove(handle);
        MPI_Comm_free(&joined);
    }
    connect_and_disconnect(argv[2], argv[3], rank, rounds);
    if (!rank && !channel.side) {
        report("setup: register, ms", ranks, "ms", registering, samples);
        report("setup: intercomm_create, ms", ranks, "ms", creating, samples);
        report("setup: joined, from when the last has come, ms", ranks, "ms", joining, samples);
        report("setup: a barrier of one job, ms", ranks, "ms", barrier, samples);
        report("setup: connect and disconnect at a port, ms", ranks, "ms", rounds, ROUNDS);
        report("setup: connections", ranks, "connections", figures[CONNECTIONS], samples);
        report("setup: messages on sockets", ranks, "messages", figures[MESSAGES], samples);
        report("setup: bytes on sockets", ranks, "B", figures[BYTES], samples);
        report("setup: a first word between all pairs, ms", ranks, "ms", words, samples);
        /* Later ones use again what the first one has taken. */
        if (ranks > 1) report("setup: memory for one more peer after a word each way, KiB", ranks, "KiB", kib, 1);
        print_lines();
    }
    MPI_Finalize();
    return 0;
}
