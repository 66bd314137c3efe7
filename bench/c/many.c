/* Two jobs of very many ranks: how long joining takes and the first word between partners, what a process has of descriptors and
 * threads then, and how much processor it takes to wait.
 *   many joined OWN_NAME OTHER_NAME SECONDS
 * The ranks of one side wait in MPI_Recv for so long, while those of the other sleep. */
#include "bench.h"
#include <mpi.h>
#include <mpi_connect.h>
#include <sys/resource.h>
#include <unistd.h>
#pragma weak MPI_Conn_register
#pragma weak MPI_Conn_intercomm_create
#pragma weak MPI_Conn_remove

/* Both jobs are here: told by files, since they have nothing else in common yet. */
static void meet_by_files(const char *own, const char *other, int rank)
{
    char path[4096];
    const char *folder = getenv("MPI_CONNECT_TEST_DIR");
    struct timespec pause = {0, 1000000};
    if (!rank) {
        snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", own);
        FILE *sign = fopen(path, "w");
        if (!sign || fclose(sign)) fail("no sign can be left");
        snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", other);
        while (access(path, F_OK)) nanosleep(&pause, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static int entries(const char *folder)
{
    int count = -2;
    DIR *all = opendir(folder);
    while (all && readdir(all)) ++count;
    if (all) closedir(all);
    return count;
}

/* Seconds of processor that this process has taken. */
static double used(void)
{
    struct rusage all;
    getrusage(RUSAGE_SELF, &all);
    return (double)(all.ru_utime.tv_sec + all.ru_stime.tv_sec)
         + (double)(all.ru_utime.tv_usec + all.ru_stime.tv_usec) * 1e-6;
}

static void say(const char *row, int ranks, const char *unit, double mine, int rank, MPI_Op how)
{
    double all = mine;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, how, 0, MPI_COMM_WORLD);
    if (!rank && (!channel.side || how == MPI_SUM))
        printf("BENCH {\"row\": \"%s\", \"size\": %d, \"unit\": \"%s\", \"samples\": [%.6f]}\n", row, ranks, unit, all);
}

int main(int argc, char **argv)
{
    int ranks, rank, handle;
    MPI_Comm joined;
    MPI_Status status;
    if (argc != 5) fail("arguments: joined OWN OTHER SECONDS");
    channel.side = strcmp(argv[2], argv[3]) > 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int before[] = {entries("/proc/self/fd"), entries("/proc/self/task")};
    meet_by_files(argv[2], argv[3], rank);

    double start = now(), cpu = used();
    if (MPI_Conn_register(argv[2], MPI_COMM_WORLD, &handle) || MPI_Conn_intercomm_create(handle, argv[3], &joined))
        fail("they do not join");
    double join = now() - start, join_cpu = used() - cpu;
    int word = rank, theirs = -1;
    MPI_Sendrecv(&word, 1, MPI_INT, rank, 1, &theirs, 1, MPI_INT, rank, 1, joined, &status);
    double first = now() - start;
    if (theirs != rank) fail("another word than was sent");
    int after[] = {entries("/proc/self/fd"), entries("/proc/self/task")};

    /* All are there: then one side waits, and the other sleeps. */
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = atof(argv[4]);
    cpu = used();
    start = now();
    if (channel.side) {
        MPI_Recv(&theirs, 1, MPI_INT, rank, 2, joined, &status);
    } else {
        struct timespec pause = {(time_t)seconds, 0};
        nanosleep(&pause, NULL);
        MPI_Send(&word, 1, MPI_INT, rank, 2, joined);
    }
    double share = (used() - cpu) / (now() - start);

    say("joined", ranks, "s", join, rank, MPI_MAX);
    say("first word", ranks, "s", first, rank, MPI_MAX);
    say(channel.side ? "processor to join, second" : "processor to join, first", ranks, "s", join_cpu, rank, MPI_SUM);
    say("descriptors", ranks, "", after[0] - before[0], rank, MPI_MAX);
    say("threads", ranks, "", after[1] - before[1], rank, MPI_MAX);
    say(channel.side ? "cores, waiting" : "cores, sleeping", ranks, "", share, rank, MPI_SUM);
    MPI_Conn_remove(handle);
    MPI_Comm_free(&joined);
    MPI_Finalize();
    return 0;
}
