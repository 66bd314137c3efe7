/* Jobs that an operator looks at while messages flow, and while some of their processes call nothing.
 *
 *     controlled MINE THEIRS BUSY END [LEAVES]
 *     controlled MINE ABORT
 *
 * Rank 0 exchanges messages with rank 0 of the other job until END is there, and both end together. The others have sent one
 * message, then compute: they call neither MPI nor the kernel's sleep until END is there. Rank 0 writes BUSY once messages flow, and
 * says when it is held and when it comes back. The rank LEAVES finalizes as soon as it has sent its message.
 * In the second form the job has its name alone, and rank 0 aborts it when ABORT is there.
 */
#include "kit.h"

static int ends(const char *sign) { return kit_is_there(sign); }

static void say(void *word)
{
    printf("TOLD %s\n", (const char *)word);
    fflush(stdout);
}

static void come_back(void *word)
{
    (void)word;
    say("resuming");
}

static void compute(void)
{
    volatile double x = 1;
    for (int i = 0; i < 1000000; ++i) x = x * 1.0000001 + 1e-9;
}

int main(int argc, char **argv)
{
    int handle = -1, size, there, failed = 0, leaves = -1, go_on[2] = {1, 1};
    char data[1000] = "";
    MPI_Comm other;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 3 && argc != 5 && argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
    if (argc == 6) leaves = atoi(argv[5]);
    kit_label = argv[1];
    if (kit_rank == 0) OK(MPI_Conn_on_hold(say, come_back, "held"));
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    if (argc == 3) {
        while (kit_rank > 0 || !ends(argv[2])) compute();
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_size(other, &size));
    OK(MPI_Comm_remote_size(other, &there));
    if (kit_rank < there) {
        OK(MPI_Sendrecv(&size, 1, MPI_INT, kit_rank, 1, &there, 1, MPI_INT, kit_rank, 1, other, &status));
    }
    if (leaves >= 0) failed = kit_end();
    if (kit_rank == leaves) {
        MPI_Finalize();
        return failed;
    }
    if (kit_rank > 0) {
        while (!ends(argv[4])) compute();
    } else {
        /* Both go on until both have seen the sign. */
        for (long turn = 0; go_on[0] || go_on[1]; ++turn) {
            go_on[0] = !ends(argv[4]);
            OK(MPI_Sendrecv(&go_on[0], 1, MPI_INT, 0, 2, &go_on[1], 1, MPI_INT, 0, 2, other, &status));
            OK(MPI_Sendrecv_replace(data, sizeof data, MPI_BYTE, 0, 3, 0, 3, other, &status));
            if (turn == 100) kit_write(argv[3], "busy");
        }
    }
    if (leaves < 0) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Comm_free(&other));
        failed = kit_end();
    }
    MPI_Finalize();
    return failed;
}
