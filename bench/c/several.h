/* Two sides of several ranks by MPI, in one job or two. For several.c. */
#ifndef SEVERAL_H
#define SEVERAL_H

#include "joined.h"

/* Where the other side is; this side alone; the rank in it, and the rank in `comm` of the other side's first one. */
static MPI_Comm comm, side_comm;
static int rank, first_partner;

enum { TAG = 1 };

static void several_connect(int *argc, char ***argv, int left, int right, int threads)
{
    char **words = *argv;
    int joined = !strcmp(words[1], "joined"), ranks, provided = 0;
    if (threads) {
        MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
        if (provided != MPI_THREAD_MULTIPLE) fail("this MPI has no MPI_THREAD_MULTIPLE");
    } else {
        MPI_Init(argc, argv);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comm = side_comm = MPI_COMM_WORLD;
    if (joined) {
        channel.side = strcmp(words[2], words[3]) > 0;
        if (ranks != (channel.side ? right : left)) fail("another number of ranks");
        comm = join(words[2], words[3]);
    } else {
        if (ranks != left + right) fail("another number of ranks");
        channel.side = rank >= left;
        first_partner = channel.side ? 0 : left;
        MPI_Comm_split(MPI_COMM_WORLD, channel.side, rank, &side_comm);
        MPI_Comm_rank(side_comm, &rank);
    }
    pin(channel.side);
}

static void several_disconnect(void)
{
    if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
    if (side_comm != MPI_COMM_WORLD) MPI_Comm_free(&side_comm);
    MPI_Finalize();
}

#endif
