/* Two jobs of very many ranks: how long joining takes and the first word between partners, what a process has of descriptors and
 * threads then, and how much processor it takes to wait.
 *   many joined OWN_NAME OTHER_NAME SECONDS
 * The ranks of one side wait in MPI_Recv for so long, while those of the other sleep. */
#include "bench.h"
#include "joined.h"
#include <sys/resource.h>
#include <unistd.h>

static const char *in_folder(const char *job, const char *when, int rank)
{
    static char path[4096];
    const char *folder = getenv("MPI_CONNECT_TEST_DIR");
    snprintf(path, sizeof path, "%s/%s-%s.%d", folder ? folder : ".", job, when, rank);
    return path;
}

/* All ranks of both jobs are here: told by files, asleep. In an MPI's own barrier all would spin, and those that still start
 * would get no processor. Rank -1 stands for a whole job. */
static void meet(const char *own, const char *other, const char *when, int rank, int ranks)
{
    struct timespec pause = {0, 20000000};
    FILE *sign = fopen(in_folder(own, when, rank), "w");
    if (!sign || fclose(sign)) fail("no sign can be left");
    if (!rank) {
        for (int each = 0; each < ranks; ++each)
            while (access(in_folder(own, when, each), F_OK)) nanosleep(&pause, NULL);
        sign = fopen(in_folder(own, when, -1), "w");
        if (!sign || fclose(sign)) fail("no sign can be left");
    }
    while (access(in_folder(own, when, -1), F_OK) || access(in_folder(other, when, -1), F_OK)) nanosleep(&pause, NULL);
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

/* `how` this figure and those of other ranks are one: "max" or "sum". */
static void say(const char *row, const char *how, const char *unit, double figure)
{
    printf("BENCH {\"row\": \"%s\", \"how\": \"%s\", \"unit\": \"%s\", \"figure\": %.6f}\n", row, how, unit, figure);
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
    meet(argv[2], argv[3], "started", rank, ranks);

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
    meet(argv[2], argv[3], "joined", rank, ranks);
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

    say("joined", "max", "s", join);
    say("first word", "max", "s", first);
    say("processor to join", "sum", "s", join_cpu);
    say("descriptors", "max", "", after[0] - before[0]);
    say("threads", "max", "", after[1] - before[1]);
    say(channel.side ? "cores, waiting" : "cores, sleeping", "sum", "", share);
    fflush(stdout);
    MPI_Conn_remove(handle);
    MPI_Comm_free(&joined);
    MPI_Finalize();
    return 0;
}
