/* 100,000 messages that nobody has asked for: `flood sender|receiver isend|send MINE THEIRS`. The receiver looks at the
 * first one only when told. Both print how far their memory grew beyond what the program itself holds. */
#include "kit.h"

enum { MESSAGES = 100000, BYTES = 1024 };

static long rss_at_start;

/* From here on the peak counts. */
static void mark(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f || fputs("5", f) < 0 || fclose(f)) {
        perror("/proc/self/clear_refs");
        _exit(1);
    }
    rss_at_start = kit_status_kib("VmRSS");
}

int main(int argc, char **argv)
{
    int me, handle, flag = 0, word = 0, sending, blocking;
    MPI_Comm inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    kit_rank = me;
    kit_label = argv[1];
    sending = !strcmp(argv[1], "sender");
    blocking = !strcmp(argv[2], "send");
    OK(MPI_Conn_register(argv[3], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[4], &inter));

    char *messages = kit_alloc((size_t)(sending ? MESSAGES : 1) * BYTES);
    MPI_Request *requests = kit_alloc(MESSAGES * sizeof *requests);
    if (sending)
        for (int i = 0; i < MESSAGES; ++i) kit_fill(messages + (size_t)i * BYTES, BYTES, (uint64_t)i);
    /* A path that has carried something, so that its own set-up is not counted. */
    OK(MPI_Sendrecv(&me, 1, MPI_INT, 0, 1, &word, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    mark();

    if (sending) {
        for (int i = 0; i < MESSAGES; ++i) {
            char *message = messages + (size_t)i * BYTES;
            if (blocking)
                OK(MPI_Send(message, BYTES, MPI_BYTE, 0, 2, inter));
            else
                OK(MPI_Isend(message, BYTES, MPI_BYTE, 0, 2, inter, &requests[i]));
            /* A blocking sender stops somewhere after the credit that it has. */
            if (i == (blocking ? 500 : MESSAGES - 1)) kit_write(kit_path("flooded"), "");
        }
        if (!blocking) OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    } else {
        kit_await(kit_path("flooded"));
        /* A program that looks for something else lets more of the flood in: bounded as well. */
        for (int i = 0; i < 1000; ++i) {
            OK(MPI_Iprobe(0, 3, inter, &flag, MPI_STATUS_IGNORE));
            SAME(flag, 0);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Status status;
            OK(MPI_Recv(messages, BYTES, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, 2, inter, &status));
            HOLDS(messages, BYTES, (uint64_t)i);
        }
    }
    printf("FLOOD %s %s start %ld KiB grew %ld KiB\n", argv[1], argv[2], rss_at_start,
           kit_status_kib("VmHWM") - rss_at_start);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
