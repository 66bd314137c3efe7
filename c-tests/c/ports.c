/* `ports server|client file:PATH|name:SERVICE ROUNDS THEIRS`: two jobs meet at ports of MPI's own, so many times. The
 * other job has THEIRS ranks.
 *
 * In each round another rank of either job is the root. The server's opens a port and leaves its name at PATH-ROOT, or
 * publishes it as SERVICE-ROOT. Everybody sends everybody of the other job a small and a large message, and both jobs
 * broadcast to each other; then they part. Nothing here knows of the library. */
#ifndef KIT_NATIVE
#define KIT_NATIVE
#endif
#include "ports.h"

enum { SMALL = 16, LARGE = 1 << 20, MOST = 16 };

static int me, mine, serves;
static const char *place;
static int by_name;
static MPI_Comm inter = MPI_COMM_NULL;

/* Where the port of this root is told. */
static const char *place_of(int root)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s-%d", place, root);
    return text;
}

static void tell(int root, char *port)
{
    if (by_name) {
        step("MPI_Publish_name");
        OK(MPI_Publish_name((char *)place_of(root), MPI_INFO_NULL, port));
    } else
        port_tell(place_of(root), port);
}

static void hear(int root, char *port)
{
    if (!by_name) {
        step("the port's name in a file");
        port_hear(place_of(root), port);
        return;
    }
    step("MPI_Lookup_name");
    for (;;) {
        int code = MPI_Lookup_name((char *)place_of(root), MPI_INFO_NULL, port);
        if (code == MPI_SUCCESS) return;
        if (kit_class(code) != MPI_ERR_NAME) OK(code);
        kit_sleep_ms(20); /* the server is late */
    }
}

/* Of one message: who sends, to whom, in which round, how large. */
static uint64_t seed(int round, int from_server, int from, int to, int bytes)
{
    return ((((uint64_t)round * 2 + (unsigned)from_server) * 64 + (unsigned)from) * 64 + (unsigned)to) * 2 + (bytes == LARGE);
}

static void everybody_with_everybody(int round, int theirs)
{
    static char *out[2 * MOST], *in;
    MPI_Request requests[2 * MOST];
    MPI_Status status;
    int n = 0, count;
    if (!in) in = kit_alloc(LARGE);
    for (int to = 0; to < theirs; ++to)
        for (int large = 0; large < 2; ++large, ++n) {
            int bytes = large ? LARGE : SMALL;
            if (!out[n]) out[n] = kit_alloc((size_t)bytes);
            kit_fill(out[n], (size_t)bytes, seed(round, serves, me, to, bytes));
            OK(MPI_Isend(out[n], bytes, MPI_BYTE, to, large, inter, &requests[n]));
        }
    for (int from = 0; from < theirs; ++from)
        for (int large = 0; large < 2; ++large) {
            int bytes = large ? LARGE : SMALL;
            memset(in, 0, (size_t)bytes);
            OK(MPI_Recv(in, LARGE, MPI_BYTE, from, large, inter, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            SAME(count, bytes);
            SAME(status.MPI_SOURCE, from);
            HOLDS(in, (size_t)bytes, seed(round, !serves, from, me, bytes));
        }
    OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
}

/* From one rank of one job to all of the other. */
static void broadcast(int round, int server_sends, int root)
{
    int words[300], sends = serves == server_sends;
    uint64_t which = (uint64_t)round * 2 + (unsigned)server_sends + 70000;
    memset(words, 0, sizeof words);
    if (sends && me == root) kit_fill(words, sizeof words, which);
    OK(MPI_Bcast(words, 300, MPI_INT, !sends ? root : me == root ? MPI_ROOT : MPI_PROC_NULL, inter));
    if (!sends) HOLDS(words, sizeof words, which);
}

int main(int argc, char **argv)
{
    static char ports[MOST][PORT_ROOM];
    char port[PORT_ROOM] = "";
    ports_begin(&argc, &argv);
    if (argc != 5 || !strchr(argv[2], ':')) {
        fprintf(stderr, "ports server|client file:PATH|name:SERVICE ROUNDS THEIRS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1];
    serves = !strcmp(argv[1], "server");
    by_name = !strncmp(argv[2], "name:", 5);
    place = strchr(argv[2], ':') + 1;
    int rounds = atoi(argv[3]), theirs = atoi(argv[4]), size, flag = 0;
    CHECK(theirs > 0 && theirs <= MOST);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &mine);

    if (serves && me < rounds) {
        step("MPI_Open_port");
        OK(MPI_Open_port(MPI_INFO_NULL, ports[me]));
        CHECK(ports[me][0] && strlen(ports[me]) < MPI_MAX_PORT_NAME);
        tell(me, ports[me]);
    }
    for (int round = 0; round < rounds; ++round) {
        int root = round % mine, their_root = round % theirs;
        if (serves) {
            if (me == root) step("MPI_Comm_accept");
            OK(MPI_Comm_accept(ports[me], MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
        } else {
            if (me == root) hear(their_root, port);
            if (me == root) step("MPI_Comm_connect");
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter));
        }
        OK(MPI_Comm_test_inter(inter, &flag));
        CHECK(flag);
        OK(MPI_Comm_remote_size(inter, &size));
        SAME(size, theirs);
        if (me == root) step("messages");
        everybody_with_everybody(round, theirs);
        if (me == root) step("MPI_Bcast");
        broadcast(round, 1, serves ? root : their_root);
        broadcast(round, 0, serves ? their_root : root);
        if (me == root) step("MPI_Comm_disconnect");
        OK(MPI_Comm_disconnect(&inter));
        CHECK(inter == MPI_COMM_NULL);
    }
    if (serves && me < rounds) {
        if (by_name) OK(MPI_Unpublish_name((char *)place_of(me), MPI_INFO_NULL, ports[me]));
        OK(MPI_Close_port(ports[me]));
    }
    step("MPI_Finalize");
    int result = kit_end();
    MPI_Finalize();
    return result;
}
