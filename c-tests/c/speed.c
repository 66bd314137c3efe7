/* What one pair of processes gets: `speed NAME OTHER WHO [ROUNDS [BLOCKS]]`. Half of a round trip of 8 bytes, and the rate of messages of
   1 MiB one way, several under way. WHO is 0 for the side that prints; it is the processor too, since a kernel that puts both on one
   measures its own time slices. */
#define _GNU_SOURCE
#include <sched.h>
#include "kit.h"
#include <mpi_connect.h>

enum { MANY = 16, MEBI = 1 << 20 };

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int who = atoi(argv[3]), rounds = argc > 4 ? atoi(argv[4]) : 5000, blocks = argc > 5 ? atoi(argv[5]) : 400, handle;
    MPI_Comm other;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    double word = 1, *times = malloc(rounds * sizeof *times);
    /* Connected first: a process that is bound beforehand is taken for one that shares its processor. */
    OK(MPI_Sendrecv(&word, 1, MPI_DOUBLE, 0, 2, &word, 1, MPI_DOUBLE, 0, 2, other, MPI_STATUS_IGNORE));
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(who, &own);
    sched_setaffinity(0, sizeof own, &own);
    for (int i = -rounds / 10; i < rounds; ++i) {
        double since = MPI_Wtime();
        if (who == 0) OK(MPI_Send(&word, 1, MPI_DOUBLE, 0, 0, other));
        OK(MPI_Recv(&word, 1, MPI_DOUBLE, 0, 0, other, MPI_STATUS_IGNORE));
        if (who != 0) OK(MPI_Send(&word, 1, MPI_DOUBLE, 0, 0, other));
        if (i >= 0) times[i] = (MPI_Wtime() - since) / 2 * 1e6;
    }
    qsort(times, rounds, sizeof *times, by_time);
    char *memory = malloc((size_t)MANY * MEBI);
    MPI_Request all[MANY];
    memset(memory, 1, (size_t)MANY * MEBI);
    double best = 0;
    for (int times_over = 0; times_over < 3; ++times_over) {
        double since = MPI_Wtime();
        for (int i = 0; i < MANY; ++i) all[i] = MPI_REQUEST_NULL;
        for (int i = 0; i < blocks; ++i) {
            OK(MPI_Wait(&all[i % MANY], MPI_STATUS_IGNORE));
            char *at = memory + (size_t)(i % MANY) * MEBI;
            if (who == 0) OK(MPI_Isend(at, MEBI, MPI_BYTE, 0, 1, other, &all[i % MANY]));
            else OK(MPI_Irecv(at, MEBI, MPI_BYTE, 0, 1, other, &all[i % MANY]));
        }
        OK(MPI_Waitall(MANY, all, MPI_STATUSES_IGNORE));
        OK(MPI_Sendrecv(&word, 1, MPI_DOUBLE, 0, 2, &word, 1, MPI_DOUBLE, 0, 2, other, MPI_STATUS_IGNORE));
        double rate = blocks / (MPI_Wtime() - since);
        if (rate > best) best = rate;
    }
    if (who == 0) printf("SPEED 8 bytes: %.2f us (least), %.2f us (median of half round trips); 1 MiB: %.1f MiB/s (best of 3)\n", times[0], times[rounds / 2], best);
    OK(MPI_Comm_free(&other));
    MPI_Finalize();
    return kit_failures != 0;
}
