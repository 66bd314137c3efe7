/* Neither side's waiting may starve the other kind of traffic.
 *
 * `progress ours ME`   (2 ranks, with `freer`): rank 0 blocks in a call on the inter-communicator, or asks again and again;
 *                      its native traffic with rank 1 must finish all the same, for only then does rank 1 have it
 *                      freed.
 * `progress native ME` (2 ranks, with `taker`): rank 0 sits in a native Barrier; its transfer of 64 MiB on the
 *                      inter-communicator must finish all the same, for only then does rank 1 enter the barrier.
 * A fault shows as a hang, which the harness ends. */
#include "kit.h"

enum { LARGE = 8 << 20, OURS = 64 << 20, FREE = 90, RUNG = 91 };
enum call { RECV, RECV_ANY, PROBE, SENDRECV, SEND, SSEND, WAIT, WAITALL, WAITANY, WAITSOME, IPROBE, TEST, TESTALL, TESTANY,
            TESTSOME, CALLS };
static const char *const names[CALLS] = {"Recv",     "Recv any", "Probe",   "Sendrecv", "Send",
                                         "Ssend",    "Wait",     "Waitall", "Waitany",  "Waitsome",
                                         "Iprobe",   "Test",     "Testall", "Testany",  "Testsome"};

static int me, handle;
static MPI_Comm inter;
static char *large[2], *ours;

static int sends(enum call call) { return call == SEND || call == SSEND; }

/* Asks in a loop that calls nothing else. */
static void poll(enum call call, MPI_Request *request)
{
    MPI_Status status, statuses[4];
    int flag = 0, index = -1, indices[4];
    while (!flag) switch (call) {
        case IPROBE: POLL(MPI_Iprobe(0, FREE, inter, &flag, &status)); break;
        case TEST: POLL(MPI_Test(request, &flag, &status)); break;
        case TESTALL: POLL(MPI_Testall(4, request, &flag, statuses)); break;
        case TESTANY: POLL(MPI_Testany(4, request, &index, &flag, &status)); break;
        default: POLL(MPI_Testsome(4, request, &flag, indices, statuses));
        }
}

/* Rank 0: native operations begun, then asleep in one of our calls until freed, or awake in a loop of them. */
static void blocked(enum call call)
{
    int in = -1, out = 5, small_in = -1, index, n, indices[4];
    MPI_Status status, statuses[4];
    MPI_Request native[5], request[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    memset(large[1], 0, LARGE);
    kit_fill(large[0], LARGE, 1000 + call);
    OK(MPI_Irecv(&small_in, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &native[0]));   /* for rank 1's Ssend */
    OK(MPI_Issend(&out, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &native[1]));       /* to rank 1's posted receive */
    OK(MPI_Issend(large[0], LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &native[2])); /* rendezvous, both ways */
    OK(MPI_Irecv(large[1], LARGE, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &native[3]));
#ifdef LAM_MPI
    native[4] = MPI_REQUEST_NULL;
#else
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &native[4]));
#endif
    kit_write(kit_path("blocked-%d", call), "");

    switch (call) {
    case RECV:
    case RECV_ANY:
        OK(MPI_Recv(&in, 1, MPI_INT, call == RECV ? 0 : MPI_ANY_SOURCE, FREE, inter, &status));
        break;
    case PROBE:
        OK(MPI_Probe(0, FREE, inter, &status));
        OK(MPI_Recv(&in, 1, MPI_INT, 0, FREE, inter, &status));
        break;
    case SENDRECV:
        OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, RUNG, &in, 1, MPI_INT, 0, FREE, inter, &status));
        break;
    case SEND:
        OK(MPI_Send(ours, LARGE, MPI_BYTE, 0, RUNG, inter));
        break;
    case SSEND:
        OK(MPI_Ssend(ours, 1, MPI_BYTE, 0, RUNG, inter));
        break;
    case IPROBE:
        poll(call, request);
        OK(MPI_Recv(&in, 1, MPI_INT, 0, FREE, inter, &status));
        break;
    case TEST:
    case TESTALL:
    case TESTANY:
    case TESTSOME:
        OK(MPI_Irecv(&in, 1, MPI_INT, 0, FREE, inter, &request[0]));
        poll(call, request);
        CHECK(request[0] == MPI_REQUEST_NULL);
        break;
    default:
        OK(MPI_Irecv(&in, 1, MPI_INT, 0, FREE, inter, &request[call == WAIT ? 0 : 2]));
        if (call == WAIT)
            OK(MPI_Wait(&request[0], &status));
        else if (call == WAITALL) {
            request[1] = native[4]; /* a native one among them */
            native[4] = MPI_REQUEST_NULL;
            OK(MPI_Waitall(4, request, statuses));
        } else if (call == WAITANY) {
            OK(MPI_Waitany(4, request, &index, &status));
            SAME(index, 2);
        } else {
            OK(MPI_Waitsome(4, request, &n, indices, statuses));
            SAME(n, 1);
            SAME(indices[0], 2);
        }
    }
    if (!sends(call)) SAME(in, 100 + call);
    OK(MPI_Waitall(5, native, MPI_STATUSES_IGNORE));
    SAME(small_in, 6);
    HOLDS(large[1], LARGE, 2000 + call);
}

/* Rank 1: everything native with rank 0 must finish before rank 0 is freed. */
static void frees(enum call call)
{
    int in = -1, out = 6, word = call;
    MPI_Request native[4];
    memset(large[1], 0, LARGE);
    kit_fill(large[0], LARGE, 2000 + call);
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &native[0]));
    /* Rank 0 is about to block. What follows finds it spinning at first, asleep in later rounds. */
    kit_await(kit_path("blocked-%d", call));
    kit_sleep_ms(20 * (int)call);
    double start = kit_ms();
    OK(MPI_Ssend(&out, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&native[0], MPI_STATUS_IGNORE));
    SAME(in, 5);
#ifdef LAM_MPI
    native[1] = MPI_REQUEST_NULL;
#else
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &native[1]));
#endif
    OK(MPI_Wait(&native[1], MPI_STATUS_IGNORE));
    OK(MPI_Recv(large[1], LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    HOLDS(large[1], LARGE, 1000 + call);
    OK(MPI_Send(large[0], LARGE, MPI_BYTE, 0, 4, MPI_COMM_WORLD));
    printf("CALL %s ms %.1f\n", names[call], kit_ms() - start);
    fflush(stdout);
    OK(MPI_Send(&word, 1, MPI_INT, 0, FREE, inter));
}

/* The other job's only rank: frees rank 0 when rank 1 says so. */
static void freer(void)
{
    for (enum call call = 0; call < CALLS; ++call) {
        int word = -1, in;
        OK(MPI_Recv(&word, 1, MPI_INT, 1, FREE, inter, MPI_STATUS_IGNORE));
        SAME(word, call);
        word = 100 + (int)call;
        if (call == SENDRECV) OK(MPI_Recv(&in, 1, MPI_INT, 0, RUNG, inter, MPI_STATUS_IGNORE));
        if (sends(call)) {
            memset(ours, 0, LARGE);
            OK(MPI_Recv(ours, LARGE, MPI_BYTE, 0, RUNG, inter, MPI_STATUS_IGNORE));
            HOLDS(ours, call == SEND ? LARGE : 1, 55);
        } else
            OK(MPI_Send(&word, 1, MPI_INT, 0, FREE, inter));
    }
}

/* Our large transfers, out and then in, while their owner sits in its own job's barrier. */
static void native_side(void)
{
    int word;
    for (int turn = 0; turn < 2; ++turn) {
        if (me == 0) {
            MPI_Request request;
            kit_fill(ours, OURS, 60);
            if (turn) memset(ours, 0, OURS);
            OK(turn ? MPI_Irecv(ours, OURS, MPI_BYTE, 0, 10, inter, &request)
                    : MPI_Isend(ours, OURS, MPI_BYTE, 0, 10, inter, &request));
            kit_write(kit_path("begun-%d", turn), "");
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            HOLDS(ours, OURS, turn ? 61 : 60);
        } else {
            kit_await(kit_path("begun-%d", turn));
            double start = kit_ms();
            word = turn;
            OK(MPI_Send(&word, 1, MPI_INT, 0, RUNG, inter)); /* it may begin */
            OK(MPI_Recv(&word, 1, MPI_INT, 0, FREE, inter, MPI_STATUS_IGNORE)); /* it has all */
            SAME(word, 7 + turn);
            printf("CALL %s ms %.1f\n", turn ? "64 MiB in" : "64 MiB out", kit_ms() - start);
            fflush(stdout);
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
}
static void taker(void)
{
    int word;
    for (int turn = 0; turn < 2; ++turn) {
        OK(MPI_Recv(&word, 1, MPI_INT, 1, RUNG, inter, MPI_STATUS_IGNORE));
        if (turn == 0) {
            OK(MPI_Recv(ours, OURS, MPI_BYTE, 0, 10, inter, MPI_STATUS_IGNORE));
            HOLDS(ours, OURS, 60);
        } else {
            kit_fill(ours, OURS, 61);
            OK(MPI_Ssend(ours, OURS, MPI_BYTE, 0, 10, inter));
        }
        word = 7 + turn;
        OK(MPI_Send(&word, 1, MPI_INT, 1, FREE, inter));
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    kit_rank = me;
    kit_label = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Conn_register(argv[2], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[3], &inter));
    large[0] = kit_alloc(LARGE);
    large[1] = kit_alloc(LARGE);
    ours = kit_alloc(OURS);
    kit_fill(ours, LARGE, 55);

    if (!strcmp(argv[1], "ours"))
        for (enum call call = 0; call < CALLS; ++call) {
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (me == 0)
                blocked(call);
            else
                frees(call);
        }
    else if (!strcmp(argv[1], "freer"))
        freer();
    else if (!strcmp(argv[1], "native"))
        native_side();
    else
        taker();

    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
