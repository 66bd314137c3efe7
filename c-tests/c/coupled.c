/* A job that stays joined without its name, until it is told to go on.
 *
 *     coupled MINE THEIRS JOINED FREE FREED END
 *
 * JOINED and FREED are written by rank 0 once it is so; FREE and END are awaited.
 */
#include "kit.h"

int main(int argc, char **argv)
{
    int handle = -1;
    MPI_Comm other, copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 7) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    /* What is made from it holds it as well. */
    OK(MPI_Comm_dup(other, &copy));
    OK(MPI_Comm_free(&other));
    if (kit_rank == 0) kit_write(argv[3], "joined");
    kit_await(argv[4]);
    OK(MPI_Comm_free(&copy));
    if (kit_rank == 0) kit_write(argv[5], "freed");
    kit_await(argv[6]);
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
