/* What checkpoints cost two jobs of one rank each that exchange messages without a pause.
 *
 *     checkpoint_cost MINE THEIRS FOLDER SLICES MILLISECONDS [tracked]
 *
 * The first job in the order of names leads: it says in each round whether both make a checkpoint behind it, as models do that make them at the same
 * step; in turn never in a slice of time, each second, and each 100 ms. So little is on its way at the cuts, and what is measured is not the disk. A
 * round is a window of small messages one way, and 64 KiB both ways. With `tracked`, MPI_Conn_restart was called; without it there is no
 * checkpoint in any slice.
 */
#include "kit.h"

enum { WINDOW = 64, BULK = 64 << 10, KINDS = 3, END = -1, CUT = 1 };

static const double every[KINDS] = {1e9, 1.0, 0.1};
static double last;
static const char *folder;
static int handle, made;

static void checkpoint(void)
{
    char name[32];
    last = MPI_Wtime();
    snprintf(name, sizeof name, "cut-%d", ++made);
    OK(MPI_Conn_checkpoint(handle, folder, name));
}

int main(int argc, char **argv)
{
    static char bulk[BULK];
    char label[MPI_CONN_MAX_LABEL];
    int count = 0, small[WINDOW];
    MPI_Comm comms[1], other;
    MPI_Request requests[WINDOW];
    OK(MPI_Init(&argc, &argv));
    kit_rank = 0, kit_label = argv[1], folder = argv[3];
    int leads = strcmp(argv[1], argv[2]) < 0, tracked = argc > 6, slices = atoi(argv[4]);
    double slice = atoi(argv[5]) * 1e-3;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    if (tracked) OK(MPI_Conn_restart(handle, folder, label, 1, comms, &count));
    SAME(count, 0);
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    for (int at = 0, kind = 0, what = 0; what != END; ++at) {
        double begin = MPI_Wtime(), longest = 0, now = begin;
        long rounds = 0;
        int before = made;
        last = begin;
        for (; what != END; ++rounds) {
            double since = now;
            if (leads) {
                kind = tracked ? at % KINDS : 0;
                what = at == slices ? END : now - last < every[kind] ? 0 : CUT;
                for (int i = 0; i < WINDOW; ++i) {
                    small[i] = what;
                    OK(MPI_Isend(&small[i], 1, MPI_INT, 0, 1, other, &requests[i]));
                }
            } else {
                for (int i = 0; i < WINDOW; ++i) OK(MPI_Irecv(&small[i], 1, MPI_INT, 0, 1, other, &requests[i]));
            }
            OK(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
            what = small[0];
            if (what == END) break;
            if (leads) {
                OK(MPI_Send(bulk, BULK, MPI_BYTE, 0, 2, other));
                OK(MPI_Recv(bulk, BULK, MPI_BYTE, 0, 2, other, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Recv(bulk, BULK, MPI_BYTE, 0, 2, other, MPI_STATUS_IGNORE));
                OK(MPI_Send(bulk, BULK, MPI_BYTE, 0, 2, other));
            }
            if (what == CUT) checkpoint();
            now = MPI_Wtime();
            if (now - since > longest) longest = now - since;
            if (leads && now - begin >= slice) break;
        }
        if (leads && what != END)
            printf("SLICE %d %ld %.6f %.6f %d\n", kind, rounds + 1, now - begin, longest, made - before);
    }
    OK(MPI_Comm_free(&other));
    OK(MPI_Conn_remove(handle));
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
