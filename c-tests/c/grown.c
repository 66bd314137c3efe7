/* A job that is started twice. The first time an inter-communicator is made between the cuts of both jobs: no line has these two.
 *
 *     grown MINE THEIRS FOLDER FIRST
 *
 * The job with FIRST `yes` makes a checkpoint before that, and one when the other job has made its own. The second time both look at
 * what is given back.
 */
#include "kit.h"
#include "line.h"

int main(int argc, char **argv)
{
    int handle, count = -1, word = 7;
    char label[MPI_CONN_MAX_LABEL];
    MPI_Comm comms[2];
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    kit_label = argv[1];
    const char *folder = argv[3];
    int is_first = !strcmp(argv[4], "yes");
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_restart(handle, folder, label, 2, comms, &count));
    if (count == 0) {
        OK(MPI_Conn_intercomm_create(handle, argv[2], &comms[0]));
        if (is_first) OK(MPI_Conn_checkpoint(handle, folder, "early"));
        OK(MPI_Comm_dup(comms[0], &comms[1]));
        if (!is_first) OK(MPI_Conn_checkpoint(handle, folder, "one"));
        if (!is_first) OK(MPI_Send(&word, 1, MPI_INT, kit_rank, 0, comms[1]));
        if (is_first) OK(MPI_Recv(&word, 1, MPI_INT, kit_rank, 0, comms[1], MPI_STATUS_IGNORE));
        if (is_first) OK(MPI_Conn_checkpoint(handle, folder, "late"));
        await_line(folder, argv[1]);
    } else {
        SAME(count, 2);
        CHECK(!strcmp(label, is_first ? "late" : "one"), "%s", label);
        /* The other one sends this again, since it came after its cut. */
        if (!is_first) OK(MPI_Send(&word, 1, MPI_INT, kit_rank, 0, comms[1]));
    }
    for (int i = 0, got; i < 2; ++i) {
        OK(MPI_Send(&i, 1, MPI_INT, kit_rank, 1, comms[i]));
        OK(MPI_Recv(&got, 1, MPI_INT, kit_rank, 1, comms[i], MPI_STATUS_IGNORE));
        SAME(got, i);
    }
    for (int i = 2; i-- > 0;) OK(MPI_Comm_free(&comms[i]));
    OK(MPI_Conn_remove(handle));
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
