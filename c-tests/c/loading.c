/* What a program gets of MPI by the way in which it was loaded: built as a program, or as a library for host.c.
 *
 * loading NAME OTHER [LIBRARY]: registers, joins OTHER, swaps a value with it. LIBRARY: every function is looked up
 * in it, as languages do that call C by library and symbol. */
#include "kit.h"

#include <dlfcn.h>

static void *from;

#define CALL(name) ((__typeof__(&name))(from ? dlsym(from, #name) : (void *)name))

int main(int argc, char **argv)
{
    int handle = 0, rank, size, in = -1, out;
    MPI_Comm other;
    if (argc > 3) {
        from = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
        if (!from) {
            printf("FAIL %s\n", dlerror());
            return 1;
        }
    }
    CALL(MPI_Init)(NULL, NULL);
    CALL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
#ifdef KIT_NATIVE
    (void)handle, (void)in, (void)out, (void)other;
    printf("ALONE %d of %d\n", rank, size);
#else
    /* Where the library that is looked in has no such call, the preloaded one has. */
    __typeof__(&MPI_Conn_register) enter = from ? CALL(MPI_Conn_register) : NULL;
    if (!enter) enter = MPI_Conn_register;
    if (!enter) {
        printf("ALONE %d of %d\n", rank, size);
    } else {
        /* Errors are fatal, as they are by default. */
        enter(argv[1], MPI_COMM_WORLD, &handle);
        CALL(MPI_Conn_intercomm_create)(handle, argv[2], &other);
        out = 100 + rank;
        CALL(MPI_Sendrecv)(&out, 1, MPI_INT, rank, 7, &in, 1, MPI_INT, rank, 7, other, MPI_STATUS_IGNORE);
        CALL(MPI_Comm_free)(&other);
        CALL(MPI_Conn_remove)(handle);
        printf("GOT %d on %d of %d\n", in, rank, size);
    }
#endif
    CALL(MPI_Finalize)();
    return 0;
}
