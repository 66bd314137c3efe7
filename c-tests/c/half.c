/* One half of a pair of jobs: c-tests/python/half.py does the same in Python.
 *
 *     half MINE THEIRS SIDE
 */
#include "kit.h"

static int side, peer;
static MPI_Comm other;
static double out[300000], back[300001];

static double value(int seed, int i) { return seed * 1000.0 + i % 997; }

static const double *values(int seed, int n)
{
    for (int i = 0; i < n; ++i) out[i] = value(seed, i);
    return out;
}

static void holds(const double *got, int seed, int n)
{
    for (int i = 0; i < n; ++i) CHECK(got[i] == value(seed, i), "%g at %d", got[i], i);
}

static void send(int seed, int n, int tag) { OK(MPI_Send((void *)values(seed, n), n, MPI_DOUBLE, peer, tag, other)); }

static void receive(int seed, int n, int source, int tag)
{
    MPI_Status status;
    int count = -1;
    OK(MPI_Recv(back, n + 1, MPI_DOUBLE, source, tag, other, &status));
    SAME(status.MPI_SOURCE, peer);
    SAME(status.MPI_TAG, tag);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    SAME(count, n);
    holds(back, seed, n);
}

static void blocking(void)
{
    const int sizes[] = {0, 1, 1000, 200000};
    for (int tag = 0; tag < 4; ++tag) {
        if (side == 0) send(0, sizes[tag], tag);
        receive(1 - side, sizes[tag], MPI_ANY_SOURCE, tag);
        if (side == 1) send(1, sizes[tag], tag);
    }
}

static void nonblocking(void)
{
    const int sizes[] = {3, 5000, 300000};
    double *outs[3], *backs[3];
    MPI_Request requests[6];
    for (int i = 0; i < 3; ++i) {
        outs[i] = kit_alloc(sizeof(double) * sizes[i]);
        memcpy(outs[i], values(side + 2, sizes[i]), sizeof(double) * sizes[i]);
        backs[i] = kit_alloc(sizeof(double) * sizes[i]);
        OK(MPI_Irecv(backs[i], sizes[i], MPI_DOUBLE, peer, i, other, &requests[i]));
        OK(MPI_Issend(outs[i], sizes[i], MPI_DOUBLE, peer, i, other, &requests[3 + i]));
    }
    OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; ++i) holds(backs[i], 3 - side, sizes[i]);
    OK(MPI_Irecv(backs[1], sizes[1], MPI_DOUBLE, peer, 9, other, &requests[0]));
    OK(MPI_Send(outs[1], sizes[1], MPI_DOUBLE, peer, 9, other));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    holds(backs[1], 3 - side, sizes[1]);
    for (int i = 0; i < 3; ++i) {
        free(outs[i]);
        free(backs[i]);
    }
}

/* Twice: the Python half probes in two ways. */
static void probes(void)
{
    int n = 77 + kit_rank;
    for (int i = 0; i < 2; ++i) {
        if (side == 0) send(4, n, 5);
        MPI_Status status;
        OK(MPI_Probe(peer, 5, other, &status));
        receive(5 - side, n, status.MPI_SOURCE, status.MPI_TAG);
        if (side == 1) send(5, n, 5);
    }
}

static void exchange(void)
{
    OK(MPI_Sendrecv((void *)values(side + 6, 100), 100, MPI_DOUBLE, peer, 0, back, 100, MPI_DOUBLE, peer, 0, other,
                    MPI_STATUS_IGNORE));
    holds(back, 7 - side, 100);
    MPI_Datatype third;
    OK(MPI_Type_vector(10, 1, 3, MPI_DOUBLE, &third));
    OK(MPI_Type_commit(&third));
    OK(MPI_Sendrecv((void *)values(side + 8, 30), 1, third, peer, 0, back, 10, MPI_DOUBLE, peer, 0, other,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < 10; ++i) CHECK(back[i] == value(9 - side, 3 * i), "%g at %d", back[i], i);
    OK(MPI_Type_free(&third));
}

static void errors(void)
{
    if (side == 0) send(0, 10, 3);
    REFUSED(MPI_Recv(back, 4, MPI_DOUBLE, peer, 3, other, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    if (side == 1) send(1, 10, 3);
}

int main(int argc, char **argv)
{
    int handle = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    side = atoi(argv[3]);
    peer = kit_rank;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    blocking();
    nonblocking();
    probes();
    exchange();
    errors();
    OK(MPI_Comm_free(&other));
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
