/* How two jobs come to talk: `reach NAME OTHER SIDE SENDER SECTION...`. Every section joins anew, so that all connections
 * are made anew; in each, all ranks of side SENDER speak first, to all of the other. */
#include "kit.h"

enum { SMALL = 8, LARGE = 1 << 20 };

static MPI_Comm inter;
static int me, mine, theirs, side, sender;
static char *large;

static uint64_t seed(int from_side, int from, int to) { return (uint64_t)(from_side * 64 + from) * 64 + (uint64_t)to; }

/* The last one of all says how long it took. */
static void report(const char *what, double since)
{
    double took = kit_ms() - since, longest = 0;
    OK(MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    if (me == 0) {
        printf("TOOK %s %.0f ms\n", what, longest);
        fflush(stdout);
    }
}

static void speak(int tag)
{
    char small[SMALL];
    for (int p = 0; p < theirs; ++p) {
        kit_fill(small, SMALL, seed(side, me, p));
        OK(MPI_Send(small, SMALL, MPI_BYTE, p, tag, inter));
    }
}

static void good(const char *small, int from) { HOLDS(small, SMALL, seed(!side, from, me)); }

/* Large messages, both ways, over the connections that are there by now. */
static void much(void)
{
    char *in = kit_alloc(LARGE);
    for (int turn = 0; turn < 2; ++turn)
        for (int k = 0; k < (mine > theirs ? mine : theirs); ++k) {
            if (turn == side) {
                if (k >= theirs) continue;
                kit_fill(large, LARGE, seed(side, me, k));
                OK(MPI_Send(large, LARGE, MPI_BYTE, k, 7, inter));
            } else {
                if (k >= theirs) continue;
                OK(MPI_Recv(in, LARGE, MPI_BYTE, k, 7, inter, MPI_STATUS_IGNORE));
                HOLDS(in, LARGE, seed(!side, k, me));
            }
        }
    free(in);
}

/* ---- the receiver ... */

/* ... waits for each in turn */
static void waits(void)
{
    char small[SMALL];
    if (side == sender) return speak(1);
    for (int p = 0; p < theirs; ++p) {
        OK(MPI_Recv(small, SMALL, MPI_BYTE, p, 1, inter, MPI_STATUS_IGNORE));
        good(small, p);
    }
}

/* ... takes them as they come */
static void any(void)
{
    char small[SMALL];
    MPI_Status status;
    if (side == sender) return speak(1);
    for (int p = 0; p < theirs; ++p) {
        OK(MPI_Recv(small, SMALL, MPI_BYTE, MPI_ANY_SOURCE, 1, inter, &status));
        good(small, status.MPI_SOURCE);
    }
}

/* ... never waits, but asks again and again */
static void tests(void)
{
    char small[SMALL];
    int flag;
    MPI_Request request;
    if (side == sender) return speak(1);
    for (int p = 0; p < theirs; ++p) {
        OK(MPI_Irecv(small, SMALL, MPI_BYTE, p, 1, inter, &request));
        do POLL(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        while (!flag);
        good(small, p);
    }
}

static void iprobes(void)
{
    char small[SMALL];
    int flag;
    MPI_Status status;
    if (side == sender) return speak(1);
    for (int p = 0; p < theirs; ++p) {
        do POLL(MPI_Iprobe(MPI_ANY_SOURCE, 1, inter, &flag, &status));
        while (!flag);
        OK(MPI_Recv(small, SMALL, MPI_BYTE, status.MPI_SOURCE, 1, inter, MPI_STATUS_IGNORE));
        good(small, status.MPI_SOURCE);
    }
}

/* ... has said where it goes, and computes until the sender, who wants to know that it was matched, has gone on */
static void computes(void)
{
    MPI_Request *requests = kit_alloc((size_t)theirs * sizeof *requests);
    char *in = kit_alloc((size_t)theirs * SMALL), out[SMALL];
    if (side == sender) {
        for (int p = 0; p < theirs; ++p) {
            kit_fill(out, SMALL, seed(side, me, p));
            OK(MPI_Ssend(out, SMALL, MPI_BYTE, p, 1, inter));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (me == 0) kit_write(kit_path("through"), "");
    } else {
        for (int p = 0; p < theirs; ++p)
            OK(MPI_Irecv(in + p * SMALL, SMALL, MPI_BYTE, p, 1, inter, &requests[p]));
        kit_await(kit_path("through"));
        OK(MPI_Waitall(theirs, requests, MPI_STATUSES_IGNORE));
        for (int p = 0; p < theirs; ++p) good(in + p * SMALL, p);
    }
    free(requests);
    free(in);
}

/* ... asks only when the sender has been at it for a while: longer than a process would be believed to live that others
 * refuse connections to */
static void asks_late(void)
{
    char out[SMALL], small[SMALL];
    if (side == sender) {
        for (int p = 0; p < theirs; ++p) {
            kit_fill(out, SMALL, seed(side, me, p));
            OK(MPI_Ssend(out, SMALL, MPI_BYTE, p, 1, inter));
        }
        return;
    }
    kit_sleep_ms(4000);
    for (int p = theirs - 1; p >= 0; --p) {
        OK(MPI_Recv(small, SMALL, MPI_BYTE, p, 1, inter, MPI_STATUS_IGNORE));
        good(small, p);
    }
}

/* ... asks when the sender has been in MPI_Finalize for a while. Nothing can follow. */
static void finalized(void)
{
    char small[SMALL];
    if (side == sender) return speak(1);
    kit_await(kit_path("finalizing"));
    kit_sleep_ms(12000);
    for (int p = 0; p < theirs; ++p) {
        OK(MPI_Recv(small, SMALL, MPI_BYTE, p, 1, inter, MPI_STATUS_IGNORE));
        good(small, p);
    }
}

/* The longest time between two calls of this. */
static double later(double longest, double *last)
{
    double now = kit_ms(), took = now - *last;
    *last = now;
    return took > longest ? took : longest;
}

/* Rank 0 of side 1 sends small messages, and rank 0 of side 0 only waits for them. */
static void listens(void)
{
    double longest = 0, last = kit_ms();
    for (int i = 0, got = 0; me == 0 && got >= 0; ++i) {
        if (side == 1) {
            if (i == 5) kit_write(kit_path("moving-%d", 1), "");
            got = kit_is_there(kit_path("enough")) ? -1 : i;
            OK(MPI_Send(&got, 1, MPI_INT, 0, 4, inter));
            kit_sleep_ms(50);
        } else {
            OK(MPI_Recv(&got, 1, MPI_INT, 0, 4, inter, MPI_STATUS_IGNORE));
            if (got >= 0) SAME(got, i);
            if (i == 5) kit_write(kit_path("moving-%d", 0), "");
            longest = later(longest, &last);
        }
    }
    if (me == 0 && side == 0) printf("GAP %.0f\n", longest);
}

/* Text that anybody could read. */
static void text(void)
{
    enum { BYTES = 4000 };
    char out[BYTES], in[BYTES];
    for (int i = 0; i < BYTES; ++i) out[i] = "anybody could read this. "[i % 25];
    if (side == sender)
        for (int p = 0; p < theirs; ++p) OK(MPI_Send(out, BYTES, MPI_CHAR, p, 5, inter));
    else
        for (int p = 0; p < theirs; ++p) {
            OK(MPI_Recv(in, BYTES, MPI_CHAR, p, 5, inter, MPI_STATUS_IGNORE));
            CHECK(!memcmp(in, out, BYTES), "another text");
        }
}

/* Traffic that lasts, both ways, between all; the harness does something to the network meanwhile. */
static void lasts(void)
{
    enum { BYTES = 64 << 10 };
    MPI_Request *requests = kit_alloc(2 * (size_t)theirs * sizeof *requests);
    char *in = kit_alloc((size_t)theirs * BYTES), *out = kit_alloc((size_t)theirs * BYTES);
    int over = 0, rounds = 0, all = 0;
    double longest = 0, last = kit_ms();
    while (!all) {
        if (++rounds == 5 && me == 0) kit_write(kit_path("moving-%d", side), "");
        for (int p = 0; p < theirs; ++p) {
            kit_fill(out + p * BYTES, BYTES, seed(side, me, p) + (uint64_t)rounds * 99991);
            OK(MPI_Irecv(in + p * BYTES, BYTES, MPI_BYTE, p, 2, inter, &requests[p]));
            OK(MPI_Isend(out + p * BYTES, BYTES, MPI_BYTE, p, 2, inter, &requests[theirs + p]));
        }
        OK(MPI_Waitall(2 * theirs, requests, MPI_STATUSES_IGNORE));
        for (int p = 0; p < theirs; ++p) HOLDS(in + p * BYTES, BYTES, seed(!side, p, me) + (uint64_t)rounds * 99991);
        /* All of both sides stop after the same round: side 0 says when. */
        over = side == 0 && me == 0 && kit_is_there(kit_path("enough"));
        if (side == 0 && me == 0) OK(MPI_Send(&over, 1, MPI_INT, 0, 3, inter));
        if (side == 1 && me == 0) OK(MPI_Recv(&over, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE));
        OK(MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD));
        all = over;
        longest = later(longest, &last);
    }
    if (me == 0) printf("ROUNDS %d\n", rounds);
    if (me == 0) printf("GAP %.0f\n", longest);
    free(requests), free(in), free(out);
}

/* Says which ports this process listens on that it did not before it registered. */
static int listening(unsigned ports[], int most)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    int n = 0;
    for (int t = 0; t < 2; ++t) {
        char line[512];
        FILE *f = fopen(tables[t], "r");
        while (f && fgets(line, sizeof line, f)) {
            unsigned port, state, inode;
            char mine[64], target[64], path[64];
            if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %u", &port, &state, &inode) != 3)
                continue;
            if (state != 0x0A) continue;
            snprintf(mine, sizeof mine, "socket:[%u]", inode);
            for (int fd = 0; fd < 1024; ++fd) {
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t got = readlink(path, target, sizeof target - 1);
                if (got < 0) continue;
                target[got] = 0;
                if (!strcmp(mine, target) && n < most) ports[n++] = port;
            }
        }
        if (f) fclose(f);
    }
    return n;
}

static const struct kit_section sections[] = {
    {"waits", waits},       {"any", any},         {"tests", tests}, {"iprobes", iprobes}, {"computes", computes},
    {"asks-late", asks_late}, {"finalized", finalized}, {"lasts", lasts}, {"listens", listens},
    {"text", text},
};

int main(int argc, char **argv)
{
    enum { MOST = 128 };
    unsigned before[MOST], after[MOST];
    int n_before, n_after, parting = 0;
    MPI_Init(&argc, &argv);
    if (argc < 6) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &mine);
    kit_rank = me;
    kit_label = argv[1];
    side = atoi(argv[3]);
    sender = atoi(argv[4]);
    large = kit_alloc(LARGE);
    n_before = listening(before, MOST);
    for (char **name = argv + 5; *name; ++name) {
        const struct kit_section *section = kit_begin(sections, sizeof sections / sizeof sections[0], *name);
        char own[256], other[256];
        int handle;
        snprintf(own, sizeof own, "%s-%s", argv[1], *name);
        snprintf(other, sizeof other, "%s-%s", argv[2], *name);
        OK(MPI_Conn_register(own, MPI_COMM_WORLD, &handle));
        double start = kit_ms();
        OK(MPI_Conn_intercomm_create(handle, other, &inter));
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        OK(MPI_Comm_remote_size(inter, &theirs));
        report("join", start);
        start = kit_ms();
        section->run();
        report(*name, start);
        parting = !strcmp(*name, "finalized");
        if (parting) break;
        much();
        OK(MPI_Comm_free(&inter));
        OK(MPI_Conn_remove(handle));
    }
    n_after = listening(after, MOST);
    for (int i = 0; i < n_after; ++i) {
        int old = 0;
        for (int k = 0; k < n_before; ++k) old |= before[k] == after[i];
        if (!old) printf("PORT %u\n", after[i]);
    }
    int result = kit_end();
    if (parting && side == sender && me == 0) kit_write(kit_path("finalizing"), "");
    MPI_Finalize();
    return result;
}
