/* Requests and groups of ours as INTEGERs of Fortran and back, as Fortran layers and mixed programs convert them:
 * `integers MINE THEIRS`. Both halves are this program. */
#include "kit.h"

#ifdef MPI_ABI_VERSION
#define TO(kind, handle) MPI_##kind##_toint(handle)
#define FROM(kind, integer) MPI_##kind##_fromint(integer)
typedef int integer;
#else
#define TO(kind, handle) MPI_##kind##_c2f(handle)
#define FROM(kind, integer) MPI_##kind##_f2c(integer)
typedef MPI_Fint integer;
#endif

int main(int argc, char **argv)
{
    enum { MANY = 300 };
    int handle, me, n, in[MANY], flag;
    MPI_Comm inter;
    MPI_Group group, same, local;
    MPI_Request requests[MANY], native;
    integer numbers[MANY];
    if (argc != 3) return 2;
    kit_label = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    me = kit_rank;

    /* Before there is an inter-communicator, and after. */
    for (int joined = 0; joined < 2; ++joined) {
        CHECK(FROM(Request, TO(Request, MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
        CHECK(FROM(Group, TO(Group, MPI_GROUP_NULL)) == MPI_GROUP_NULL);
        OK(MPI_Comm_group(MPI_COMM_WORLD, &local));
        CHECK(FROM(Group, TO(Group, local)) == local);
        OK(MPI_Group_free(&local));
        OK(MPI_Irecv(&n, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &native));
        CHECK(FROM(Request, TO(Request, native)) == native);
        OK(MPI_Send(&me, 1, MPI_INT, me, 1, MPI_COMM_WORLD));
        OK(MPI_Wait(&native, MPI_STATUS_IGNORE));
        if (joined) break;
        OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
        OK(MPI_Conn_intercomm_create(handle, argv[2], &inter));
    }

    OK(MPI_Comm_remote_group(inter, &group));
    same = FROM(Group, TO(Group, group));
    CHECK(same == group);
    OK(MPI_Comm_remote_size(inter, &n));
    OK(MPI_Group_size(same, &flag));
    SAME(flag, n);
    OK(MPI_Group_free(&same));
    /* One of both jobs. */
    OK(MPI_Comm_remote_group(inter, &group));
    OK(MPI_Comm_group(inter, &local));
    OK(MPI_Group_union(local, group, &same));
    CHECK(FROM(Group, TO(Group, same)) == same);
    CHECK(TO(Group, same) != TO(Group, group));
    OK(MPI_Group_free(&same));
    OK(MPI_Group_free(&local));
    OK(MPI_Group_free(&group));

    for (int i = 0; i < MANY; ++i) {
        in[i] = -1;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, me, i, inter, &requests[i]));
        numbers[i] = TO(Request, requests[i]);
        SAME(TO(Request, requests[i]), numbers[i]);
        if (i) CHECK(numbers[i] != numbers[i - 1]);
    }
    for (int i = 0; i < MANY; ++i) OK(MPI_Send(&i, 1, MPI_INT, me, i, inter));
    for (int i = 0; i < MANY; ++i) {
        MPI_Request request = FROM(Request, numbers[i]);
        CHECK(request == requests[i]);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(request == MPI_REQUEST_NULL);
        SAME(in[i], i);
    }
    for (int i = 0; i < MANY; ++i) OK(MPI_Send(&i, 1, MPI_INT, me, i, inter));
    for (int i = 0; i < MANY; ++i) {
#ifdef LAM_MPI
        OK(MPI_Recv(&n, 1, MPI_INT, me, i, inter, MPI_STATUS_IGNORE));
        SAME(n, i);
#else
        MPI_Message message, other;
        OK(MPI_Mprobe(me, i, inter, &message, MPI_STATUS_IGNORE));
        other = FROM(Message, TO(Message, message));
        CHECK(other == message);
        OK(MPI_Mrecv(&n, 1, MPI_INT, &other, MPI_STATUS_IGNORE));
        SAME(n, i);
        CHECK(FROM(Message, TO(Message, other)) == MPI_MESSAGE_NULL);
#endif
    }
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&inter));
    int code = kit_end();
    MPI_Finalize();
    return code;
}
