/* One half of a member of an ensemble, whose names are those of all members: it must meet its own other half.
 *
 *     member MEMBER SIDE HERE
 *
 * By registered names, then by a published port. HERE: a file that the first half writes once its names are there.
 */
#include "ports.h"

static int member, side;

/* Both halves say who they are. */
static void compare(MPI_Comm other)
{
    int got = -1;
    OK(MPI_Sendrecv(&member, 1, MPI_INT, 0, 5, &got, 1, MPI_INT, 0, 5, other, MPI_STATUS_IGNORE));
    SAME(got, member);
}

int main(int argc, char **argv)
{
    static const char *names[] = {"air", "ocean"};
    char port[PORT_ROOM] = "";
    int handle = -1;
    MPI_Comm other;
    ports_begin(&argc, &argv);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    member = atoi(argv[1]);
    side = atoi(argv[2]);
    if (side == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name((char *)"door", MPI_INFO_NULL, port));
    }
    OK(MPI_Conn_register(names[side], MPI_COMM_WORLD, &handle));
    /* Until both halves have registered: then each finds what there is to be found. */
    if (side == 0) kit_write(argv[3], "here");
    kit_await(argv[3]);
    OK(MPI_Conn_intercomm_create(handle, names[1 - side], &other));
    compare(other);
    if (side == 1) OK(MPI_Lookup_name((char *)"door", MPI_INFO_NULL, port));
    MPI_Barrier(other);
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&other));
    if (side == 0)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
    compare(other);
    OK(MPI_Comm_disconnect(&other));
    if (side == 0) {
        OK(MPI_Unpublish_name((char *)"door", MPI_INFO_NULL, port));
        OK(MPI_Close_port(port));
    }
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
