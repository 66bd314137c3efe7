/* Many clients on one port: `port_many server PATH CLIENTS TURNS` on one rank, several jobs `port_many client PATH FIRST TURNS`, of
 * which every rank connects by itself, so many times. The server answers each, and keeps all until it has met all of
 * one turn. */
#include "ports.h"

enum { MOST = 256, SIZE = 5000 };

static MPI_Comm inters[MOST];
static int words[SIZE];

static void serve(char *port, int clients, int turns)
{
    static char seen[MOST];
    for (int turn = 0; turn < turns; ++turn) {
        memset(seen, 0, sizeof seen);
        for (int k = 0; k < clients; ++k) {
            int size = -1;
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inters[k]));
            OK(MPI_Comm_remote_size(inters[k], &size));
            SAME(size, 1);
        }
        /* Last come, first served: each has its own. */
        for (int k = clients - 1; k >= 0; --k) {
            int who = -1;
            OK(MPI_Recv(&who, 1, MPI_INT, 0, MPI_ANY_TAG, inters[k], MPI_STATUS_IGNORE));
            CHECK(who >= 0 && who < clients && !seen[who], "client %d", who);
            if (who >= 0 && who < clients) seen[who] = 1;
            kit_fill(words, sizeof words, (uint64_t)(turn * MOST + who));
            OK(MPI_Send(words, SIZE, MPI_INT, 0, who, inters[k]));
        }
        for (int k = 0; k < clients; ++k) OK(MPI_Comm_disconnect(&inters[k]));
    }
}

static void ask(char *port, int who, int turns)
{
    for (int turn = 0; turn < turns; ++turn) {
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inters[0]));
        OK(MPI_Send(&who, 1, MPI_INT, 0, 3, inters[0]));
        OK(MPI_Recv(words, SIZE, MPI_INT, 0, who, inters[0], MPI_STATUS_IGNORE));
        HOLDS(words, sizeof words, (uint64_t)(turn * MOST + who));
        OK(MPI_Comm_disconnect(&inters[0]));
    }
}

int main(int argc, char **argv)
{
    char port[PORT_ROOM];
    ports_begin(&argc, &argv);
    if (argc != 5) {
        fprintf(stderr, "port_many server PATH CLIENTS TURNS | client PATH FIRST TURNS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1];
    int number = atoi(argv[3]), turns = atoi(argv[4]);
    double start = kit_ms();
    if (!strcmp(argv[1], "server")) {
        CHECK(number <= MOST);
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        port_tell(argv[2], port);
        serve(port, number, turns);
        OK(MPI_Close_port(port));
        printf("TOOK %.1f\n", (kit_ms() - start) / 1e3);
    } else {
        port_hear(argv[2], port);
        ask(port, number + kit_rank, turns);
    }
    int result = kit_end();
    MPI_Finalize();
    return result;
}
