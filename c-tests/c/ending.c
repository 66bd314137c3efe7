/* A job whose last message waits for a process of another job that is held, while MPI_Finalize delivers it.
 *
 *     ending MINE THEIRS HELD END
 *
 * Both jobs exchange a word, and say so by the files HELD.air and HELD.ocean. Job `air` then waits for the file HELD, sends what no lane takes at once, and finalizes; the other one computes
 * until END is there.
 */
#include "kit.h"

enum { MUCH = 5000000 };

int main(int argc, char **argv)
{
    int handle, word = 1;
    MPI_Comm other;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, 0, 1, 0, 1, other, MPI_STATUS_IGNORE));
    char joined[4096];
    snprintf(joined, sizeof joined, "%s.%s", argv[3], argv[1]);
    kit_write(joined, "");
    if (!strcmp(argv[1], "air")) {
        kit_await(argv[3]);
        OK(MPI_Isend(calloc(MUCH, 1), MUCH, MPI_BYTE, 0, 2, other, &request));
        OK(MPI_Request_free(&request));
    } else {
        kit_await(argv[4]);
    }
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
