/* Instructions of calls on an inter-communicator, one process: `message_cost`, and beside it its partner: `message_cost
 * partner`. What waits is not counted. Messages go in windows, so that there is room for all of each. */
#include "cost.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Few messages, and each count several times: the library's own thread, which a busy machine lets run meanwhile, then leaves some of them alone. */
enum { WINDOW = 64, WORD = 1, LAST = 2, FEW = 4 * WINDOW, ROUNDS = 32, OTHERS = 1000 };
/* The counts of a call: a few, twice as many, and again. */
#define COUNTS(times) for (int round = 0; round < ROUNDS; ++round) for (int times = FEW; times <= 2 * FEW; times += FEW)

static MPI_Comm inter;
static int64_t words[2 * FEW];
static MPI_Request requests[WINDOW];
/* How many windows the partner has sent. It is looked at without a call, in which the library's own thread would run. */
static volatile int *sent;

static void share(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/sent", getenv("MPI_CONNECT_TEST_DIR"));
    int file = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && !ftruncate(file, sizeof *sent), "no word can be shared");
    sent = mmap(NULL, sizeof *sent, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(sent != MAP_FAILED, "no word can be shared");
    close(file);
}

/* A message that tells nothing: all that was sent before has come. */
static void hear_last(void) { OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, LAST, inter, MPI_STATUS_IGNORE)); }
static void tell_last(void) { OK(MPI_Send(NULL, 0, MPI_BYTE, 0, LAST, inter)); }

/* Windows of messages, which are counted, and between them what is not. */
#define WINDOWS(call, before, counted) WINDOWS_OF(WINDOW, call, before, counted)
#define WINDOWS_OF(window, call, before, counted) \
    COUNTS(times) { \
        cost_begin(call, times / FEW * N, 1); \
        for (int i = 0; i < times; i += window) { \
            int n = times - i < window ? times - i : window; \
            CALLGRIND_TOGGLE_COLLECT; \
            before; \
            CALLGRIND_TOGGLE_COLLECT; \
            counted; \
        } \
        cost_end(); \
    }
#define EACH(...) for (int k = 0; k < n; ++k) __VA_ARGS__

static void measure(void)
{
    int windows = 0;
    /* The partner has room again. */
    WINDOWS("Send", { tell_last(); hear_last(); }, EACH(MPI_Send(&words[k], 8, MPI_BYTE, 0, WORD, inter)))
    WINDOWS("Isend", { tell_last(); hear_last(); }, {
        EACH(MPI_Isend(&words[k], 8, MPI_BYTE, 0, WORD, inter, &requests[k]));
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    })
    /* Unexpected: they have come before they are received. */
    WINDOWS("Recv", { tell_last(); hear_last(); }, EACH(MPI_Recv(&words[k], 8, MPI_BYTE, 0, WORD, inter, MPI_STATUS_IGNORE)))
    /* The same without any wait in between: the second half of a long row. */
    WINDOWS_OF(times, "Recv_on", { tell_last(); hear_last(); }, EACH(MPI_Recv(&words[k], 8, MPI_BYTE, 0, WORD, inter, MPI_STATUS_IGNORE)))
    /* Posted: they come after that, and are there before anybody waits. */
    WINDOWS("Irecv", {}, {
        EACH(MPI_Irecv(&words[k], 8, MPI_BYTE, 0, WORD, inter, &requests[k]));
        CALLGRIND_TOGGLE_COLLECT;
        tell_last();
        for (++windows; *sent < windows;) {}
        CALLGRIND_TOGGLE_COLLECT;
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    })
}

static void serve(void)
{
    enum { SEND, ISEND, RECV, RECV_ON, IRECV, CALLS };
    for (int call = SEND; call < CALLS; ++call)
        COUNTS(times)
            for (int i = 0, window = call == RECV_ON ? times : WINDOW; i < times; i += window) {
                int n = times - i < window ? times - i : window;
                hear_last();
                if (call >= RECV) EACH(OK(MPI_Send(words, 8, MPI_BYTE, 0, WORD, inter)));
                if (call == IRECV) {
                    ++*sent;
                    continue;
                }
                tell_last();
                if (call < RECV) EACH(OK(MPI_Recv(words, 8, MPI_BYTE, 0, WORD, inter, MPI_STATUS_IGNORE)));
            }
}

/* Many more come and go: what the library has at hand for each must be there for the one that is used. */
static void others(void)
{
    MPI_Comm others[OTHERS];
    for (int i = 0; i < OTHERS; ++i) OK(MPI_Comm_dup(inter, &others[i]));
    for (int i = 0; i < OTHERS; ++i) OK(MPI_Comm_free(&others[i]));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int is_partner = argc > 1;
    share();
    cost_join(is_partner ? "ocean" : "air", is_partner ? "air" : "ocean");
    inter = cost_inters[0];
    others();
    is_partner ? serve() : measure();
    cost_part();
    MPI_Finalize();
    return kit_failures != 0;
}
