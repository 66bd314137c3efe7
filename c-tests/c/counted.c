/* Two ranks make a known number of native calls for the counting tool to see: `counted` alone, or
 * `counted MINE THEIRS` with an inter-communicator between the first half of them and the second. */
#include "kit.h"

enum { N = 25 };
static int me, size;

static void native(void)
{
    int n, in, out = me, flag, index, other = 1 - me;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    for (int i = 0; i < N; ++i) {
        OK(MPI_Comm_rank(MPI_COMM_WORLD, &n));
        OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
        OK(MPI_Sendrecv(&out, 1, MPI_INT, other, 1, &in, 1, MPI_INT, other, 1, MPI_COMM_WORLD, statuses));
        SAME(in, other);
        OK(MPI_Get_count(statuses, MPI_INT, &n));
        SAME(n, 1);
        if (me == 0) {
            OK(MPI_Send(&out, 1, MPI_INT, 1, 2, MPI_COMM_WORLD));
            OK(MPI_Probe(1, 3, MPI_COMM_WORLD, statuses));
            OK(MPI_Recv(&in, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, statuses));
        } else {
            OK(MPI_Recv(&in, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, statuses));
            OK(MPI_Ssend(&out, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
        }
        SAME(in, other);
        OK(MPI_Irecv(&in, 1, MPI_INT, other, 4, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Isend(&out, 1, MPI_INT, other, 4, MPI_COMM_WORLD, &requests[1]));
        if (i % 2) {
            OK(MPI_Wait(&requests[0], statuses));
            OK(MPI_Wait(&requests[1], statuses));
        } else
            OK(MPI_Waitall(2, requests, statuses));
        OK(MPI_Waitany(2, requests, &index, statuses));
        SAME(index, MPI_UNDEFINED);
        OK(MPI_Test(&requests[0], &flag, statuses));
        SAME(flag, 1);
        OK(MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, statuses));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Allreduce(&me, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        SAME(n, 1);
    }
}

/* Only calls that name the inter-communicator: a tool above sees them, a tool below does not. */
static void ours(MPI_Comm inter)
{
    int in, out = 40 + me, n, flag;
    MPI_Status status;
    for (int i = 0; i < N; ++i) {
        OK(MPI_Iprobe(me, 9, inter, &flag, &status)); /* first: at the end the other side may have left */
        SAME(flag, 0);
        OK(MPI_Sendrecv(&out, 1, MPI_INT, me, 1, &in, 1, MPI_INT, me, 1, inter, &status));
        SAME(in, out);
        if (me == 0) OK(MPI_Send(&out, 1, MPI_INT, 0, 2, inter));
        if (me == 0) OK(MPI_Recv(&in, 1, MPI_INT, 0, 2, inter, &status));
        OK(MPI_Comm_rank(inter, &n));
        SAME(n, me);
        OK(MPI_Comm_test_inter(inter, &flag));
        SAME(flag, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me); /* once more than in `native` */
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = argc > 2 ? argv[1] : "alone";
    native();
    if (argc > 2) {
        int handle;
        MPI_Comm inter;
        OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
        OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
        ours(inter);
        native();
        ours(inter);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Conn_remove(handle));
        native();
    }
    long mine[2] = {kit_checks, kit_failures}, all[2];
    MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0) printf("DONE %s checks %ld failures %ld\n", kit_label, all[0], all[1]);
    MPI_Finalize();
    return kit_failures != 0;
}
