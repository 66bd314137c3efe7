/* How fast: short messages in a window, data with gaps. For mpi.c. */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <stddef.h>

/* 8 bytes there and back and nothing else: for choosing a pair. */
static void short_pingpong(void)
{
    outgoing = memory(8);
    incoming = memory(8);
    now_bytes = 8;
    measure("pingpong", 8, "us", 0.5e6, 0, pingpong_rounds);
}

enum { WINDOW = 64 };

static void rate_rounds(long n)
{
    static char words[WINDOW][8];
    MPI_Request requests[WINDOW];
    for (long i = 0; i < n; ++i) {
        for (int w = 0; w < WINDOW; ++w)
            if (channel.side)
                MPI_Irecv(words[w], 8, MPI_BYTE, other, TAG, comm, &requests[w]);
            else
                MPI_Isend(words[w], 8, MPI_BYTE, other, TAG, comm, &requests[w]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        char answer[4] = {0};
        if (channel.side)
            mpi_send(answer, sizeof answer);
        else
            mpi_recv(answer, sizeof answer);
    }
}

static void rate(void) { measure("rate", 8, "M/s", WINDOW * 1e-6, 1, rate_rounds); }

static MPI_Datatype type;
static int type_count;

static void typed_rounds(long n)
{
    for (long i = 0; i < n; ++i) {
        if (channel.side) {
            MPI_Recv(incoming, type_count, type, other, TAG, comm, MPI_STATUS_IGNORE);
            MPI_Send(outgoing, type_count, type, other, TAG, comm);
        } else {
            MPI_Send(outgoing, type_count, type, other, TAG, comm);
            MPI_Recv(incoming, type_count, type, other, TAG, comm, MPI_STATUS_IGNORE);
        }
    }
}

/* A ping-pong of `count` elements; the bytes of the first and the last one are compared. */
static void typed(const char *row, size_t extent, int count, MPI_Datatype of)
{
    int size;
    MPI_Type_commit(&of);
    MPI_Type_size(of, &size);
    type = of;
    type_count = count;
    outgoing = memory(extent * (size_t)count);
    incoming = memory(extent * (size_t)count);
    measure(row, (long)size * count, "us", 0.5e6, 0, typed_rounds);
    size_t last = extent * (size_t)(count - 1);
    if (count == 1) last = extent - 2 * sizeof(double);
    outgoing[0] = outgoing[last] = (char)(5 + channel.side);
    typed_rounds(1);
    if (incoming[0] != 6 - channel.side || incoming[last] != 6 - channel.side) fail("wrong data in a type");
    munmap(outgoing, extent * (size_t)count);
    munmap(incoming, extent * (size_t)count);
    MPI_Type_free(&of);
}

/* Every other double, 1 MiB of them. */
static void vector(void)
{
    MPI_Datatype every_other;
    MPI_Type_vector(DOUBLES, 1, 2, MPI_DOUBLE, &every_other);
    typed("vector", 2 * sizeof(double) * DOUBLES, 1, every_other);
}

static void structure(void)
{
    int lengths[] = {1, 1, 1, 1};
    MPI_Aint places[] = {offsetof(struct particle, kind), offsetof(struct particle, mass),
                         offsetof(struct particle, cell), sizeof(struct particle)};
    MPI_Datatype particle;
#ifdef LAM_MPI
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_UB}; /* MPI-1: it has no resized types */
    MPI_Type_struct(4, lengths, places, types, &particle);
#else
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, bare;
    MPI_Type_create_struct(3, lengths, places, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct particle), &particle);
    MPI_Type_free(&bare);
#endif
    typed("struct", sizeof(struct particle), PARTICLES, particle);
}

#endif
