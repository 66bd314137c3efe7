/* One half of a pair of jobs: `pair NAME OTHER SIDE SECTION...`. Both halves run the same sections in the same order;
 * SIDE is 0 for one and 1 for the other. Every value is checked where it arrives. */
#include "sides.h"
#include "basics.h"

/* What a message holds depends on who sends it, to whom, and its tag. */
static uint64_t seed_of(int from_side, int from, int to, int tag)
{
    return ((uint64_t)from_side << 60) | ((uint64_t)from << 48) | ((uint64_t)to << 36) | (uint64_t)tag;
}
static uint64_t seed_out(int to, int tag) { return seed_of(side, me, to, tag); }
static uint64_t seed_in(int from, int tag) { return seed_of(!side, from, me, tag); }

/* Both jobs have come here. Wildcards of one section never see the next one's messages. */
static void meet(void)
{
    int out = 4711, in = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0) {
        OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 32000, &in, 1, MPI_INT, 0, 32000, inter, MPI_STATUS_IGNORE));
        SAME(in, 4711);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void is_from(const MPI_Status *status, int source, int tag, MPI_Datatype type, int count)
{
    int got = -1;
    SAME(status->MPI_SOURCE, source);
    SAME(status->MPI_TAG, tag);
    OK(MPI_Get_count(status, type, &got));
    SAME(got, count);
}

/* ---- what the inter-communicator says of itself ---- */

static void queries(void)
{
    int n = -1, flag = -1;
    OK(MPI_Comm_rank(inter, &n));
    SAME(n, me);
    OK(MPI_Comm_size(inter, &n));
    SAME(n, mine);
    OK(MPI_Comm_remote_size(inter, &n));
    SAME(n, theirs);
    OK(MPI_Comm_test_inter(inter, &flag));
    SAME(flag, 1);
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    SAME(flag, 0);
    OK(MPI_Comm_compare(inter, inter, &n));
    SAME(n, MPI_IDENT);
    OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &n));
    SAME(n, MPI_UNEQUAL);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, inter, &n));
    SAME(n, MPI_UNEQUAL);

    MPI_Group group = MPI_GROUP_NULL;
    OK(MPI_Comm_remote_group(inter, &group));
    CHECK(group != MPI_GROUP_NULL);
    OK(MPI_Group_size(group, &n));
    SAME(n, theirs);
    OK(MPI_Group_rank(group, &n));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Group_free(&group));
    CHECK(group == MPI_GROUP_NULL);

    int *bound = NULL;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag));
    CHECK(flag && bound && *bound >= 32767);
}

/* ---- blocking calls ---- */

static const int counts[] = {0, 1, 17, 1000, 4095, 4096, 4097, 100000};
enum { SIZES = sizeof counts / sizeof counts[0], MOST = 100000 };

static void blocking(int synchronous)
{
    int *buffer = kit_alloc((MOST + 3) * sizeof(int));
    for (int peer = 0; peer < theirs; ++peer)
        for (int turn = 0; turn < 2; ++turn)
            for (int k = 0; k < SIZES; ++k) {
                int n = counts[k], tag = 100 + k;
                size_t bytes = (size_t)n * sizeof(int);
                if (turn == side) {
                    kit_fill(buffer, bytes, seed_out(peer, tag));
                    OK(synchronous ? MPI_Ssend(buffer, n, MPI_INT, peer, tag, inter)
                                   : MPI_Send(buffer, n, MPI_INT, peer, tag, inter));
                    HOLDS(buffer, bytes, seed_out(peer, tag));
                } else {
                    MPI_Status status;
                    memset(buffer, 0x5A, (MOST + 3) * sizeof(int));
                    OK(MPI_Recv(buffer, n + 3, MPI_INT, peer, tag, inter, k % 2 ? MPI_STATUS_IGNORE : &status));
                    if (k % 2 == 0) is_from(&status, peer, tag, MPI_INT, n);
                    HOLDS(buffer, bytes, seed_in(peer, tag));
                    SAME(buffer[n], 0x5A5A5A5A);
                }
            }
    free(buffer);
}
static void send_recv(void) { blocking(0); }
static void ssend_recv(void) { blocking(1); }

static void sendrecv(void)
{
    for (int peer = 0; peer < theirs; ++peer)
        for (int k = 0; k < SIZES; ++k) {
            int n = counts[k];
            size_t bytes = (size_t)n * sizeof(int);
            int *out = kit_alloc(bytes), *in = kit_alloc(bytes);
            MPI_Status status;
            kit_fill(out, bytes, seed_out(peer, 200 + k));
            OK(MPI_Sendrecv(out, n, MPI_INT, peer, 200 + k, in, n, MPI_INT, peer, 200 + k, inter, &status));
            is_from(&status, peer, 200 + k, MPI_INT, n);
            HOLDS(in, bytes, seed_in(peer, 200 + k));
            free(out);
            free(in);
        }
    /* A chain with open ends: side 0 only sends, side 1 only receives. */
    for (int peer = 0; peer < theirs; ++peer) {
        double out = 3.25 + me, in = -1;
        MPI_Status status;
        int to = side == 0 ? peer : MPI_PROC_NULL, from = side == 0 ? MPI_PROC_NULL : peer;
        OK(MPI_Sendrecv(&out, 1, MPI_DOUBLE, to, 230, &in, 1, MPI_DOUBLE, from, 230, inter, &status));
        if (side == 0) {
            is_from(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_DOUBLE, 0);
            CHECK(in == -1);
        } else {
            is_from(&status, peer, 230, MPI_DOUBLE, 1);
            CHECK(in == 3.25 + peer);
        }
    }
}

/* ---- requests: ours, native ones and null ones in one array ---- */

enum how { WAIT, WAITALL, WAITALL_IGNORE, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME };

static void exchange(enum how how)
{
    enum { NATIVE = 3 };
    int total = 2 * theirs + NATIVE, tag = 300 + (int)how;
    int next = (me + 1) % mine, last = (me + mine - 1) % mine;
    MPI_Request *requests = kit_alloc((size_t)total * sizeof *requests);
    MPI_Status *statuses = kit_alloc((size_t)total * sizeof *statuses), *some = kit_alloc((size_t)total * sizeof *some);
    int *done = kit_alloc((size_t)total * sizeof *done), *indices = kit_alloc((size_t)total * sizeof *indices);
    int **in = kit_alloc((size_t)theirs * sizeof *in), **out = kit_alloc((size_t)theirs * sizeof *out);
    int native_out = 1000 + me, native_in = -1;
    memset(done, 0, (size_t)total * sizeof *done);

    /* Sizes on both sides of the eager limit; the receiver knows them by the pair. */
#define COUNT(a, b) (counts[((a) + (b) + (int)how) % SIZES])
    for (int p = 0; p < theirs; ++p) {
        int n_in = COUNT(p, me), n_out = COUNT(me, p);
        in[p] = kit_alloc((size_t)n_in * sizeof(int));
        out[p] = kit_alloc((size_t)n_out * sizeof(int));
        kit_fill(out[p], (size_t)n_out * sizeof(int), seed_out(p, tag));
        OK(MPI_Irecv(in[p], n_in, MPI_INT, p, tag, inter, &requests[p]));
    }
    OK(MPI_Irecv(&native_in, 1, MPI_INT, last, tag, MPI_COMM_WORLD, &requests[2 * theirs]));
    requests[2 * theirs + 1] = MPI_REQUEST_NULL;
    for (int p = 0; p < theirs; ++p)
        OK((p + me) % 2 ? MPI_Issend(out[p], COUNT(me, p), MPI_INT, p, tag, inter, &requests[theirs + p])
                        : MPI_Isend(out[p], COUNT(me, p), MPI_INT, p, tag, inter, &requests[theirs + p]));
    OK(MPI_Isend(&native_out, 1, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[2 * theirs + 2]));

    int left = total - 1, index, n, flag; /* the null one is never reported by the any and some calls */
    switch (how) {
    case WAIT:
        for (int i = 0; i < total; ++i) OK(MPI_Wait(&requests[i], &statuses[i]));
        break;
    case WAITALL:
        OK(MPI_Waitall(total, requests, statuses));
        break;
    case WAITALL_IGNORE:
        OK(MPI_Waitall(total, requests, MPI_STATUSES_IGNORE));
        break;
    case TESTALL:
        do POLL(MPI_Testall(total, requests, &flag, statuses));
        while (!flag);
        break;
    case TEST:
        for (int i = 0; i < total; ++i) {
            do POLL(MPI_Test(&requests[i], &flag, &statuses[i]));
            while (!flag);
        }
        break;
    case WAITANY:
    case TESTANY:
        while (left) {
            MPI_Status status;
            flag = 1;
            if (how == WAITANY)
                OK(MPI_Waitany(total, requests, &index, &status));
            else
                POLL(MPI_Testany(total, requests, &index, &flag, &status));
            if (!flag) {
                if (index != MPI_UNDEFINED) SAME(index, MPI_UNDEFINED);
                continue;
            }
            CHECK(index >= 0 && index < total, "index %d", index);
            SAME(done[index], 0);
            done[index] = 1;
            statuses[index] = status;
            --left;
        }
        break;
    case WAITSOME:
    case TESTSOME:
        while (left) {
            if (how == WAITSOME)
                POLL(MPI_Waitsome(total, requests, &n, indices, some));
            else
                POLL(MPI_Testsome(total, requests, &n, indices, some));
            if (n < (how == WAITSOME) || n > left) kit_fail(__FILE__, __LINE__, "%d done, %d left", n, left);
            for (int i = 0; i < n; ++i) {
                CHECK(indices[i] >= 0 && indices[i] < total, "index %d", indices[i]);
                SAME(done[indices[i]], 0);
                done[indices[i]] = 1;
                statuses[indices[i]] = some[i];
            }
            left -= n;
        }
        break;
    }

    for (int i = 0; i < total; ++i) CHECK(requests[i] == MPI_REQUEST_NULL, "request %d", i);
    for (int p = 0; p < theirs; ++p) {
        if (how != WAITALL_IGNORE) is_from(&statuses[p], p, tag, MPI_INT, COUNT(p, me));
        HOLDS(in[p], (size_t)COUNT(p, me) * sizeof(int), seed_in(p, tag));
        free(in[p]);
        free(out[p]);
    }
    if (how != WAITALL_IGNORE) is_from(&statuses[2 * theirs], last, tag, MPI_INT, 1);
    SAME(native_in, 1000 + last);

    /* Nothing left to wait for. */
    MPI_Status status;
    OK(MPI_Waitany(total, requests, &index, &status));
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Testany(total, requests, &index, &flag, &status));
    SAME(flag, 1);
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Waitsome(total, requests, &n, indices, some));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Testsome(total, requests, &n, indices, some));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Testall(total, requests, &flag, statuses));
    SAME(flag, 1);
    OK(MPI_Waitall(total, requests, statuses));
    OK(MPI_Wait(&requests[0], &status));
    is_from(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);

    free(requests), free(statuses), free(some), free(done), free(indices), free(in), free(out);
}

static void wait_each(void) { exchange(WAIT); }
static void waitall(void)
{
    exchange(WAITALL);
    exchange(WAITALL_IGNORE);
}
static void waitany(void) { exchange(WAITANY); }
static void waitsome(void) { exchange(WAITSOME); }
static void test(void) { exchange(TEST); }
static void testall(void) { exchange(TESTALL); }
static void testany(void) { exchange(TESTANY); }
static void testsome(void) { exchange(TESTSOME); }

/* Test calls that find ours undone must leave a finished native request alone, and the other way round. */
static void test_keeps(void)
{
    int token = me, native = -1, foreign = -1, flag = -1, index = -1;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    meet();
    OK(MPI_Irecv(&foreign, 1, MPI_INT, 0, 350, inter, &requests[0]));
    OK(MPI_Irecv(&native, 1, MPI_INT, me, 350, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Send(&token, 1, MPI_INT, me, 350, MPI_COMM_WORLD));
    /* The other side has not sent: it waits for a word from here. */
    for (int i = 0; i < 1000; ++i) {
        OK(MPI_Testall(2, requests, &flag, statuses));
        SAME(flag, 0);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    }
    do POLL(MPI_Testany(2, requests, &index, &flag, statuses));
    while (!flag);
    SAME(index, 1);
    SAME(native, me);
    is_from(statuses, me, 350, MPI_INT, 1);
    CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    meet();
    if (me == 0)
        for (int p = 0; p < theirs; ++p) OK(MPI_Send(&token, 1, MPI_INT, p, 350, inter));
    OK(MPI_Waitall(2, requests, statuses));
    SAME(foreign, 0);
    is_from(&statuses[0], 0, 350, MPI_INT, 1);
}

/* ---- looking before receiving ---- */

static void probe(void)
{
    for (int p = 0; p < theirs; ++p)
        for (int k = 0; k < SIZES; ++k) {
            size_t bytes = (size_t)counts[k] * sizeof(int);
            void *out = kit_alloc(bytes), *in;
            MPI_Request request;
            MPI_Status status, seen;
            int n = -1, flag = 0, from = k % 3 == 1 ? MPI_ANY_SOURCE : p, tag = 400 + k;
            kit_fill(out, bytes, seed_out(p, tag));
            OK(MPI_Isend(out, counts[k], MPI_INT, p, tag, inter, &request));
            if (k % 2)
                OK(MPI_Probe(from, tag, inter, &seen));
            else
                do POLL(MPI_Iprobe(from, tag, inter, &flag, &seen));
                while (!flag);
            CHECK(from == MPI_ANY_SOURCE || seen.MPI_SOURCE == p);
            OK(MPI_Get_count(&seen, MPI_INT, &n));
            SAME(n, counts[k]);
            in = kit_alloc(bytes);
            OK(MPI_Recv(in, n, MPI_INT, seen.MPI_SOURCE, seen.MPI_TAG, inter, &status));
            is_from(&status, seen.MPI_SOURCE, tag, MPI_INT, counts[k]);
            HOLDS(in, bytes, seed_in(seen.MPI_SOURCE, tag));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            free(in);
            free(out);
        }
    int flag = -1;
    OK(MPI_Iprobe(0, 499, inter, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 499, inter, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);

    /* Seven bytes are no whole number of ints. */
    char seven[8] = "1234567";
    int n = 0;
    MPI_Status status;
    MPI_Request request;
    meet();
    if (me == 0) {
        OK(MPI_Isend(seven, 7, MPI_BYTE, 0, 498, inter, &request));
        OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
        is_from(&status, 0, 498, MPI_BYTE, 7);
        OK(MPI_Get_count(&status, MPI_INT, &n));
        SAME(n, MPI_UNDEFINED);
        char got[8] = "";
        OK(MPI_Recv(got, 8, MPI_BYTE, 0, 498, inter, &status));
        CHECK(!strcmp(got, "1234567"));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

/* Receives one message by a matched probe; LAM, which has none, by a probe. */
static void receive_matched(int k, int from, int tag)
{
    size_t bytes = (size_t)counts[k] * sizeof(int);
    void *in = kit_alloc(bytes);
    MPI_Status seen, status;
    int n = -1;
#ifdef LAM_MPI
    OK(MPI_Probe(from, tag, inter, &seen));
    OK(MPI_Recv(in, counts[k], MPI_INT, seen.MPI_SOURCE, tag, inter, &status));
#else
    MPI_Message message;
    MPI_Request request;
    int flag = 0;
    if (k % 2)
        OK(MPI_Mprobe(from, tag, inter, &message, &seen));
    else
        do POLL(MPI_Improbe(from, tag, inter, &flag, &message, &seen));
        while (!flag);
    /* It is nobody else's any more. */
    OK(MPI_Iprobe(seen.MPI_SOURCE, tag, inter, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    if (k % 3)
        OK(MPI_Mrecv(in, counts[k], MPI_INT, &message, &status));
    else {
        OK(MPI_Imrecv(in, counts[k], MPI_INT, &message, &request));
        OK(MPI_Wait(&request, &status));
    }
    CHECK(message == MPI_MESSAGE_NULL);
#endif
    OK(MPI_Get_count(&seen, MPI_INT, &n));
    SAME(n, counts[k]);
    is_from(&status, seen.MPI_SOURCE, tag, MPI_INT, counts[k]);
    HOLDS(in, bytes, seed_in(seen.MPI_SOURCE, tag));
    free(in);
}

static void matched(void)
{
    for (int p = 0; p < theirs; ++p)
        for (int k = 0; k < SIZES; ++k) {
            size_t bytes = (size_t)counts[k] * sizeof(int);
            void *out = kit_alloc(bytes);
            MPI_Request request;
            int tag = 500 + k;
            kit_fill(out, bytes, seed_out(p, tag));
            OK(MPI_Isend(out, counts[k], MPI_INT, p, tag, inter, &request));
            receive_matched(k, k % 3 == 1 ? MPI_ANY_SOURCE : p, tag);
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            free(out);
        }
#ifndef LAM_MPI
    MPI_Message message;
    MPI_Status status;
    int flag = 0, word = 0;
    OK(MPI_Improbe(MPI_ANY_SOURCE, 599, inter, &flag, &message, &status));
    SAME(flag, 0);
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, inter, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPI_Mrecv(&word, 1, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    REFUSED(MPI_Mprobe(theirs, 0, inter, &message, &status), MPI_ERR_RANK);
#endif
}

/* ---- matching: order, tags, wildcards ---- */

enum { RUN = 200, LONGEST = 40000 };
static int run_bytes(int k) { return (k * 7919) % 5 == 0 ? LONGEST - k : (k * 37) % 3000 + 8; }

/* Messages of one sender arrive in order, whatever their size, by whatever wildcard. */
static void order(void)
{
    for (int wild = 0; wild < 2; ++wild) {
        char *out = kit_alloc((size_t)theirs * RUN * LONGEST), *in = kit_alloc(LONGEST);
        MPI_Request *requests = kit_alloc((size_t)theirs * RUN * sizeof *requests);
        int *next = kit_alloc((size_t)theirs * sizeof *next);
        meet();
        for (int k = 0; k < RUN; ++k)
            for (int p = 0; p < theirs; ++p) {
                char *message = out + ((size_t)p * RUN + (size_t)k) * LONGEST;
                kit_fill(message, (size_t)run_bytes(k), seed_out(p, 500 + k));
                OK(MPI_Isend(message, run_bytes(k), MPI_BYTE, p, 500 + k % 3, inter, &requests[p * RUN + k]));
            }
        for (int p = 0; p < theirs; ++p) next[p] = 0;
        for (int i = 0; i < theirs * RUN; ++i) {
            MPI_Status status;
            OK(MPI_Recv(in, LONGEST, MPI_BYTE, wild ? MPI_ANY_SOURCE : i % theirs, MPI_ANY_TAG, inter, &status));
            int from = status.MPI_SOURCE, k;
            CHECK(from >= 0 && from < theirs, "source %d", from);
            k = next[from]++;
            is_from(&status, from, 500 + k % 3, MPI_BYTE, run_bytes(k));
            HOLDS(in, (size_t)run_bytes(k), seed_in(from, 500 + k));
        }
        OK(MPI_Waitall(theirs * RUN, requests, MPI_STATUSES_IGNORE));
        free(out), free(in), free(requests), free(next);
    }
}

/* Fifty messages wait unexpected; the receiver takes them by tag, last first. */
static void tags(void)
{
    enum { N = 50 };
    long *out = kit_alloc((size_t)theirs * N * sizeof *out);
    MPI_Request *requests = kit_alloc((size_t)theirs * N * sizeof *requests);
    for (int p = 0; p < theirs; ++p)
        for (int k = 0; k < N; ++k) {
            out[p * N + k] = me * 1000 + k;
            OK(MPI_Isend(&out[p * N + k], 1, MPI_LONG, p, 600 + k, inter, &requests[p * N + k]));
        }
    for (int k = N - 1; k >= 0; --k)
        for (int p = theirs - 1; p >= 0; --p) {
            long in = -1;
            MPI_Status status;
            OK(MPI_Recv(&in, 1, MPI_LONG, p, 600 + k, inter, &status));
            is_from(&status, p, 600 + k, MPI_LONG, 1);
            SAME(in, p * 1000 + k);
        }
    OK(MPI_Waitall(theirs * N, requests, MPI_STATUSES_IGNORE));
    free(out), free(requests);

    /* Receives posted before any send, in the order in which they must be served. */
    int first[2] = {-1, -1}, word[2] = {10 + me, 20 + me};
    MPI_Request posted[2];
    MPI_Status status[2];
    if (me == 0) {
        OK(MPI_Irecv(&first[0], 1, MPI_INT, MPI_ANY_SOURCE, 690, inter, &posted[0]));
        OK(MPI_Irecv(&first[1], 1, MPI_INT, 0, MPI_ANY_TAG, inter, &posted[1]));
    }
    if (me == 0) {
        OK(MPI_Send(&word[0], 1, MPI_INT, 0, 690, inter));
        OK(MPI_Send(&word[1], 1, MPI_INT, 0, 690, inter));
        OK(MPI_Waitall(2, posted, status));
        SAME(first[0], 10);
        SAME(first[1], 20);
        is_from(&status[0], 0, 690, MPI_INT, 1);
        is_from(&status[1], 0, 690, MPI_INT, 1);
    }
}

static void proc_null(void)
{
    int buffer = 77, flag = 0;
    MPI_Status status;
    MPI_Request requests[2];
    OK(MPI_Send(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter));
    OK(MPI_Ssend(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter));
    OK(MPI_Recv(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter, &status));
    is_from(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    OK(MPI_Probe(MPI_PROC_NULL, 1, inter, &status));
    is_from(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    OK(MPI_Iprobe(MPI_PROC_NULL, 1, inter, &flag, &status));
    SAME(flag, 1);
    is_from(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    OK(MPI_Isend(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter, &requests[0]));
    OK(MPI_Irecv(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter, &requests[1]));
    OK(MPI_Wait(&requests[1], &status));
    is_from(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Issend(&buffer, 1, MPI_INT, MPI_PROC_NULL, 1, inter, &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    SAME(buffer, 77);
}

/* ---- datatypes ---- */

static void basic_types(void)
{
    static struct basic types[128];
    char here[128] = {0}, there[128];
    int n = every_type(types), exchanged = 0;
    for (int t = 0; t < n; ++t) here[t] = types[t].type != MPI_DATATYPE_NULL;
    if (me == 0)
        OK(MPI_Sendrecv(here, n, MPI_CHAR, 0, 699, there, n, MPI_CHAR, 0, 699, inter, MPI_STATUS_IGNORE));
    OK(MPI_Bcast(there, n, MPI_CHAR, 0, MPI_COMM_WORLD));
#ifndef LAM_MPI
    for (int t = 0; t < n; ++t) CHECK(here[t], "%s is MPI_DATATYPE_NULL here", types[t].name);
#endif
    for (int t = 0; t < n; ++t) {
        const struct basic *b = &types[t];
        if (!here[t] || !there[t]) continue; /* one side has no such type */
        ++exchanged;
        MPI_Aint lower, extent;
        OK(MPI_Type_get_extent(b->type, &lower, &extent));
        if ((size_t)extent != b->size) kit_fail(__FILE__, __LINE__, "%s: extent %ld", b->name, (long)extent);
        int wrong = 0, logical = strstr(b->name, "BOOL") || strstr(b->name, "LOGICAL");
        for (int count = 1; count <= 5000; count += 4999) { /* eager; then mostly rendezvous */
            size_t bytes = (size_t)count * b->size, period = strlen(b->live);
            for (int p = 0; p < theirs; ++p) {
                unsigned char *out = kit_alloc(bytes), *in = kit_alloc(bytes), *want = kit_alloc(bytes);
                MPI_Status status;
                kit_fill(out, bytes, seed_out(p, 700 + t));
                kit_fill(want, bytes, seed_in(p, 700 + t));
                if (logical)
                    for (size_t i = 0; i < bytes; ++i)
                        out[i] = i % b->size ? 0 : out[i] & 1, want[i] = i % b->size ? 0 : want[i] & 1;
                OK(MPI_Sendrecv(out, count, b->type, p, 700 + t, in, count, b->type, p, 700 + t, inter, &status));
                is_from(&status, p, 700 + t, b->type, count);
                for (size_t i = 0; i < bytes; ++i)
                    if (b->live[i % period] == 'x') {
                        ++kit_checks;
                        wrong += in[i] != want[i];
                    }
                free(out), free(in), free(want);
            }
        }
        if (wrong) kit_fail(__FILE__, __LINE__, "%s: %d bytes are wrong", b->name, wrong);
    }
    CHECK(exchanged >= 35, "only %d types", exchanged); /* what even LAM has */
}

static void contiguous(void)
{
    MPI_Datatype three, rows;
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Type_commit(&three));
    OK(MPI_Type_contiguous(5, three, &rows)); /* of a derived type */
    OK(MPI_Type_commit(&rows));
    for (int p = 0; p < theirs; ++p)
        for (int count = 0; count < 2000; count = count * 9 + 1) {
            size_t bytes = (size_t)count * 15 * sizeof(int);
            int *out = kit_alloc(bytes), *in = kit_alloc(bytes);
            MPI_Status status;
            kit_fill(out, bytes, seed_out(p, 800));
            /* The same signature, said differently on the two sides. */
            OK(MPI_Sendrecv(out, side ? count * 15 : count, side ? MPI_INT : rows, p, 800, in, count * 5, three, p, 800,
                            inter, &status));
            is_from(&status, p, 800, three, count * 5);
            is_from(&status, p, 800, rows, count);
            HOLDS(in, bytes, seed_in(p, 800));
            free(out), free(in);
        }
    /* Two ints are less than one `three`. */
    if (me == 0) {
        int out[2] = {5, 6}, in[3] = {-1, -1, -1}, n;
        MPI_Status status;
        OK(MPI_Sendrecv(out, 2, MPI_INT, 0, 801, in, 1, three, 0, 801, inter, &status));
        OK(MPI_Get_count(&status, three, &n));
        SAME(n, MPI_UNDEFINED);
        CHECK(in[0] == 5 && in[1] == 6 && in[2] == -1);
    }
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&rows));
}

static void vectors(void)
{
    enum { BLOCKS = 3, LENGTH = 2, STRIDE = 5, HOLE = -9 };
    MPI_Datatype type, nested, column;
    OK(MPI_Type_vector(BLOCKS, LENGTH, STRIDE, MPI_DOUBLE, &type));
    OK(MPI_Type_commit(&type));
    MPI_Aint lower, extent;
    OK(MPI_Type_get_extent(type, &lower, &extent));
    int span = (int)(extent / (MPI_Aint)sizeof(double));
    SAME(span, (BLOCKS - 1) * STRIDE + LENGTH);

    for (int p = 0; p < theirs; ++p)
        for (int count = 1; count <= 3000; count = count * 13 + 2) { /* up to 144 kB of data */
            size_t cells = (size_t)count * (size_t)span, data = (size_t)count * BLOCKS * LENGTH;
            double *strided = kit_alloc(cells * sizeof(double)), *flat = kit_alloc(data * sizeof(double));
            MPI_Status status;
            /* Side 0 sends strided, side 1 receives flat; then back into the holes' neighbours. */
            for (size_t i = 0; i < cells; ++i) strided[i] = HOLE;
            for (size_t i = 0, k = 0; i < cells; ++i)
                if (i % (size_t)span % STRIDE < LENGTH) strided[i] = 1e6 * (side ? p : me) + (double)k++;
            if (side == 0) {
                OK(MPI_Send(strided, count, type, p, 810, inter));
                for (size_t i = 0; i < cells; ++i) strided[i] = HOLE;
                OK(MPI_Recv(strided, count, type, p, 811, inter, &status));
                is_from(&status, p, 811, type, count);
                is_from(&status, p, 811, MPI_DOUBLE, (int)data);
                size_t k = 0, wrong = 0;
                for (size_t i = 0; i < cells; ++i)
                    wrong += strided[i] != (i % (size_t)span % STRIDE < LENGTH ? 0.5 - (double)k++ : HOLE);
                SAME(wrong, 0);
                kit_checks += (long)cells;
            } else {
                size_t wrong = 0;
                OK(MPI_Recv(flat, (int)data, MPI_DOUBLE, p, 810, inter, &status));
                is_from(&status, p, 810, MPI_DOUBLE, (int)data);
                for (size_t k = 0; k < data; ++k) wrong += flat[k] != 1e6 * p + (double)k;
                SAME(wrong, 0);
                kit_checks += (long)data;
                for (size_t k = 0; k < data; ++k) flat[k] = 0.5 - (double)k;
                OK(MPI_Send(flat, (int)data, MPI_DOUBLE, p, 811, inter));
            }
            free(strided), free(flat);
        }

    /* A vector of contiguous pairs, freed while its transfer is on the way. */
    OK(MPI_Type_contiguous(2, MPI_SHORT, &nested));
    OK(MPI_Type_vector(20000, 1, 2, nested, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Type_free(&nested));
    for (int p = 0; p < theirs; ++p) {
        enum { CELLS = 80000 };
        MPI_Datatype mine_to_free;
        MPI_Request requests[2];
        MPI_Status statuses[2];
        short *out = kit_alloc(CELLS * sizeof(short)), *in = kit_alloc(CELLS * sizeof(short));
        for (int i = 0; i < CELLS; ++i) out[i] = (short)(i * 3 + me), in[i] = HOLE;
        OK(MPI_Type_vector(20000, 2, 4, MPI_SHORT, &mine_to_free));
        OK(MPI_Type_commit(&mine_to_free));
        OK(MPI_Irecv(in, 1, mine_to_free, p, 820, inter, &requests[0]));
        OK(MPI_Isend(out, 1, column, p, 820, inter, &requests[1]));
        OK(MPI_Type_free(&mine_to_free));
        OK(MPI_Waitall(2, requests, statuses));
        size_t wrong = 0;
        for (int i = 0; i < CELLS - 2; ++i) wrong += in[i] != (i % 4 < 2 ? (short)(i * 3 + p) : HOLE);
        SAME(wrong, 0);
        SAME(in[CELLS - 1], HOLE);
        kit_checks += CELLS;
        free(out), free(in);
    }
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&type));
}

/* ---- size ---- */

static void sizes(void)
{
    for (size_t bytes = 1; bytes <= (size_t)64 << 20; bytes = bytes * 2 + bytes % 3)
        for (int p = 0; p < theirs && (p == 0 || bytes < 1 << 20); ++p) {
            if (bytes >= 1 << 20 && me > 0) continue; /* the large ones between the ranks 0 */
            char *out = kit_alloc(bytes), *in = kit_alloc(bytes);
            MPI_Request requests[2];
            MPI_Status statuses[2];
            kit_fill(out, bytes, seed_out(p, 900));
            OK(MPI_Irecv(in, (int)bytes, MPI_BYTE, p, 900, inter, &requests[0]));
            OK(MPI_Isend(out, (int)bytes, MPI_BYTE, p, 900, inter, &requests[1]));
            OK(MPI_Waitall(2, requests, statuses));
            is_from(&statuses[0], p, 900, MPI_BYTE, (int)bytes);
            HOLDS(in, bytes, seed_in(p, 900));
            free(out), free(in);
        }
}

/* More than 2 GiB in one message, said with a count that fits an int; side 0 to side 1. */
static void big(void)
{
    enum { PIECES = 2049, TAIL = 12345 };
    size_t bytes = (size_t)PIECES << 20;
    if (me != 0) return;
    MPI_Datatype mebi;
    OK(MPI_Type_contiguous(1 << 20, MPI_BYTE, &mebi));
    OK(MPI_Type_commit(&mebi));
    char *buffer = malloc(bytes + TAIL);
    CHECK(buffer, "no memory");
    if (side == 0) {
        kit_fill(buffer, bytes, seed_out(0, 950));
        double start = kit_ms();
        OK(MPI_Ssend(buffer, PIECES, mebi, 0, 950, inter));
        printf("FIGURE big %.0f MB/s\n", (double)bytes / 1e3 / (kit_ms() - start));
    } else {
        MPI_Status status;
        int n = 0;
        memset(buffer + bytes, 0x5A, TAIL);
        OK(MPI_Recv(buffer, PIECES, mebi, 0, 950, inter, &status));
        is_from(&status, 0, 950, mebi, PIECES);
        OK(MPI_Get_count(&status, MPI_BYTE, &n));
        SAME(n, MPI_UNDEFINED); /* no int holds it */
        OK(MPI_Get_count(&status, MPI_DOUBLE, &n));
        SAME(n, bytes / 8);
        HOLDS(buffer, bytes, seed_in(0, 950));
        for (int i = 0; i < TAIL; ++i) CHECK(buffer[bytes + (size_t)i] == 0x5A);
    }
    free(buffer);
    OK(MPI_Type_free(&mebi));
}

/* Many small ones under way at once, beside collective work of one's own job. */
static void beside(void)
{
    enum { N = 2000 };
    MPI_Request *requests = kit_alloc(2 * N * sizeof *requests);
    int *out = kit_alloc(N * sizeof *out), *in = kit_alloc(N * sizeof *in), peer = me % theirs;
    /* Only the ranks that have a partner of the same number. */
    int paired = me < theirs;
    for (int i = 0; paired && i < N; ++i) {
        out[i] = me * N + i;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, peer, 1000, inter, &requests[i]));
    }
    for (int i = 0; i < N; ++i) {
        if (paired) OK(MPI_Isend(&out[i], 1, MPI_INT, peer, 1000, inter, &requests[N + i]));
        if (i % 100 == 0) {
            int sum = 0;
            OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            SAME(sum, mine * (mine - 1) / 2);
        }
    }
    if (paired) OK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; paired && i < N; ++i) SAME(in[i], peer * N + i);
    free(requests), free(out), free(in);
}

/* ---- errors of arguments and of size ---- */

static int handler_calls, handler_code;
static MPI_Comm handler_comm;
static void handler(MPI_Comm *comm, int *code, ...)
{
    ++handler_calls;
    handler_comm = *comm;
    handler_code = *code;
}

static void arguments(void)
{
    int buffer[4] = {0}, flag, *bound = NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;

#define EACH(buf, n, type, rank, tag, class) \
    do { \
        REFUSED(MPI_Send(buf, n, type, rank, tag, inter), class); \
        REFUSED(MPI_Ssend(buf, n, type, rank, tag, inter), class); \
        REFUSED(MPI_Isend(buf, n, type, rank, tag, inter, &request), class); \
        REFUSED(MPI_Issend(buf, n, type, rank, tag, inter, &request), class); \
        REFUSED(MPI_Recv(buf, n, type, rank, tag, inter, &status), class); \
        REFUSED(MPI_Irecv(buf, n, type, rank, tag, inter, &request), class); \
        REFUSED(MPI_Sendrecv(buf, n, type, rank, tag, buffer, 1, MPI_INT, MPI_PROC_NULL, 0, inter, &status), class); \
        REFUSED(MPI_Sendrecv(buffer, 1, MPI_INT, MPI_PROC_NULL, 0, buf, n, type, rank, tag, inter, &status), class); \
    } while (0)
    EACH(buffer, 1, MPI_INT, theirs, 0, MPI_ERR_RANK);
    EACH(buffer, 1, MPI_INT, -77, 0, MPI_ERR_RANK);
    EACH(buffer, 1, MPI_INT, 0, -77, MPI_ERR_TAG);
    EACH(buffer, -1, MPI_INT, 0, 0, MPI_ERR_COUNT);
    EACH(buffer, 1, MPI_DATATYPE_NULL, 0, 0, MPI_ERR_TYPE);
    EACH(NULL, 1, MPI_INT, 0, 0, MPI_ERR_BUFFER);
    REFUSED(MPI_Send(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 0, inter), MPI_ERR_RANK);
    REFUSED(MPI_Send(buffer, 1, MPI_INT, 0, MPI_ANY_TAG, inter), MPI_ERR_TAG);
    REFUSED(MPI_Probe(theirs, 0, inter, &status), MPI_ERR_RANK);
    REFUSED(MPI_Probe(0, -77, inter, &status), MPI_ERR_TAG);
    REFUSED(MPI_Iprobe(theirs, 0, inter, &flag, &status), MPI_ERR_RANK);
    REFUSED(MPI_Iprobe(0, -77, inter, &flag, &status), MPI_ERR_TAG);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag));
    if (flag && *bound < 0x7fffffff) REFUSED(MPI_Send(buffer, 1, MPI_INT, 0, *bound + 1, inter), MPI_ERR_TAG);

    /* The handler is the communicator's own, called with it. */
    MPI_Errhandler counting;
    OK(MPI_Comm_create_errhandler(handler, &counting));
    OK(MPI_Comm_set_errhandler(inter, counting));
    handler_calls = 0;
    handler_comm = MPI_COMM_NULL;
    REFUSED(MPI_Send(buffer, 1, MPI_INT, theirs, 0, inter), MPI_ERR_RANK);
    SAME(handler_calls, 1);
    CHECK(handler_comm == inter);
    SAME(kit_class(handler_code), MPI_ERR_RANK);
    REFUSED(MPI_Allgather(buffer, 1, MPI_INT, buffer, 1, MPI_INT, inter), MPI_ERR_COMM);
    SAME(handler_calls, 2);
    CHECK(handler_comm == inter);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&counting));
    /* A request that failed to start was not made, and all goes on. */
    meet();
}

static void truncation(void)
{
    enum { ROOM = 1000 };
    static const int lengths[] = {ROOM + 1, 4 * ROOM, 1 << 20};
    for (int k = 0; k < 3; ++k)
        for (int p = 0; p < theirs; ++p)
            for (int turn = 0; turn < 2; ++turn) {
                size_t length = (size_t)lengths[k];
                char *buffer = kit_alloc(length + 64), after = 0;
                MPI_Status status;
                MPI_Request requests[2];
                if (turn == side) {
                    kit_fill(buffer, length, seed_out(p, 1100));
                    for (int i = 0; i < 3; ++i) OK(MPI_Send(buffer, (int)length, MPI_BYTE, p, 1100 + i, inter));
                    OK(MPI_Send("x", 1, MPI_CHAR, p, 1103, inter));
                } else {
                    memset(buffer, 0x5A, length + 64);
                    REFUSED(MPI_Recv(buffer, ROOM, MPI_BYTE, p, 1100, inter, &status), MPI_ERR_TRUNCATE);
                    CHECK(buffer[ROOM] == 0x5A && buffer[ROOM + 63] == 0x5A);
                    OK(MPI_Irecv(buffer, ROOM, MPI_BYTE, p, 1101, inter, &requests[0]));
                    REFUSED(MPI_Wait(&requests[0], &status), MPI_ERR_TRUNCATE);
                    CHECK(requests[0] == MPI_REQUEST_NULL);
                    CHECK(buffer[ROOM] == 0x5A && buffer[ROOM + 63] == 0x5A);
                    /* One of two fails: the statuses say which. */
                    MPI_Status two[2];
                    two[0].MPI_ERROR = two[1].MPI_ERROR = 12345;
                    OK(MPI_Irecv(buffer, ROOM, MPI_BYTE, p, 1102, inter, &requests[0]));
                    OK(MPI_Irecv(&after, 1, MPI_CHAR, p, 1103, inter, &requests[1]));
                    int code = MPI_Waitall(2, requests, two);
                    if (kit_class(code) != MPI_ERR_IN_STATUS)
                        kit_fail(__FILE__, __LINE__, "Waitall with one truncated: %s", kit_error(code));
                    else {
                        SAME(kit_class(two[0].MPI_ERROR), MPI_ERR_TRUNCATE);
                        /* MPI lets Waitall leave the other one pending. */
                        if (kit_class(two[1].MPI_ERROR) == MPI_ERR_PENDING)
                            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
                        else
                            SAME(two[1].MPI_ERROR, MPI_SUCCESS);
                    }
                    SAME(after, 'x');
                    CHECK(buffer[ROOM] == 0x5A && buffer[ROOM + 63] == 0x5A);
                }
                free(buffer);
            }
}

/* Everything that is not open is refused by its name, here and at once, on the far side unnoticed. */
static void refused(void)
{
    int in[8] = {0}, out[8] = {0};
    MPI_Comm comm;
    MPI_Win win;
#define NOT_OPEN(name, ...) \
    do { \
        int code = name(__VA_ARGS__); \
        ++kit_checks; \
        if (kit_class(code) != MPI_ERR_COMM || !strstr(kit_error(code), #name)) \
            kit_fail(__FILE__, __LINE__, #name " on ours: class %d, \"%s\"", kit_class(code), kit_error(code)); \
    } while (0)
    NOT_OPEN(MPI_Reduce, in, out, 1, MPI_INT, MPI_SUM, 0, inter);
    NOT_OPEN(MPI_Allreduce, in, out, 1, MPI_INT, MPI_SUM, inter);
    NOT_OPEN(MPI_Gather, in, 1, MPI_INT, out, 1, MPI_INT, 0, inter);
    NOT_OPEN(MPI_Scatter, in, 1, MPI_INT, out, 1, MPI_INT, 0, inter);
    NOT_OPEN(MPI_Allgather, in, 1, MPI_INT, out, 1, MPI_INT, inter);
    NOT_OPEN(MPI_Alltoall, in, 1, MPI_INT, out, 1, MPI_INT, inter);
    NOT_OPEN(MPI_Scan, in, out, 1, MPI_INT, MPI_SUM, inter);
    NOT_OPEN(MPI_Exscan, in, out, 1, MPI_INT, MPI_SUM, inter);
    NOT_OPEN(MPI_Intercomm_merge, inter, 0, &comm);
    NOT_OPEN(MPI_Win_create, in, sizeof in, 1, MPI_INFO_NULL, inter, &win);
#ifndef LAM_MPI
    MPI_Request request;
    NOT_OPEN(MPI_Reduce_scatter_block, in, out, 1, MPI_INT, MPI_SUM, inter);
    NOT_OPEN(MPI_Ibarrier, inter, &request);
    NOT_OPEN(MPI_Ibcast, in, 1, MPI_INT, 0, inter, &request);
    NOT_OPEN(MPI_Iallreduce, in, out, 1, MPI_INT, MPI_SUM, inter, &request);
#endif
}

/* ---- names, handles, several inter-communicators ---- */

/* The value must come over this very inter-communicator: same ranks and tags are under way on the others. */
static void swap_over(MPI_Comm over, int rank, int size, int value, int want)
{
    for (int p = 0; p < size; ++p) {
        int in = -1, out = value * 100 + rank;
        MPI_Status status;
        OK(MPI_Sendrecv(&out, 1, MPI_INT, p, 7, &in, 1, MPI_INT, p, 7, over, &status));
        is_from(&status, p, 7, MPI_INT, 1);
        SAME(in, want * 100 + p);
    }
}

static const char *also(const char *name, const char *suffix)
{
    static char text[4][200];
    static int at;
    at = (at + 1) % 4;
    snprintf(text[at], sizeof text[at], "%s%s", name, suffix);
    return text[at];
}

static void several_names(void)
{
    MPI_Comm reversed, inters[3], half;
    int handles[3], rank, result;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed));
    OK(MPI_Comm_set_errhandler(reversed, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(reversed, &rank));
    SAME(rank, mine - 1 - me);

    /* A second name for another order of the ranks. */
    OK(MPI_Conn_register(also(my_name, "-reversed"), reversed, &handles[0]));
    CHECK(handles[0] != handle);
    OK(MPI_Conn_intercomm_create(handles[0], also(their_name, "-reversed"), &inters[0]));
    OK(MPI_Comm_free(&reversed)); /* what was built on it stands */
    OK(MPI_Comm_rank(inters[0], &rank));
    SAME(rank, mine - 1 - me);

    /* The same pair of names once more, twice: the k-th meets the k-th. */
    OK(MPI_Conn_intercomm_create(handle, their_name, &inters[1]));
    OK(MPI_Conn_intercomm_create(handle, their_name, &inters[2]));
    CHECK(inters[1] != inter && inters[2] != inter && inters[1] != inters[2]);
    OK(MPI_Comm_compare(inters[1], inters[2], &result));
    SAME(result, MPI_CONGRUENT);
    OK(MPI_Comm_compare(inter, inters[2], &result));
    SAME(result, MPI_CONGRUENT);

    /* One message on each, same ranks, same tag; taken in another order than sent. */
    MPI_Request requests[4];
    MPI_Comm all[4] = {inter, inters[0], inters[1], inters[2]};
    int out[4], in;
    for (int p = 0; p < theirs; ++p) {
        for (int c = 0; c < 4; ++c) {
            out[c] = 1000 * c + me;
            OK(MPI_Isend(&out[c], 1, MPI_INT, c == 1 ? theirs - 1 - p : p, 7, all[c], &requests[c]));
        }
        for (int c = 3; c >= 0; --c) {
            OK(MPI_Recv(&in, 1, MPI_INT, c == 1 ? theirs - 1 - p : p, c % 2 ? 7 : MPI_ANY_TAG, all[c],
                        MPI_STATUS_IGNORE));
            SAME(in, 1000 * c + p);
        }
        OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    }
    /* Two of ours in one wait. */
    MPI_Request both[4];
    int from[2] = {-1, -1};
    if (me == 0) {
        for (int c = 1; c < 3; ++c) OK(MPI_Irecv(&from[c - 1], 1, MPI_INT, 0, 8, inters[c], &both[c - 1]));
        for (int c = 1; c < 3; ++c) OK(MPI_Isend(&out[c], 1, MPI_INT, 0, 8, inters[c], &both[c + 1]));
        OK(MPI_Waitall(4, both, MPI_STATUSES_IGNORE));
        SAME(from[0], 1000);
        SAME(from[1], 2000);
    }

    /* One rank alone, of many. */
    OK(MPI_Comm_split(MPI_COMM_WORLD, me == mine - 1, 0, &half));
    if (me == mine - 1) {
        MPI_Comm solo;
        int n;
        OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
        OK(MPI_Conn_register(also(my_name, "-solo"), half, &handles[1]));
        OK(MPI_Conn_intercomm_create(handles[1], also(their_name, "-solo"), &solo));
        OK(MPI_Comm_size(solo, &n));
        SAME(n, 1);
        OK(MPI_Comm_remote_size(solo, &n));
        SAME(n, 1);
        swap_over(solo, 0, 1, 5 + side, 5 + !side);
        OK(MPI_Conn_remove(handles[1]));
        OK(MPI_Comm_free(&solo));
        CHECK(solo == MPI_COMM_NULL);
    }
    OK(MPI_Comm_free(&half));
    for (int c = 0; c < 3; ++c) {
        OK(MPI_Comm_free(&inters[c]));
        CHECK(inters[c] == MPI_COMM_NULL);
    }
    OK(MPI_Conn_remove(handles[0]));
}

static void remove_and_again(void)
{
    /* Removed, its inter-communicator stands. */
    OK(MPI_Conn_remove(handle));
    swap_over(inter, me, theirs, 1, 1);
    meet();
    for (int round = 0; round < 3; ++round) {
        MPI_Comm fresh;
        int again;
        OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &again));
        OK(MPI_Conn_intercomm_create(again, their_name, &fresh));
        OK(MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN));
        swap_over(fresh, me, theirs, 10 + round, 10 + round);
        swap_over(inter, me, theirs, 20 + round, 20 + round);
        OK(MPI_Conn_remove(again));
        swap_over(fresh, me, theirs, 30 + round, 30 + round);
        OK(MPI_Comm_free(&fresh));
        meet();
    }
    OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle));
}

/* The same without an appointment: one side may still see the name that the other is about to remove. */
static void rejoin(void)
{
    for (int round = 0; round < 5; ++round) {
        MPI_Comm fresh;
        OK(MPI_Conn_remove(handle));
        OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle));
        OK(MPI_Conn_intercomm_create(handle, their_name, &fresh));
        OK(MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN));
        swap_over(fresh, me, theirs, 40 + round, 40 + round);
        OK(MPI_Comm_free(&fresh));
    }
}

static int copies;

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    ++copies;
    *flag = 0;
    return MPI_SUCCESS;
}

/* Over a communicator of which one process alone has an attribute: joining copies it nowhere. */
static void attributes(void)
{
    MPI_Comm own, other;
    int keyval, value = 5;
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &own));
    OK(MPI_Comm_create_keyval(on_copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    if (kit_rank == 0) OK(MPI_Comm_set_attr(own, keyval, &value));
    copies = 0;
    OK(MPI_Conn_register(my_name, own, &handle));
    OK(MPI_Conn_intercomm_create(handle, their_name, &other));
    OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    swap_over(other, me, theirs, 60, 60);
    SAME(copies, 0);
    OK(MPI_Comm_free(&other));
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&own));
    OK(MPI_Comm_free_keyval(&keyval));
    OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle));
}

/* Freed with a message of ours still unreceived on it; the others never notice. */
static void freed(void)
{
    MPI_Comm lost;
    MPI_Request request;
    int word = 1;
    OK(MPI_Conn_intercomm_create(handle, their_name, &lost));
    OK(MPI_Comm_set_errhandler(lost, MPI_ERRORS_RETURN));
    OK(MPI_Isend(&word, 1, MPI_INT, 0, 9, lost, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&lost));
    CHECK(lost == MPI_COMM_NULL);
    REFUSED(MPI_Send(&word, 1, MPI_INT, 0, 9, lost), MPI_ERR_COMM);
    swap_over(inter, me, theirs, 3, 3);
}

static const struct kit_section sections[] = {
    {"queries", queries},         {"send", send_recv},      {"ssend", ssend_recv},       {"sendrecv", sendrecv},
    {"wait", wait_each},          {"waitall", waitall},     {"waitany", waitany},        {"waitsome", waitsome},
    {"test", test},               {"testall", testall},     {"testany", testany},        {"testsome", testsome},
    {"test-keeps", test_keeps},   {"probe", probe},         {"matched", matched},        {"order", order},
    {"tags", tags},
    {"proc-null", proc_null},     {"types", basic_types},   {"contiguous", contiguous},  {"vectors", vectors},
    {"sizes", sizes},             {"beside", beside},       {"arguments", arguments},    {"truncation", truncation},
    {"refused", refused},         {"names", several_names}, {"again", remove_and_again}, {"rejoin", rejoin},
    {"attributes", attributes},   {"freed", freed},         {"big", big},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
