/* Loops of native calls under callgrind, one process: what a call costs, to the instruction. Each loop is run N and 2N
 * times and its totals dumped apart, so that the difference is that of N calls and nothing else. */
#include "kit.h"
#include <valgrind/callgrind.h>

enum { N = 2000 };

int main(int argc, char **argv)
{
    int word = 0, in = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
#define LOOP(label, ...) \
    for (int times = N; times <= 2 * N; times += N) { \
        for (int i = 0; i < 10; ++i) { __VA_ARGS__; } \
        CALLGRIND_ZERO_STATS; \
        for (int i = 0; i < times; ++i) { __VA_ARGS__; } \
        CALLGRIND_DUMP_STATS_AT(times == N ? label " once" : label " twice"); \
    }
    LOOP("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, &word))
    LOOP("MPI_Send", MPI_Send(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD))
    LOOP("MPI_Recv", MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
    request = MPI_REQUEST_NULL;
    LOOP("MPI_Wait", MPI_Wait(&request, MPI_STATUS_IGNORE))
    MPI_Finalize();
    return 0;
}
