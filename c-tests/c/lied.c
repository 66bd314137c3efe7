/* A job that a member lies to: `lied NAME OTHER [LIAR]`. The liar says that it is the other job. */
#include "kit.h"

int main(int argc, char **argv)
{
    int me, size, handle, got = -1;
    MPI_Comm inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    kit_await(kit_path("lying"));
    if (argc > 3) FAILS_SAYING(MPI_Conn_intercomm_create(handle, argv[3], &inter), "a group that it is not");
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    OK(MPI_Sendrecv(&size, 1, MPI_INT, me, 5, &got, 1, MPI_INT, me, 5, inter, MPI_STATUS_IGNORE));
    SAME(got, size);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
