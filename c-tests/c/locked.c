/* For pmpi_lock: `locked [MINE THEIRS]` commits datatypes and asks for ranks, natively and, when joined, beside traffic
 * of ours. How often is known to the harness. */
#include "kit.h"

enum { N = 25 };

int main(int argc, char **argv)
{
    int me, size, n, handle, joined = argc > 2;
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Init(&argc, &argv);
    if (joined) {
        OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
        OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    }
    for (int i = 0; i < N; ++i) {
        MPI_Datatype two;
        int out[2] = {i, 1000 + i}, in[2] = {-1, -1};
        OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
        OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
        OK(MPI_Type_contiguous(2, MPI_INT, &two));
        OK(MPI_Type_commit(&two));
        OK(MPI_Send(out, 1, two, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
        if (joined) {
            MPI_Request request;
            OK(MPI_Irecv(in, 1, two, me, 0, inter, &request));
            OK(MPI_Send(out, 1, two, me, 0, inter));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            SAME(in[0], i);
            SAME(in[1], 1000 + i);
        }
        OK(MPI_Type_free(&two));
        OK(MPI_Allreduce(&me, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        SAME(n, size * (size - 1) / 2);
    }
    kit_rank = me;
    kit_label = joined ? argv[1] : "alone";
    if (joined) {
        OK(MPI_Comm_free(&inter));
        OK(MPI_Conn_remove(handle));
    }
    int result = kit_end();
    MPI_Finalize();
    return result;
}
