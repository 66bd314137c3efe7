/* For which fences MPI_Init has registered this process with the kernel: it says so, in bits (Linux 6.3), or -1. Joins nothing. */
#include "kit.h"
#include <linux/membarrier.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    enum { GET_REGISTRATIONS = 1 << 9 };
    MPI_Init(&argc, &argv);
    long registered = syscall(SYS_membarrier, GET_REGISTRATIONS, 0, 0);
    int all = MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    CHECK(registered < 0 || (registered & all) == all, "registered for %ld of %d", registered, all);
    MPI_Finalize();
    return kit_failures != 0;
}
