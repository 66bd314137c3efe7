/* Two sides by MPI: the same calls, whichever communicator they are given. For mpi.c. */
#ifndef SIDE_H
#define SIDE_H

#include "joined.h"

/* Where the other side is. */
static MPI_Comm comm;
static int other;

enum { TAG = 1 };

static void mpi_send(const void *from, size_t bytes)
{
    MPI_Send((void *)(uintptr_t)from, (int)bytes, MPI_BYTE, other, TAG, comm);
}

static void mpi_recv(void *to, size_t bytes)
{
    MPI_Recv(to, (int)bytes, MPI_BYTE, other, TAG, comm, MPI_STATUS_IGNORE);
}

static void connect_sides(int *argc, char ***argv, int joined, const char *own, const char *name_of_other)
{
    /* The rank as the launcher tells it: threads that MPI_Init starts belong on the side's core too. */
    static const char *const told[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "LAMRANK"};
    channel.side = joined ? strcmp(own, name_of_other) > 0 : 0;
    for (size_t i = 0; !joined && i < sizeof told / sizeof told[0]; ++i)
        if (getenv(told[i])) channel.side = atoi(getenv(told[i]));
    pin(channel.side);

    int ranks, rank;
    MPI_Init(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comm = MPI_COMM_WORLD;
    if (joined) {
        if (ranks != 1) fail("a side is a job of one rank");
        comm = join(own, name_of_other);
    } else {
        if (ranks != 2) fail("one job has two ranks");
        if (rank != channel.side) fail("the launcher told another rank");
        other = 1 - rank;
    }
    channel.send = mpi_send;
    channel.recv = mpi_recv;
}

static void disconnect_sides(void)
{
    if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
    MPI_Finalize();
}

/* Both sides are here. */
static void meet(void)
{
    char byte = 0;
    if (channel.side) {
        mpi_recv(&byte, 1);
        mpi_send(&byte, 1);
    } else {
        mpi_send(&byte, 1);
        mpi_recv(&byte, 1);
    }
}

#endif
