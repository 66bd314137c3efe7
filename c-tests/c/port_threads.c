/* `port_threads server|client PATH`: several threads of one process meet several of the other at the same port, at the same
 * time, each over a communicator of its own. */
#include "ports.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 25, WORDS = 80000 };

static int serves;
static char port[PORT_ROOM];
static MPI_Comm comms[THREADS];

/* Whom it meets is up to chance; they stay together for a round. */
static void *meets(void *number)
{
    int me = (int)(intptr_t)number, *words = kit_alloc(WORDS * sizeof(int));
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Comm inter = MPI_COMM_NULL;
        int who[2] = {me, round}, first;
        if (serves) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, comms[me], &inter));
            OK(MPI_Recv(who, 2, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
            for (int k = 0; k < WORDS; ++k) words[k] = who[0] * 1000 + who[1];
            OK(MPI_Send(words, WORDS, MPI_INT, 0, 2, inter));
        } else {
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, comms[me], &inter));
            OK(MPI_Send(who, 2, MPI_INT, 0, 1, inter));
            OK(MPI_Recv(words, WORDS, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE));
            for (first = 0; first < WORDS && words[first] == me * 1000 + round; ++first) {}
            SAME(first, WORDS);
        }
        OK(MPI_Comm_disconnect(&inter));
    }
    free(words);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    kit_label = argv[1];
    kit_rank = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(argc == 3 && provided == MPI_THREAD_MULTIPLE);
    serves = !strcmp(argv[1], "server");
    if (serves) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        port_tell(argv[2], port);
    } else
        port_hear(argv[2], port);
    for (int k = 0; k < THREADS; ++k) OK(MPI_Comm_dup(MPI_COMM_SELF, &comms[k]));
    for (int k = 0; k < THREADS; ++k) pthread_create(&threads[k], NULL, meets, (void *)(intptr_t)k);
    for (int k = 0; k < THREADS; ++k) pthread_join(threads[k], NULL);
    for (int k = 0; k < THREADS; ++k) OK(MPI_Comm_free(&comms[k]));
    if (serves) OK(MPI_Close_port(port));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
