/* One job with inter-communicators between two of its parts, run with MPI_CONNECT_ADOPT=1 and without: the same. What
 * works on them works on all that is made from them, and collectives and merge go on as the MPI has them. */
#include "kit.h"

static int me, size, low, half, mine, theirs;

static void swap(MPI_Comm comm, int tag)
{
    int local, remote, rank;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &local));
    OK(MPI_Comm_remote_size(comm, &remote));
    for (int p = 0; p < remote; ++p) {
        int in = -1;
        MPI_Status status;
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, p, tag, &in, 1, MPI_INT, p, tag, comm, &status));
        SAME(in, p);
        SAME(status.MPI_SOURCE, p);
    }
}

/* The remote group has processes of this very job. */
static void groups(MPI_Comm inter)
{
    MPI_Group world, local, remote, both, none;
    int result, count, rank = 0, there = -1;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_group(inter, &local));
    OK(MPI_Comm_remote_group(inter, &remote));
    OK(MPI_Group_translate_ranks(remote, 1, &rank, world, &there));
    SAME(there, low ? half : 0);
    OK(MPI_Group_union(low ? local : remote, low ? remote : local, &both));
    OK(MPI_Group_compare(both, world, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Group_intersection(local, remote, &none));
    OK(MPI_Group_size(none, &count));
    SAME(count, 0);
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&local));
    OK(MPI_Group_free(&remote));
    OK(MPI_Group_free(&both));
    if (none != MPI_GROUP_EMPTY) OK(MPI_Group_free(&none));
}

static void collectives(MPI_Comm inter)
{
    int one = me, sum = -1, want = 0;
    OK(MPI_Barrier(inter));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    for (int p = 0; p < size; ++p)
        if ((p < half) != low) want += p;
    SAME(sum, want);
}

static void merged(MPI_Comm inter)
{
    MPI_Comm both;
    int rank, all;
    OK(MPI_Intercomm_merge(inter, !low, &both));
    OK(MPI_Comm_rank(both, &rank));
    OK(MPI_Comm_size(both, &all));
    SAME(rank, me);
    SAME(all, size);
    OK(MPI_Comm_free(&both));
}

static void try(MPI_Comm inter)
{
    int flag, result;
    OK(MPI_Comm_test_inter(inter, &flag));
    SAME(flag, 1);
    OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &result));
    SAME(result, MPI_UNEQUAL);
    swap(inter, 3);
    groups(inter);
    collectives(inter);
    swap(inter, 4);
    merged(inter);
    OK(MPI_Sendrecv(&me, 1, MPI_INT, MPI_PROC_NULL, 5, &flag, 1, MPI_INT, MPI_PROC_NULL, 5, inter, MPI_STATUS_IGNORE));
    REFUSED(MPI_Send(&me, 1, MPI_INT, theirs, 5, inter), MPI_ERR_RANK);
}

#ifndef LAM_MPI /* which makes no parts of inter-communicators */
/* Of each side, rank 0 goes elsewhere: what the others have is whole, and so is what is made from it. */
static void left_out(MPI_Comm inter)
{
    MPI_Comm rest, twin;
    MPI_Group all, others;
    int rank, zero = 0, one = 1, sum = -1;
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_group(inter, &all));
    OK(MPI_Group_excl(all, 1, &zero, &others));
    OK(MPI_Comm_create(inter, others, &rest));
    OK(MPI_Group_free(&all));
    if (others != MPI_GROUP_EMPTY) OK(MPI_Group_free(&others));
    SAME(rest == MPI_COMM_NULL, rank == 0);
    if (rest == MPI_COMM_NULL) return;
    OK(MPI_Comm_dup(rest, &twin));
    OK(MPI_Comm_free(&rest));
    swap(twin, 8);
    OK(MPI_Barrier(twin));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin));
    SAME(sum, theirs - 1);
    OK(MPI_Bcast(&sum, 1, MPI_INT, !low ? 0 : rank == 1 ? MPI_ROOT : MPI_PROC_NULL, twin));
    SAME(sum, low ? theirs - 1 : mine - 1);
    OK(MPI_Comm_free(&twin));
}
#endif

int main(int argc, char **argv)
{
    MPI_Comm part, inter, again, twin;
    int result;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = "adopt";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    half = size / 2;
    low = me < half;
    mine = low ? half : size - half;
    theirs = size - mine;
    OK(MPI_Comm_split(MPI_COMM_WORLD, low, me, &part));
    OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
    OK(MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, low ? half : 0, 7, &inter));
    OK(MPI_Intercomm_create(part, mine - 1, MPI_COMM_WORLD, low ? size - 1 : half - 1, 8, &again));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(again, MPI_ERRORS_RETURN));
    OK(MPI_Comm_compare(inter, again, &result));
    SAME(result, MPI_CONGRUENT);
    try(inter);
    try(again);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_dup(again, &twin));
    OK(MPI_Comm_compare(twin, again, &result));
    SAME(result, MPI_CONGRUENT);
    try(twin);
#if MPI_VERSION >= 3
    MPI_Comm begun;
    MPI_Request request;
    OK(MPI_Comm_idup(again, &begun, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    try(begun);
    OK(MPI_Comm_free(&begun));
    /* Of this one no collective call is made. */
    OK(MPI_Comm_idup(again, &begun, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
#endif
#ifndef LAM_MPI
    left_out(again);
    MPI_Comm turned;
    OK(MPI_Comm_split(again, 5, -me, &turned));
    OK(MPI_Comm_compare(turned, again, &result));
    SAME(result, size > 2 ? MPI_SIMILAR : MPI_CONGRUENT);
    swap(turned, 6);
    collectives(turned);
    OK(MPI_Comm_free(&turned));
#endif
    OK(MPI_Comm_free(&again));
    try(twin);
    OK(MPI_Comm_free(&twin));
    /* By one rank of each side alone. */
    OK(MPI_Comm_free(&part));
    if (me == 0 || me == size - 1) {
        OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, me ? 0 : size - 1, 9, &inter));
        swap(inter, 7);
        OK(MPI_Comm_free(&inter));
    }
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
