/* Threads beside MPI: `threads LEVEL MINE THEIRS SIDE SECTION...`, one half of a pair of jobs of as many ranks each. Two
 * inter-communicators join them. LEVEL is what MPI_Init_thread is asked for: for `helped` funneled is enough, for `turns`
 * serialized, for all else it takes multiple. */
#include "kit.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 6, ROUNDS = 30, EACH = 40, REQUESTS = 8, LARGE = 60000 };
static const int sizes[] = {0, 1, 1000, 4097, LARGE};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static MPI_Comm inters[2], own[THREADS];
static const char *mine, *theirs;
static int me, ranks, side, provided;

/* ---- threads ---- */

struct one {
    void (*run)(int t);
    int t;
};

static void *start(void *of)
{
    struct one *one = of;
    one->run(one->t);
    return NULL;
}

/* Runs it in so many threads at once, and something else in this one, if given. */
static void together_with(int n, void (*run)(int t), void (*meanwhile)(void))
{
    pthread_t threads[THREADS];
    struct one ones[THREADS];
    for (int t = 0; t < n; ++t) {
        ones[t] = (struct one){run, t};
        if (pthread_create(&threads[t], NULL, start, &ones[t])) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (meanwhile) meanwhile();
    for (int t = 0; t < n; ++t) pthread_join(threads[t], NULL);
}

static void together(int n, void (*run)(int t)) { together_with(n, run, NULL); }

static uint64_t seed(int from_side, int rank, int t, int k)
{
    return (uint64_t)from_side << 60 | (uint64_t)rank << 50 | (uint64_t)t << 40 | (uint64_t)k;
}

/* ---- each thread with one of its own over there ---- */

static void ping_on(MPI_Comm comm, int t, int rounds)
{
    int *out = kit_alloc(LARGE * sizeof(int)), *in = kit_alloc(LARGE * sizeof(int));
    for (int k = 0; k < rounds; ++k) {
        MPI_Status status;
        int n = sizes[k % SIZES], got = -1;
        size_t bytes = (size_t)n * sizeof(int);
        kit_fill(out, bytes, seed(side, me, t, k));
        if (side == 0) OK(MPI_Send(out, n, MPI_INT, me, t, comm));
        OK(MPI_Recv(in, LARGE, MPI_INT, me, t, comm, &status));
        if (side == 1) OK(MPI_Send(out, n, MPI_INT, me, t, comm));
        OK(MPI_Get_count(&status, MPI_INT, &got));
        SAME(got, n);
        SAME(status.MPI_SOURCE, me);
        SAME(status.MPI_TAG, t);
        HOLDS(in, bytes, seed(!side, me, t, k));
    }
    free(out), free(in);
}

static void ping(int t) { ping_on(inters[t % 2], t, ROUNDS); }
static void ping_pong(void) { together(THREADS, ping); }

static void persist(int t)
{
    int n = sizes[t % SIZES];
    size_t bytes = (size_t)n * sizeof(int);
    int *out = kit_alloc(bytes), *in = kit_alloc(bytes);
    MPI_Request both[2];
    OK(MPI_Recv_init(in, n, MPI_INT, me, t, inters[t % 2], &both[0]));
    OK(MPI_Ssend_init(out, n, MPI_INT, me, t, inters[t % 2], &both[1]));
    for (int k = 0; k < ROUNDS; ++k) {
        kit_fill(out, bytes, seed(side, me, t, k));
        OK(MPI_Startall(2, both));
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        HOLDS(in, bytes, seed(!side, me, t, k));
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));
    free(out), free(in);
}

static void persistent(void) { together(THREADS, persist); }

/* An array for each thread, with native requests in it. */
static void wait_any(int t)
{
    enum { HALF = REQUESTS / 2, MOST = 2 * REQUESTS + 2 };
    static const int lengths[REQUESTS] = {0, 1, 17, 1000, 4097, 20000, 3, 500};
    int *out[REQUESTS], *in[REQUESTS];
    for (int i = 0; i < REQUESTS; ++i) out[i] = kit_alloc(20000 * sizeof(int)), in[i] = kit_alloc(20000 * sizeof(int));
    for (int k = 0; k < ROUNDS; ++k) {
        MPI_Request all[MOST];
        MPI_Status statuses[MOST];
        int n = 0, some, indices[MOST], word = k, got = -1;
        for (int i = 0; i < REQUESTS; ++i) {
            MPI_Comm comm = inters[(t + i) % 2];
            size_t bytes = (size_t)lengths[i] * sizeof(int);
            kit_fill(out[i], bytes, seed(side, me, t, k * REQUESTS + i));
            OK(MPI_Irecv(in[i], lengths[i], MPI_INT, me, 100 * t + i, comm, &all[n++]));
            OK(MPI_Isend(out[i], lengths[i], MPI_INT, me, 100 * t + i, comm, &all[n++]));
        }
        OK(MPI_Irecv(&got, 1, MPI_INT, 0, 0, own[t], &all[n++]));
        OK(MPI_Isend(&word, 1, MPI_INT, 0, 0, own[t], &all[n++]));
        for (int left = n; left > 0; left -= some) {
            if ((t + k) % 2) {
                OK(MPI_Waitany(n, all, &indices[0], &statuses[0]));
                some = 1;
            } else
                OK(MPI_Waitsome(n, all, &some, indices, statuses));
            CHECK(some > 0 && some <= left, "%d of %d", some, left);
            if (some <= 0 || some > left) MPI_Abort(MPI_COMM_WORLD, 1);
            for (int s = 0; s < some; ++s) CHECK(indices[s] >= 0 && all[indices[s]] == MPI_REQUEST_NULL);
        }
        SAME(got, word);
        for (int i = 0; i < REQUESTS; ++i)
            HOLDS(in[i], (size_t)lengths[i] * sizeof(int), seed(!side, me, t, k * REQUESTS + i));
    }
    for (int i = 0; i < REQUESTS; ++i) free(out[i]), free(in[i]);
}

static void any(void) { together(THREADS, wait_any); }

/* ---- who takes a message is left to chance ---- */

enum { MOST_RANKS = 4 };
static _Atomic int seen[MOST_RANKS][THREADS][EACH];

static void send_each(int t)
{
    int *out = kit_alloc(6000 * sizeof(int));
    for (int k = 0; k < EACH; ++k)
        for (int to = 0; to < ranks; ++to) {
            int n = 3 + (k % 8 == 0 ? 5900 : k);
            out[0] = t, out[1] = k, out[2] = n;
            for (int i = 3; i < n; ++i) out[i] = t + k + i;
            OK(MPI_Send(out, n, MPI_INT, to, t, inters[0]));
        }
    free(out);
}

static int by_match;

static void take_each(int t)
{
    int *in = kit_alloc(6000 * sizeof(int)), last[MOST_RANKS][THREADS], got = -1, wrong = 0;
    memset(last, -1, sizeof last);
    for (int k = 0; k < EACH * ranks; ++k) {
        MPI_Status status;
        int flag = 0;
        if (by_match) {
#ifndef LAM_MPI
            MPI_Message message;
            if (t % 2) OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inters[0], &message, &status));
            while (t % 2 == 0 && !flag) {
                POLL(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, inters[0], &flag, &message, &status));
                if (!flag) sched_yield();
            }
            OK(MPI_Mrecv(in, 6000, MPI_INT, &message, &status));
#endif
        } else
            OK(MPI_Recv(in, 6000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inters[0], &status));
        (void)flag, (void)t;
        OK(MPI_Get_count(&status, MPI_INT, &got));
        SAME(got, in[2]);
        SAME(status.MPI_TAG, in[0]);
        int source = status.MPI_SOURCE;
        if (source < 0 || source >= ranks || in[0] < 0 || in[0] >= THREADS || in[1] < 0 || in[1] >= EACH)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 3; i < in[2]; ++i) wrong += in[i] != in[0] + in[1] + i;
        ++seen[source][in[0]][in[1]];
        CHECK(in[1] > last[source][in[0]], "%d after %d of rank %d", in[1], last[source][in[0]], source);
        last[source][in[0]] = in[1];
    }
    SAME(wrong, 0);
    free(in);
}

/* One way, then the other. */
static void by_chance(void)
{
    for (int way = 0; way < 2; ++way) {
        memset((void *)seen, 0, sizeof seen);
        if (side == way) {
            together(THREADS, send_each);
            continue;
        }
        together(THREADS, take_each);
        for (int r = 0; r < ranks; ++r)
            for (int t = 0; t < THREADS; ++t)
                for (int k = 0; k < EACH; ++k) SAME(seen[r][t][k], 1);
    }
}

static void wildcards(void) { by_match = 0, by_chance(); }
static void matched(void) { by_match = 1, by_chance(); }

/* ---- one thread in our call, one in a native call: a ring that ends only if both go on ---- */

static void beside_one(int t)
{
    enum { NATIVE = 200000 };
    int before = (me + ranks - 1) % ranks, after = (me + 1) % ranks, word = -1;
    char *data = kit_alloc(NATIVE);
    for (int k = 0; k < ROUNDS; ++k) {
        int n = k % 2 ? NATIVE : 8;
        if (t == 0) {
            /* Native: from rank to rank of our job; what comes is told to the other job. */
            if (me == 0) {
                OK(MPI_Recv(&word, 1, MPI_INT, 0, 3, inters[0], MPI_STATUS_IGNORE));
                SAME(word, k);
                kit_fill(data, (size_t)n, (uint64_t)k);
            } else {
                OK(MPI_Recv(data, n, MPI_BYTE, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                HOLDS(data, (size_t)n, (uint64_t)k);
            }
            if (me != ranks - 1) OK(MPI_Send(data, n, MPI_BYTE, after, 3, MPI_COMM_WORLD));
            OK(MPI_Send(data, n, MPI_BYTE, me, 4, inters[1]));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        } else {
            /* Ours: blocked meanwhile; the last of the other job's ring starts the next round. */
            if (me == 0) OK(MPI_Send(&k, 1, MPI_INT, 0, 3, inters[0]));
            OK(MPI_Recv(data, n, MPI_BYTE, me, 4, inters[1], MPI_STATUS_IGNORE));
            HOLDS(data, (size_t)n, (uint64_t)k);
        }
    }
    free(data);
}

static void beside(void) { together(2, beside_one); }

/* ---- inter-communicators that come and go ---- */

static void come_and_go(int t)
{
    char here[300], there[300];
    int handle;
    MPI_Comm comm;
    snprintf(here, sizeof here, "%s-%d", mine, t);
    snprintf(there, sizeof there, "%s-%d", theirs, t);
    for (int k = 0; k < 4; ++k) {
        OK(MPI_Conn_register(here, own[t], &handle));
        OK(MPI_Conn_intercomm_create(handle, there, &comm));
        OK(MPI_Conn_remove(handle));
        /* Alone in its half, so that it is rank 0 on either side. */
        int out = 10 * me + k, in = -1;
        OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, t, &in, 1, MPI_INT, 0, t, comm, MPI_STATUS_IGNORE));
        SAME(in, out);
        OK(MPI_Comm_free(&comm));
        CHECK(comm == MPI_COMM_NULL);
    }
}

/* Names are of the whole machine: only rank 0 makes some, each thread its own. */
static void make_or_ping(int t)
{
    if (t >= 2) ping(t);
    else if (me == 0) come_and_go(t);
}

static void create(void) { if (me == 0) together(2, come_and_go); }
static void release(void) { together(THREADS, make_or_ping); }

/* ---- one call at a time ---- */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
#define TURN(call) \
    do { \
        pthread_mutex_lock(&turn); \
        POLL(call); \
        pthread_mutex_unlock(&turn); \
    } while (0)

static void take_turns(int t)
{
    int *out = kit_alloc(LARGE * sizeof(int)), *in = kit_alloc(LARGE * sizeof(int));
    for (int k = 0; k < ROUNDS; ++k) {
        MPI_Request both[2];
        int n = sizes[k % SIZES], done = 0;
        size_t bytes = (size_t)n * sizeof(int);
        kit_fill(out, bytes, seed(side, me, t, k));
        TURN(MPI_Irecv(in, n, MPI_INT, me, t, inters[t % 2], &both[0]));
        TURN(MPI_Isend(out, n, MPI_INT, me, t, inters[t % 2], &both[1]));
        while (!done) {
            TURN(MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE));
            if (!done) sched_yield();
        }
        HOLDS(in, bytes, seed(!side, me, t, k));
    }
    free(out), free(in);
}

static void turns(void) { together(THREADS, take_turns); }

/* ---- threads that make and check the data, and leave every call to the main one ---- */

static struct {
    _Atomic enum { AT_WORK, FILLED, UNDER_WAY, ARRIVED } state;
    int *out, *in;
} slots[THREADS];

static void help(int t)
{
    for (int k = 0; k < ROUNDS; ++k) {
        size_t bytes = (size_t)sizes[k % SIZES] * sizeof(int);
        kit_fill(slots[t].out, bytes, seed(side, me, t, k));
        slots[t].state = FILLED;
        while (slots[t].state != ARRIVED) sched_yield();
        HOLDS(slots[t].in, bytes, seed(!side, me, t, k));
        slots[t].state = AT_WORK;
    }
}

static void carry(void)
{
    MPI_Request both[THREADS][2];
    int rounds[THREADS] = {0}, done, is_main = 0;
    OK(MPI_Is_thread_main(&is_main));
    SAME(is_main, 1);
    for (int left = THREADS * ROUNDS; left > 0; sched_yield())
        for (int t = 0; t < THREADS; ++t) {
            int n = sizes[rounds[t] % SIZES];
            if (slots[t].state == FILLED) {
                OK(MPI_Irecv(slots[t].in, n, MPI_INT, me, t, inters[t % 2], &both[t][0]));
                OK(MPI_Isend(slots[t].out, n, MPI_INT, me, t, inters[t % 2], &both[t][1]));
                slots[t].state = UNDER_WAY;
            } else if (slots[t].state == UNDER_WAY) {
                POLL(MPI_Testall(2, both[t], &done, MPI_STATUSES_IGNORE));
                if (done) ++rounds[t], --left, slots[t].state = ARRIVED;
            }
        }
}

static void helped(void)
{
    for (int t = 0; t < THREADS; ++t) {
        slots[t].out = kit_alloc(LARGE * sizeof(int)), slots[t].in = kit_alloc(LARGE * sizeof(int));
        slots[t].state = AT_WORK;
    }
    together_with(THREADS, help, carry);
    for (int t = 0; t < THREADS; ++t) free(slots[t].out), free(slots[t].in);
}

/* ---- */

static const struct kit_section sections[] = {
    {"ping-pong", ping_pong}, {"persistent", persistent}, {"any", any},         {"wildcards", wildcards},
    {"matched", matched},     {"beside", beside},         {"create", create},   {"release", release},
    {"turns", turns},         {"helped", helped},
};

static int level_of(const char *word)
{
    return !strcmp(word, "funneled")     ? MPI_THREAD_FUNNELED
           : !strcmp(word, "serialized") ? MPI_THREAD_SERIALIZED
                                         : MPI_THREAD_MULTIPLE;
}

int main(int argc, char **argv)
{
    int handle, word = 0, before = 0;
    if (argc < 6) {
        fprintf(stderr, "threads LEVEL MINE THEIRS SIDE SECTION...\n");
        return 2;
    }
    int asked = level_of(argv[1]), told = -1;
    MPI_Init_thread(&argc, &argv, asked, &provided);
    mine = argv[2], theirs = argv[3], side = atoi(argv[4]), kit_label = argv[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    kit_rank = me;
    OK(MPI_Query_thread(&told));
    SAME(told, provided);
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &handle));
    for (int i = 0; i < 2; ++i) OK(MPI_Conn_intercomm_create(handle, theirs, &inters[i]));
    OK(MPI_Conn_remove(handle));
    for (int t = 0; t < THREADS; ++t) OK(MPI_Comm_dup(MPI_COMM_SELF, &own[t]));
    for (int s = 5; s < argc; ++s) {
        const struct kit_section *section = kit_begin(sections, sizeof sections / sizeof sections[0], argv[s]);
        int needed = section->run == helped  ? MPI_THREAD_FUNNELED
                     : section->run == turns ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
        CHECK(asked >= needed, "%s is not for level %d", section->name, asked);
        CHECK(provided >= needed, "%s: level %d, not %d", section->name, provided, needed);
        if (provided < needed) continue;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        section->run();
        OK(MPI_Barrier(MPI_COMM_WORLD));
        /* The other job is as far. Not told where wildcards wait: they might still wait for another rank's messages. */
        OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, me, 9999, me, 9999, inters[1], MPI_STATUS_IGNORE));
        if (me == 0) {
            printf("SECTION %s %ld\n", section->name, kit_checks - before);
            fflush(stdout);
        }
        before = (int)kit_checks;
    }
    for (int t = 0; t < THREADS; ++t) OK(MPI_Comm_free(&own[t]));
    for (int i = 0; i < 2; ++i) OK(MPI_Comm_free(&inters[i]));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
