/* One of many jobs, half of them on the left and half on the right: each of the left meets each of the right.
 *
 *     everyone names|ports left|right PREFIX ME OTHER...
 *
 * `names`: by MPI_Conn_register and MPI_Conn_intercomm_create. `ports`: by MPI's own calls; whoever is on the left has a
 * port, whose name is in the file PREFIX-ME, and takes the others as they come. Of each meeting "PAIR OTHER CHECKS" is
 * printed. */
#include "ports.h"

enum { SMALL = 40, LARGE = 300000, MOST = 16 };

static int me, mine, on_left;
static const char *name;

/* What is sent from a rank of this job to a rank of that. */
static uint64_t seed(const char *from, int rank, const char *to, int other, int bytes)
{
    uint64_t mixed = 14695981039346656037u;
    for (const char *c = from; *c; ++c) mixed = (mixed ^ (unsigned char)*c) * 1099511628211u;
    for (const char *c = to; *c; ++c) mixed = (mixed ^ (unsigned char)*c) * 1099511628211u;
    return ((mixed * 31 + (unsigned)rank) * 31 + (unsigned)other) * 1000003 + (unsigned)bytes;
}

/* Everybody to everybody, a small and a large message; then MPI_INTs as every second of an array, by Sendrecv. */
static void exchange(MPI_Comm inter, const char *other)
{
    const int sizes[2] = {SMALL, LARGE};
    char *out[2 * MOST], *in = kit_alloc(LARGE);
    MPI_Request requests[2 * MOST];
    MPI_Status status;
    int theirs, remote, n = 0, count;
    OK(MPI_Comm_test_inter(inter, &remote));
    CHECK(remote);
    OK(MPI_Comm_remote_size(inter, &theirs));
    CHECK(theirs > 0 && theirs <= MOST);
    for (int to = 0; to < theirs; ++to)
        for (int s = 0; s < 2; ++s, ++n) {
            out[n] = kit_alloc((size_t)sizes[s]);
            kit_fill(out[n], (size_t)sizes[s], seed(name, me, other, to, sizes[s]));
            OK(MPI_Isend(out[n], sizes[s], MPI_BYTE, to, s, inter, &requests[n]));
        }
    /* The small ones as they come, the large ones in turn. */
    for (int i = 0; i < 2 * theirs; ++i) {
        int s = i / theirs, from = s ? i - theirs : MPI_ANY_SOURCE;
        if (!s) OK(MPI_Probe(MPI_ANY_SOURCE, 0, inter, &status));
        OK(MPI_Recv(in, LARGE, MPI_BYTE, from, s, inter, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        SAME(count, sizes[s]);
        SAME(status.MPI_TAG, s);
        HOLDS(in, (size_t)sizes[s], seed(other, status.MPI_SOURCE, name, me, sizes[s]));
    }
    OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; ++i) free(out[i]);
    free(in);
    if (me == 0) {
        int to[20], from[20];
        MPI_Datatype every_second;
        OK(MPI_Type_vector(10, 1, 2, MPI_INT, &every_second));
        OK(MPI_Type_commit(&every_second));
        for (int i = 0; i < 20; ++i) to[i] = on_left * 100 + i, from[i] = -1;
        OK(MPI_Sendrecv(to, 1, every_second, 0, 7, from, 1, every_second, 0, 7, inter, &status));
        for (int i = 0; i < 20; ++i) SAME(from[i], i % 2 ? -1 : !on_left * 100 + i);
        OK(MPI_Type_free(&every_second));
    }
}

/* Who it is that has come, which the one on the right says. */
static void ask(MPI_Comm inter, char other[32])
{
    memset(other, 0, 32);
    if (me == 0 && on_left) OK(MPI_Recv(other, 32, MPI_CHAR, 0, 9, inter, MPI_STATUS_IGNORE));
    if (me == 0 && !on_left) OK(MPI_Send((void *)name, (int)strlen(name) + 1, MPI_CHAR, 0, 9, inter));
    OK(MPI_Bcast(other, 32, MPI_CHAR, 0, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    static char port[PORT_ROOM];
    char path[4096], came[32];
    int by_ports = !strcmp(argv[1], "ports"), handle = -1;
    ports_begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &mine);
    on_left = !strcmp(argv[2], "left");
    name = kit_label = argv[4];
    if (!by_ports) OK(MPI_Conn_register(name, MPI_COMM_WORLD, &handle));
    if (by_ports && on_left && me == 0) {
        snprintf(path, sizeof path, "%s-%s", argv[3], name);
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        port_tell(path, port);
    }
    for (int i = 5; i < argc; ++i) {
        MPI_Comm inter;
        const char *other = argv[i];
        long before = kit_checks;
        if (!by_ports)
            OK(MPI_Conn_intercomm_create(handle, other, &inter));
        else if (on_left) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            ask(inter, came);
            other = came;
        } else {
            char theirs[PORT_ROOM] = "";
            snprintf(path, sizeof path, "%s-%s", argv[3], other);
            if (me == 0) port_hear(path, theirs);
            OK(MPI_Comm_connect(theirs, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            ask(inter, came);
        }
        exchange(inter, other);
        OK(MPI_Comm_disconnect(&inter));
        if (me == 0) printf("PAIR %s %ld\n", other, kit_checks - before);
    }
    if (by_ports && on_left && me == 0) OK(MPI_Close_port(port));
    if (!by_ports) OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
