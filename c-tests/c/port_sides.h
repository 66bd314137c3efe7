/* What programs have in common that are run as a server's job and a client's, `PROGRAM server|client SECTION...`, of two
 * ranks each: how they meet at ports, what they tell each other by files beside MPI, how they go through the sections. */
#ifndef PORT_SIDES_H
#define PORT_SIDES_H

#include "ports.h"

enum { SOON_MS = 10000 };

static int me, serves;
static const char *section;
static char port[PORT_ROOM];
static MPI_Comm inter = MPI_COMM_NULL;

/* The file by which this section tells something. */
UNUSED static const char *sign(const char *what) { return kit_path("%s-%s", section, what); }
UNUSED static void tell(const char *what) { kit_write(sign(what), "told\n"); }
UNUSED static void hear(const char *what) { kit_await(sign(what)); }

/* Rank 0 of the server's job opens a port; rank 0 of the client's knows it. */
UNUSED static void open_and_tell(void)
{
    if (me || !serves) return;
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    port_tell(sign("port"), port);
}

UNUSED static void hear_port(void)
{
    if (!me && !serves) port_hear(sign("port"), port);
}

UNUSED static void accept_on(MPI_Comm comm, int root)
{
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_accept(rank == root ? port : NULL, MPI_INFO_NULL, root, comm, &inter));
}

UNUSED static void connect_on(MPI_Comm comm, int root)
{
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_connect(rank == root ? port : NULL, MPI_INFO_NULL, root, comm, &inter));
}

/* All of both sides exchange a word, of which `word` is what the other side's rank 0 has to say. */
UNUSED static void exchange(int word, int theirs)
{
    int size, rank, out = word, in;
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_remote_size(inter, &size));
    SAME(size, theirs);
    for (int k = 0; k < size; ++k) {
        MPI_Request request;
        out = word * 100 + rank;
        in = -1;
        OK(MPI_Isend(&out, 1, MPI_INT, k, 7, inter, &request));
        OK(MPI_Recv(&in, 1, MPI_INT, k, 7, inter, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(in, word * 100 + k);
    }
}

UNUSED static void part(void)
{
    OK(MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL);
}

/* Whatever was going on before is over, for both ranks. */
UNUSED static void together(void) { OK(MPI_Barrier(MPI_COMM_WORLD)); }

/* Both jobs have come to the end of a step. */
UNUSED static void meet(const char *what)
{
    char mine[64], theirs[64];
    snprintf(mine, sizeof mine, "%s-of-%s", what, serves ? "server" : "client");
    snprintf(theirs, sizeof theirs, "%s-of-%s", what, serves ? "client" : "server");
    together();
    if (!me) tell(mine);
    hear(theirs);
}

UNUSED static MPI_Info info_of(const char *key, const char *value)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, (char *)key, (char *)value));
    return info;
}

/* Both jobs go through the same sections in the same order. */
UNUSED static int port_sides(int argc, char **argv, const struct kit_section *sections, size_t count)
{
    int size;
    ports_begin(&argc, &argv);
    kit_label = argv[1];
    serves = !strcmp(argv[1], "server");
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    SAME(size, 2);
    for (int k = 2; k < argc; ++k) {
        section = argv[k];
        kit_begin(sections, count, section)->run();
        together();
    }
    int result = kit_end();
    MPI_Finalize();
    return result;
}

#endif
