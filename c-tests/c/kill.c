/* A peer is killed while a call waits for it: `kill survivor STATE` on ten ranks, ten jobs `kill victim STATE K`.
 *
 * Survivor k is joined to victim k alone, by names of their own, and waits for it in the k-th blocking call. It kills
 * its victim itself, once that has reached STATE, and measures how long its call goes on after that. The victims are
 * jobs of one rank, since a launcher takes the other ranks along when some are killed. */
#include "kit.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum call { RECV, RECV_ANY, SEND, SSEND, SENDRECV, PROBE, WAIT, WAITALL, WAITANY, WAITSOME, CALLS };
static const char *const call_names[CALLS] = {"Recv",  "Recv any", "Send", "Ssend",   "Sendrecv",
                                              "Probe", "Wait",     "Waitall", "Waitany", "Waitsome"};
enum state { UNTOUCHED, IDLE, EAGER, RTS, INCOMING, OUTGOING, COMPLETED, STATES };
static const char *const state_names[STATES] = {"untouched", "idle",     "eager",    "rts",
                                                "incoming",  "outgoing", "completed"};
enum { SMALL = 1 << 10, MIDDLE = 1 << 20, HUGE = 128 << 20, LIMIT_MS = 20000 };
enum { NEVER = 1, NEVER_TOO = 2, SENT = 50, PING = 60, UNMATCHED = 99, BIG = 98 };

/* Ten survivors and their victims have to share the processors: none polls without a rest. A transfer takes far longer. */
static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); }

static int me, handle;
static MPI_Comm inter;
static enum state state;
static char *huge; /* its first byte tells that the transfer has begun */

/* How the victim of OUTGOING fell, in memory that both sides have. */
struct fall {
    volatile double at;
    volatile int whole, fell;
};

static struct fall *share_fall(void)
{
    int fd = open(kit_path("fall-%d", me), O_RDWR | O_CREAT, 0600);
    void *page = MAP_FAILED;
    if (fd < 0 || ftruncate(fd, sizeof(struct fall)) ||
        (page = mmap(NULL, sizeof(struct fall), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        perror("fall");
    CHECK(page != MAP_FAILED);
    if (page == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 1);
    close(fd);
    return page;
}

static void victim(void)
{
    char word = 0, *buffer = kit_alloc(MIDDLE);
    MPI_Request request;
    kit_fill(buffer, MIDDLE, 7);
    if (state == IDLE || state == COMPLETED) {
        OK(MPI_Recv(&word, 1, MPI_CHAR, 0, PING, inter, MPI_STATUS_IGNORE));
        OK(MPI_Send(&word, 1, MPI_CHAR, 0, PING, inter));
    }
    if (state == EAGER) OK(MPI_Isend(buffer, SMALL, MPI_BYTE, 0, UNMATCHED, inter, &request));
    if (state == RTS) OK(MPI_Isend(buffer, MIDDLE, MPI_BYTE, 0, UNMATCHED, inter, &request));
    if (state == COMPLETED) {
        OK(MPI_Send(buffer, MIDDLE, MPI_BYTE, 0, BIG, inter));
        OK(MPI_Recv(buffer, MIDDLE, MPI_BYTE, 0, BIG, inter, MPI_STATUS_IGNORE));
    }
    if (state == INCOMING) {
        memset(huge, 1, HUGE);
        OK(MPI_Recv(&word, 1, MPI_CHAR, 0, PING, inter, MPI_STATUS_IGNORE));
        OK(MPI_Isend(huge, HUGE, MPI_BYTE, 0, BIG, inter, &request));
    }
    if (state == OUTGOING) {
        struct fall *fall = share_fall();
        memset(huge, 0, HUGE);
        OK(MPI_Irecv(huge, HUGE, MPI_BYTE, 0, BIG, inter, &request));
        OK(MPI_Send(&word, 1, MPI_CHAR, 0, PING, inter));
        while (!*(volatile char *)huge) nap();
        /* Somebody else may have had the processor meanwhile, and the rest may be there too. */
        fall->at = kit_ms();
        fall->whole = ((volatile char *)huge)[HUGE - 1] == 1;
        fall->fell = 1;
        raise(SIGKILL);
    }
    for (;;) pause();
}

/* The killer watches from a thread: it never calls MPI. */
static pid_t prey;
static volatile int armed, returned;
static volatile double killed_at;
static struct fall *fall;

static void *killer(void *unused)
{
    while (!armed) kit_sleep_ms(1);
    if (state == OUTGOING) {
        /* The victim falls by itself, when the first byte reaches it. */
        for (int i = 0; !fall->fell; ++i) {
            if (i > LIMIT_MS + 30000) {
                printf("KILL %s %s: the victim stands\n", state_names[state], call_names[me]);
                fflush(stdout);
                _exit(3);
            }
            kit_sleep_ms(1);
        }
        killed_at = fall->at;
    } else {
        if (state == INCOMING)
            while (!*(volatile char *)huge) nap();
        else
            kit_sleep_ms(150); /* the call is to be found waiting, not starting */
        killed_at = kit_ms();
        kill(prey, SIGKILL);
    }
    for (int i = 0; !returned; ++i) {
        if (i > LIMIT_MS + 3000) {
            printf("KILL %s %s HANG\n", state_names[state], call_names[me]);
            fflush(stdout);
            _exit(3);
        }
        kit_sleep_ms(1);
    }
    return unused;
}

static void survivor(void)
{
    char word = 0, *buffer = kit_alloc(8 * MIDDLE);
    MPI_Request big = MPI_REQUEST_NULL, requests[5];
    MPI_Status status, statuses[5];
    int flag = 0, native = -1, index = -1, n = 0, indices[5], code = MPI_SUCCESS, whole = 0;
    pthread_t thread;

    for (int i = 0; i < 5; ++i) requests[i] = MPI_REQUEST_NULL;
    kit_fill(buffer, MIDDLE, 7);
    if (state == IDLE || state == COMPLETED) {
        OK(MPI_Send(&word, 1, MPI_CHAR, 0, PING, inter));
        OK(MPI_Recv(&word, 1, MPI_CHAR, 0, PING, inter, MPI_STATUS_IGNORE));
    }
    if (state == EAGER || state == RTS)
        for (;; nap()) {
            POLL(MPI_Iprobe(0, UNMATCHED, inter, &flag, &status));
            if (flag) break;
        }
    if (state == COMPLETED) {
        memset(buffer, 0, MIDDLE);
        OK(MPI_Recv(buffer, MIDDLE, MPI_BYTE, 0, BIG, inter, &status));
        HOLDS(buffer, MIDDLE, 7);
        OK(MPI_Send(buffer, MIDDLE, MPI_BYTE, 0, BIG, inter));
    }

    char path[4096], text[32] = "";
    snprintf(path, sizeof path, "%s", kit_path("pid-%d", me));
    kit_await(path);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(text, sizeof text, f)) perror(path);
    if (f) fclose(f);
    prey = (pid_t)atoi(text);
    CHECK(prey > 1);
    if (prey <= 1) MPI_Abort(MPI_COMM_WORLD, 1);
    if (state == OUTGOING) fall = share_fall();
    pthread_create(&thread, NULL, killer, NULL);

    if (state == INCOMING) {
        memset(huge, 0, HUGE);
        OK(MPI_Irecv(huge, HUGE, MPI_BYTE, 0, BIG, inter, &big));
        OK(MPI_Send(&word, 1, MPI_CHAR, 0, PING, inter));
    }
    if (state == OUTGOING) {
        memset(huge, 1, HUGE);
        OK(MPI_Recv(&word, 1, MPI_CHAR, 0, PING, inter, MPI_STATUS_IGNORE));
        OK(MPI_Isend(huge, HUGE, MPI_BYTE, 0, BIG, inter, &big));
    }

    /* A message that never comes, a native one that nobody sends, the large transfer if there is one. */
    if (me >= WAIT) OK(MPI_Irecv(buffer, 1, MPI_BYTE, 0, NEVER, inter, &requests[1]));
    if (me == WAITALL) OK(MPI_Irecv(buffer + 1, 1, MPI_BYTE, 0, NEVER_TOO, inter, &requests[2]));
    if (me == WAITANY || me == WAITSOME) OK(MPI_Irecv(&native, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[3]));
    if (me >= WAITALL) {
        requests[4] = big;
        big = MPI_REQUEST_NULL;
    } else if (me == WAIT && big != MPI_REQUEST_NULL) {
        MPI_Request other = requests[1];
        requests[1] = big;
        big = other;
    }
    armed = 1;
    switch ((enum call)me) {
    case RECV: code = MPI_Recv(buffer, 1, MPI_BYTE, 0, NEVER, inter, &status); break;
    case RECV_ANY: code = MPI_Recv(buffer, 1, MPI_BYTE, MPI_ANY_SOURCE, NEVER, inter, &status); break;
    case SEND: code = MPI_Send(buffer, 8 * MIDDLE, MPI_BYTE, 0, SENT, inter); break;
    case SSEND: code = MPI_Ssend(buffer, 1, MPI_BYTE, 0, SENT, inter); break;
    case SENDRECV:
        code = MPI_Sendrecv(buffer, 1, MPI_BYTE, 0, SENT, buffer + 1, 1, MPI_BYTE, 0, NEVER, inter, &status);
        break;
    case PROBE: code = MPI_Probe(0, NEVER, inter, &status); break;
    case WAIT: code = MPI_Wait(&requests[1], &status); break;
    case WAITALL: code = MPI_Waitall(5, requests, statuses); break;
    case WAITANY: code = MPI_Waitany(5, requests, &index, &status); break;
    case WAITSOME: code = MPI_Waitsome(5, requests, &n, indices, statuses); break;
    case CALLS: break;
    }
    double back = kit_ms();
    returned = 1;
    pthread_join(thread, NULL);

    /* A large transfer that was whole before the kill counts as done; any other success is a lie. */
    if (state == INCOMING) whole = huge[HUGE - 1] == 1;
    if (state == OUTGOING) whole = fall->whole;
    double ms = back - killed_at;
    if (code == MPI_SUCCESS && !(whole && me >= WAIT))
        kit_fail(__FILE__, __LINE__, "%s, %s: success", state_names[state], call_names[me]);
    CHECK(ms < LIMIT_MS, "%s, %s: told after %.0f ms", state_names[state], call_names[me], ms);
    CHECK(ms > -5 || (whole && code == MPI_SUCCESS), "%s, %s: back %.0f ms before the kill", state_names[state],
          call_names[me], -ms);
    if (code != MPI_SUCCESS && (me == WAITALL || me == WAITSOME)) SAME(kit_class(code), MPI_ERR_IN_STATUS);
    if (me == WAITANY) CHECK(index == 1 || index == 4, "index %d", index);
    printf("KILL %s %s %.1f %s\n", state_names[state], call_names[me], ms < 0 ? 0 : ms,
           code == MPI_SUCCESS ? "whole" : whole ? "late" : "told");
    if (code != MPI_SUCCESS) printf("SAID %s\n", kit_error(code));
    fflush(stdout);

    /* What else was under way ends too. */
    double start = kit_ms();
    if (big != MPI_REQUEST_NULL) {
        code = MPI_Wait(&big, &status);
        CHECK(code != MPI_SUCCESS || whole, "the large one succeeded");
    }
    for (int i = 1; i < 5; ++i)
        if (i != 3 && requests[i] != MPI_REQUEST_NULL) {
            code = MPI_Wait(&requests[i], &status);
            CHECK(code != MPI_SUCCESS || (i == 4 && whole), "request %d succeeded", i);
        }
    /* What had arrived is there; what had not is not made up. */
    if (state == EAGER) {
        memset(buffer, 0, SMALL);
        OK(MPI_Recv(buffer, SMALL, MPI_BYTE, 0, UNMATCHED, inter, &status));
        HOLDS(buffer, SMALL, 7);
    }
    if (state == RTS)
        CHECK(MPI_Recv(buffer, MIDDLE, MPI_BYTE, 0, UNMATCHED, inter, &status) != MPI_SUCCESS, "data of a dead sender");
    CHECK(MPI_Ssend(buffer, 1, MPI_BYTE, 0, SENT, inter) != MPI_SUCCESS, "sent to the dead");
    CHECK(MPI_Recv(buffer, 1, MPI_BYTE, MPI_ANY_SOURCE, NEVER, inter, &status) != MPI_SUCCESS, "received from the dead");
    CHECK(kit_ms() - start < LIMIT_MS, "the rest took %.0f ms", kit_ms() - start);

    /* The native one was left alone all the time. */
    if (me == WAITANY || me == WAITSOME) {
        int out = 4712;
        CHECK(requests[3] != MPI_REQUEST_NULL);
        OK(MPI_Send(&out, 1, MPI_INT, 0, 5, MPI_COMM_SELF));
        OK(MPI_Wait(&requests[3], &status));
        SAME(native, 4712);
    }
}

int main(int argc, char **argv)
{
    int size;
    char mine[32], theirs[32], pid[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (state = 0; state < STATES && strcmp(state_names[state], argv[2]); ++state) {}
    int hunted = !strcmp(argv[1], "victim");
    CHECK(state < STATES && (hunted ? argc == 4 : size == CALLS));
    if (kit_failures) MPI_Abort(MPI_COMM_WORLD, 2);
    if (hunted) me = atoi(argv[3]);

    snprintf(mine, sizeof mine, "%s-%d", hunted ? "victim" : "survivor", me);
    snprintf(theirs, sizeof theirs, "%s-%d", hunted ? "survivor" : "victim", me);
    huge = kit_alloc(state == INCOMING || state == OUTGOING ? HUGE : 1);
    OK(MPI_Conn_register(mine, MPI_COMM_SELF, &handle));
    OK(MPI_Conn_intercomm_create(handle, theirs, &inter));
    if (hunted) {
        snprintf(pid, sizeof pid, "%d\n", (int)getpid());
        kit_write(kit_path("pid-%d", me), pid);
        victim();
    }
    survivor();
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    /* The survivors are a whole job still. */
    int result = kit_end();
    MPI_Finalize();
    return result;
}
