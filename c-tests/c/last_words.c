/* Messages that MPI_Finalize delivers.
 *
 *     last_words MINE THEIRS says|hears STOPPED FINALIZING
 *
 * Rank 1 that hears writes its process number to STOPPED and stops, so no message gets to it. Each rank that says something sends a
 * message and forgets it, writes FINALIZING.RANK, and finalizes.
 */
#include "kit.h"

#include <signal.h>

int main(int argc, char **argv)
{
    static int word = 7;
    int handle = -1, failed;
    char text[4096];
    MPI_Comm other;
    MPI_Request request;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    if (strcmp(argv[3], "hears") == 0) {
        if (kit_rank == 1) {
            snprintf(text, sizeof text, "%ld", (long)getpid());
            kit_write(argv[4], text);
            raise(SIGSTOP);
        }
        OK(MPI_Recv(&word, 1, MPI_INT, kit_rank, 1, other, &status));
        failed = kit_end();
    } else {
        kit_await(argv[4]);
        OK(MPI_Isend(&word, 1, MPI_INT, kit_rank, 1, other, &request));
        OK(MPI_Request_free(&request));
        failed = kit_end();
        snprintf(text, sizeof text, "%s.%d", argv[5], kit_rank);
        kit_write(text, "");
    }
    MPI_Finalize();
    return failed;
}
