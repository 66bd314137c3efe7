/* A PMPI tool with one lock for all that it knows: its wrapper of a call that the library has nothing to do with asks the
 * MPI for the rank while it holds the lock. By its PMPI name that call must not come back to the tool. */
#include <mpi.h>
#include "lam.h"
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long ranks, sizes, commits, sends[2];
static int world_rank = -1;

static void count(long *of)
{
    pthread_mutex_lock(&lock);
    ++*of;
    pthread_mutex_unlock(&lock);
}
int MPI_Comm_rank(MPI_Comm comm, int *rank) { count(&ranks); return PMPI_Comm_rank(comm, rank); }
int MPI_Comm_size(MPI_Comm comm, int *size) { count(&sizes); return PMPI_Comm_size(comm, size); }
int MPI_Send(KIT_CONST void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm)
{
    count(&sends[comm != MPI_COMM_WORLD]);
    return PMPI_Send(b, n, t, to, tag, comm);
}
int MPI_Type_commit(MPI_Datatype *type)
{
    int size;
    pthread_mutex_lock(&lock);
    ++commits;
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    pthread_mutex_unlock(&lock);
    return PMPI_Type_commit(type);
}
int MPI_Finalize(void)
{
    fprintf(stderr, "COUNT %s %d Comm_rank=%ld+0 Comm_size=%ld+0 Type_commit=%ld+0 Send=%ld+%ld\n", TOOL, world_rank,
            ranks, sizes, commits, sends[0], sends[1]);
    return PMPI_Finalize();
}
