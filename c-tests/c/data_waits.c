/* Two jobs of one rank of which one or both wait for more than a minute: `data_waits NAME OTHER WHAT`, where WHAT is
 *
 *     receive   waits in MPI_Recv for a tag that nobody sends
 *     ssend     waits in MPI_Ssend for a receive that nobody posts
 *     probe     waits in MPI_Probe, then receives
 *     wait      the same in MPI_Wait
 *     busy      computes until told to go, then sends
 *     stopped   the same, stopped meanwhile
 */
#include "kit.h"
#include <signal.h>

static MPI_Comm inter;

static int is(const char *what, const char *this) { return !strcmp(what, this); }

/* Away from MPI until told to go. */
static void away(const char *name, int stops)
{
    char done[64];
    snprintf(done, sizeof done, "go-%s", name);
    if (stops) raise(SIGSTOP);
    kit_await(kit_path(done));
}

int main(int argc, char **argv)
{
    int handle, word = 41;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    kit_label = argv[1];
    const char *what = argv[3];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    /* From here on they are connected. */
    int got = 0;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    if (is(what, "receive")) {
        MPI_Recv(&word, 1, MPI_INT, 0, 5, inter, MPI_STATUS_IGNORE);
    } else if (is(what, "ssend")) {
        MPI_Ssend(&word, 1, MPI_INT, 0, 6, inter);
    } else if (is(what, "probe")) {
        OK(MPI_Probe(0, 3, inter, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE));
        SAME(got, 7);
    } else if (is(what, "wait")) {
        MPI_Request request;
        OK(MPI_Irecv(&got, 1, MPI_INT, 0, MPI_ANY_TAG, inter, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(got, 7);
    } else {
        away(argv[1], is(what, "stopped"));
        word = 7;
        OK(MPI_Send(&word, 1, MPI_INT, 0, 3, inter));
    }
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
