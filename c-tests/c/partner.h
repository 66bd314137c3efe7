/* Halves of as many ranks each, in which rank r talks to rank r of the other: its partner. Words and numbers that they
 * tell each other. */
#ifndef PARTNER_H
#define PARTNER_H

#include "sides.h"

/* What a message holds depends on who sends it, and its tag. */
static uint64_t seed(int from_side, int tag) { return ((uint64_t)from_side << 60) | ((uint64_t)me << 40) | (uint64_t)tag; }
UNUSED static uint64_t seed_out(int tag) { return seed(side, tag); }
UNUSED static uint64_t seed_in(int tag) { return seed(!side, tag); }

#define BYTES(n) ((size_t)(n) * sizeof(int))
UNUSED static int *numbers(int n) { return kit_alloc(BYTES(n)); }

/* A word to the partner, who waits for it. */
static void tell(int tag) { OK(MPI_Send(&tag, 1, MPI_INT, me, tag, inter)); }
static void hear(int tag)
{
    int got = -1;
    OK(MPI_Recv(&got, 1, MPI_INT, me, tag, inter, MPI_STATUS_IGNORE));
    SAME(got, tag);
}

/* All of both halves have come here, and what partners sent before has too. */
enum { MEETING = 31000 };
static void meet(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    tell(MEETING);
    hear(MEETING);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The status of so many ints from this rank. */
UNUSED static void is_of(const MPI_Status *status, int source, int tag, int count)
{
    MPI_Status *s = (MPI_Status *)status; /* older headers lack the const */
    int got = -1, flag = -1;
    SAME(s->MPI_SOURCE, source);
    SAME(s->MPI_TAG, tag);
    OK(MPI_Get_count(s, MPI_INT, &got));
    SAME(got, count);
    OK(MPI_Get_elements(s, MPI_INT, &got));
    SAME(got, count);
    OK(MPI_Test_cancelled(s, &flag));
    SAME(flag, 0);
}

/* The same from the partner, of whom alone most receive. */
UNUSED static void is_from(const MPI_Status *status, int tag, int count) { is_of(status, me, tag, count); }

UNUSED static void is_empty(const MPI_Status *status) { is_of(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0); }

#endif
