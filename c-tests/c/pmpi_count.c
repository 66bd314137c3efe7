/* A PMPI tool: counts calls and passes them on. Built twice, as TOOL "above" and TOOL "below", to stand on either side of
 * the library. Calls with a communicator are counted apart for MPI_COMM_WORLD and for any other. */
#include <mpi.h>
#include "lam.h"
#include <stdio.h>

#define EACH(X) \
    X(Comm_rank) X(Comm_size) X(Send) X(Ssend) X(Recv) X(Isend) X(Irecv) X(Sendrecv) X(Probe) X(Iprobe) X(Barrier) \
    X(Allreduce) X(Wait) X(Waitall) X(Waitany) X(Test)

enum {
#define X(name) name,
    EACH(X)
#undef X
    COUNTED
};
static const char *const names[] = {
#define X(name) #name,
    EACH(X)
#undef X
};
static long world[COUNTED], other[COUNTED];
#define COUNT(name, comm) (++((comm) == MPI_COMM_WORLD ? world : other)[name])

/* The tool asks nothing by itself: what it asked would be counted by one below. */
static int world_rank = -1;

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    COUNT(Comm_rank, comm);
    int code = PMPI_Comm_rank(comm, rank);
    if (comm == MPI_COMM_WORLD) world_rank = *rank;
    return code;
}
int MPI_Comm_size(MPI_Comm comm, int *size) { COUNT(Comm_size, comm); return PMPI_Comm_size(comm, size); }
int MPI_Send(KIT_CONST void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm)
{
    COUNT(Send, comm);
    return PMPI_Send(b, n, t, to, tag, comm);
}
int MPI_Ssend(KIT_CONST void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm)
{
    COUNT(Ssend, comm);
    return PMPI_Ssend(b, n, t, to, tag, comm);
}
int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    COUNT(Recv, comm);
    return PMPI_Recv(b, n, t, from, tag, comm, status);
}
int MPI_Isend(KIT_CONST void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    COUNT(Isend, comm);
    return PMPI_Isend(b, n, t, to, tag, comm, request);
}
int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    COUNT(Irecv, comm);
    return PMPI_Irecv(b, n, t, from, tag, comm, request);
}
int MPI_Sendrecv(KIT_CONST void *b, int n, MPI_Datatype t, int to, int tag, void *rb, int rn, MPI_Datatype rt, int from,
                 int rtag, MPI_Comm comm, MPI_Status *status)
{
    COUNT(Sendrecv, comm);
    return PMPI_Sendrecv(b, n, t, to, tag, rb, rn, rt, from, rtag, comm, status);
}
int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    COUNT(Probe, comm);
    return PMPI_Probe(from, tag, comm, status);
}
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    COUNT(Iprobe, comm);
    return PMPI_Iprobe(from, tag, comm, flag, status);
}
int MPI_Barrier(MPI_Comm comm) { COUNT(Barrier, comm); return PMPI_Barrier(comm); }
int MPI_Allreduce(KIT_CONST void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm)
{
    COUNT(Allreduce, comm);
    return PMPI_Allreduce(in, out, n, t, op, comm);
}
int MPI_Wait(MPI_Request *request, MPI_Status *status) { ++world[Wait]; return PMPI_Wait(request, status); }
int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    ++world[Waitall];
    return PMPI_Waitall(n, requests, statuses);
}
int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
    ++world[Waitany];
    return PMPI_Waitany(n, requests, index, status);
}
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    ++world[Test];
    return PMPI_Test(request, flag, status);
}
int MPI_Finalize(void)
{
    char line[2048];
    int at = 0;
    for (int i = 0; i < COUNTED; ++i)
        at += snprintf(line + at, sizeof line - (size_t)at, " %s=%ld+%ld", names[i], world[i], other[i]);
    fprintf(stderr, "COUNT %s %d%s\n", TOOL, world_rank, line);
    return PMPI_Finalize();
}
