/* Instructions of native calls in C, one process: `cost`, and beside it its partner: `cost partner`. */
#include "cost.h"

enum { MANY = 64 };

#define LOOP(call, ...) \
    for (int times = N; times <= 2 * N; times += N) { \
        for (int i = 0; i < 10; ++i) { __VA_ARGS__; } \
        cost_begin(call, times, joined); \
        for (int i = 0; i < times; ++i) { __VA_ARGS__; } \
        cost_end(); \
    }

static void loops(int joined)
{
    int word = 0, in = 0;
    MPI_Request request = MPI_REQUEST_NULL, many[MANY];
    for (int i = 0; i < MANY; ++i) many[i] = MPI_REQUEST_NULL;
    LOOP("Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, &word))
    LOOP("Send", MPI_Send(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD))
    LOOP("Recv", MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
    LOOP("Wait", MPI_Wait(&request, MPI_STATUS_IGNORE))
    LOOP("Waitall", MPI_Waitall(MANY, many, MPI_STATUSES_IGNORE))
    LOOP("Allreduce", MPI_Allreduce(&word, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD))
    /* It is ended too, without being counted. */
    LOOP("Isend", MPI_Isend(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request); CALLGRIND_TOGGLE_COLLECT;
         MPI_Wait(&request, MPI_STATUS_IGNORE); CALLGRIND_TOGGLE_COLLECT)
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1)
        cost_join("ocean", "air");
    else {
        loops(0);
        cost_join("air", "ocean");
        loops(1);
    }
    cost_part();
    MPI_Finalize();
    return kit_failures != 0;
}
