/* `port_rounds server|client PATH FIRST ROUNDS`: two jobs meet at one port and part, so many times. What a process has after
 * FIRST rounds is what it has after all of them. */
#define _GNU_SOURCE
#include "having.h"
#include "ports.h"
#include <sys/prctl.h>

static MPI_Comm inter = MPI_COMM_NULL;
static int me;

/* Both sides have come as far. */
static void meet(void)
{
    int out = 31000, in = -1;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, me, 1, &in, 1, MPI_INT, me, 1, inter, MPI_STATUS_IGNORE));
    SAME(in, out);
}

int main(int argc, char **argv)
{
    char port[PORT_ROOM] = "", message[4000], got[4000];
    struct having then = {0}, now = {0};
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* memory is counted by the page */
    ports_begin(&argc, &argv);
    if (argc != 5) {
        fprintf(stderr, "port_rounds server|client PATH FIRST ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int serves = !strcmp(argv[1], "server"), first = atoi(argv[3]), rounds = atoi(argv[4]);
    if (serves && !me) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        port_tell(argv[2], port);
    } else if (!me)
        port_hear(argv[2], port);
    long free_before = 0;
    double start = kit_ms();
    for (int round = 1; round <= rounds; ++round) {
        uint64_t seed = (uint64_t)round * 2;
        if (serves) OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        else OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        kit_fill(message, sizeof message, seed + (unsigned)serves);
        OK(MPI_Sendrecv(message, sizeof message, MPI_BYTE, me, 2, got, sizeof got, MPI_BYTE, me, 2, inter, MPI_STATUS_IGNORE));
        HOLDS(got, sizeof got, seed + (unsigned)!serves);
        if (round == first) then = look_together(meet, round, NULL);
        if (round == rounds) now = look_together(meet, round, &then);
        OK(MPI_Comm_disconnect(&inter));
        if (round == 1) free_before = communicators(); /* the library has made its own by now */
    }
    no_more(&now, &then);
    CHECK(now.threads <= then.threads, "%ld threads, not %ld: %s", now.threads, then.threads, thread_names());
    SAME(communicators(), free_before);
    printf("GREW %ld %ld\nTOOK %.0f\n", now.resident_kib - then.resident_kib, now.allocated_kib - then.allocated_kib,
           (kit_ms() - start) * 1e3 / rounds);
    if (serves && !me) OK(MPI_Close_port(port));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
