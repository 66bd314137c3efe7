/* What programs have in common that count the instructions of native calls under callgrind, in C and in Fortran. Each call
 * is made N and 2N times in a row and the totals are dumped apart, so that the difference is that of N calls and nothing
 * else: first with no inter-communicator, then with ten. */
#ifndef COST_H
#define COST_H

#include "kit.h"
#include <valgrind/callgrind.h>

enum { N = 2000, JOINED = 10 };

static MPI_Comm cost_inters[JOINED];
static MPI_Request cost_pending;
static int cost_handle;
static char cost_label[64];

/* Until then the label is what the dump is known by. */
UNUSED static void cost_begin(const char *call, int times, int joined)
{
    snprintf(cost_label, sizeof cost_label, "%s %s %s", call, times == N ? "once" : "twice", joined ? "ten" : "none");
    CALLGRIND_ZERO_STATS;
}

UNUSED static void cost_end(void) { CALLGRIND_DUMP_STATS_AT(cost_label); }

/* From here on there are ten inter-communicators with the partner, if the library is there. It keeps a receive pending,
 * which makes calls of some MPIs longer; so there is one without the library too. */
UNUSED static void cost_join(const char *mine, const char *theirs)
{
    static int nothing;
    if (MPI_Conn_register) {
        OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &cost_handle));
        OK(MPI_Conn_intercomm_create(cost_handle, theirs, &cost_inters[0]));
        for (int i = 1; i < JOINED; ++i) OK(MPI_Comm_dup(cost_inters[0], &cost_inters[i]));
    } else {
        OK(MPI_Comm_dup(MPI_COMM_SELF, &cost_inters[0]));
        OK(MPI_Irecv(&nothing, 1, MPI_INT, 0, 0, cost_inters[0], &cost_pending));
    }
}

UNUSED static void cost_part(void)
{
    int word = 0;
    if (MPI_Conn_register) {
        /* When both have come here. */
        OK(MPI_Sendrecv(&word, 1, MPI_INT, 0, 0, &word, 1, MPI_INT, 0, 0, cost_inters[JOINED - 1], MPI_STATUS_IGNORE));
        for (int i = 0; i < JOINED; ++i) OK(MPI_Comm_free(&cost_inters[i]));
        OK(MPI_Conn_remove(cost_handle));
    } else {
        OK(MPI_Cancel(&cost_pending));
        OK(MPI_Wait(&cost_pending, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&cost_inters[0]));
    }
}

#endif
