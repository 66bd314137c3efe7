/* One of three jobs, each joined to both others: `three ME OTHER OTHER`, the others in the same order everywhere. */
#include "kit.h"

enum { ROUNDS = 50 };

int main(int argc, char **argv)
{
    int me, size, handle, theirs[2];
    MPI_Comm inter[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    for (int j = 0; j < 2; ++j) {
        OK(MPI_Conn_intercomm_create(handle, argv[2 + j], &inter[j]));
        OK(MPI_Comm_remote_size(inter[j], &theirs[j]));
    }
    /* Every rank swaps with every rank of both other jobs, all at once, and takes them as they come. */
    for (int round = 0; round < ROUNDS; ++round) {
        int total = theirs[0] + theirs[1], n = 0, from[64], job[64], index;
        struct { char name[32]; int rank, round; } out, in[64];
        MPI_Request receives[64], sends[64];
        memset(&out, 0, sizeof out);
        snprintf(out.name, sizeof out.name, "%s", argv[1]);
        out.rank = me;
        out.round = round;
        for (int j = 0; j < 2; ++j)
            for (int p = 0; p < theirs[j]; ++p, ++n) {
                from[n] = p;
                job[n] = j;
                OK(MPI_Irecv(&in[n], sizeof in[n], MPI_BYTE, p, 5, inter[j], &receives[n]));
                OK(MPI_Isend(&out, sizeof out, MPI_BYTE, p, 5, inter[j], &sends[n]));
            }
        for (int left = total; left; --left) {
            MPI_Status status;
            OK(MPI_Waitany(total, receives, &index, &status));
            CHECK(index >= 0 && index < total);
            SAME(status.MPI_SOURCE, from[index]);
            CHECK(!strcmp(in[index].name, argv[2 + job[index]]), "from %s", in[index].name);
            SAME(in[index].rank, from[index]);
            SAME(in[index].round, round);
        }
        OK(MPI_Waitall(total, sends, MPI_STATUSES_IGNORE));
    }
    for (int j = 0; j < 2; ++j) OK(MPI_Comm_free(&inter[j]));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
