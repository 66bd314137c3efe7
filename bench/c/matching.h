/* What it costs to find the receive for a message, or the message for a receive, among many. For mpi.c.
 *
 * A value is nanoseconds a message. Where each message is a long search, as many are taken as a time allows, at full
 * depth; the rest goes in order and is not counted. */
#ifndef MATCHING_H
#define MATCHING_H

enum { IN_ORDER, REVERSED, RANDOM, WILD, ORDERS };
enum { BATCH = 10 };
static const char *const order_names[ORDERS] = {"in order", "reversed", "random", "wildcards"};

/* Tags of its messages lie above those of the bench itself. */
enum { FIRST_TAG = 100 };

/* Both sides draw the same. */
static void draw_order(int *order, int depth, int kind)
{
    uint64_t state = 12345;
    for (int i = 0; i < depth; ++i) order[i] = kind == REVERSED ? depth - 1 - i : i;
    for (int i = depth - 1; kind == RANDOM && i > 0; --i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int j = (int)((state >> 33) % (uint64_t)(i + 1)), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

static int64_t *slots;
static int *order;
static MPI_Request *posted_requests;
static char *taken;

static void send_word(int index)
{
    int64_t word = index;
    MPI_Send(&word, 8, MPI_BYTE, other, FIRST_TAG + index, comm);
}

/* `depth` receives stand; messages come in batches that are asked for, at every depth the same. Side 0 receives. Adds
 * the seconds and the messages that count to `spent` and `counted`; posting counts. */
static void posted(int depth, int kind, double limit, double *spent, double *counted)
{
    int32_t batch;
    if (channel.side) {
        int at = 0;
        memset(taken, 0, (size_t)depth);
        while (at < depth) {
            mpi_recv(&batch, sizeof batch);
            if (!batch) { /* the rest */
                for (int i = 0; i < depth; ++i)
                    if (!taken[i]) send_word(i);
                break;
            }
            for (int i = 0; i < batch; ++i, ++at) {
                taken[order[at]] = 1;
                send_word(order[at]);
            }
        }
        return;
    }
    double start = now();
    for (int i = 0; i < depth; ++i)
        MPI_Irecv(&slots[i], 8, MPI_BYTE, kind == WILD ? MPI_ANY_SOURCE : other,
                  kind == WILD ? MPI_ANY_TAG : FIRST_TAG + i, comm, &posted_requests[i]);
    double posting = now() - start, matching_time = 0;
    int at = 0;
    while (at < depth && matching_time < limit) {
        MPI_Request some[BATCH];
        batch = depth - at < BATCH ? depth - at : BATCH;
        start = now();
        mpi_send(&batch, sizeof batch);
        for (int i = 0; i < batch; ++i) some[i] = posted_requests[order[at + i]];
        MPI_Waitall(batch, some, MPI_STATUSES_IGNORE);
        matching_time += now() - start;
        for (int i = 0; i < batch; ++i) posted_requests[order[at + i]] = MPI_REQUEST_NULL;
        at += batch;
    }
    if (at < depth) {
        batch = 0;
        mpi_send(&batch, sizeof batch);
    }
    int done = at;
    for (int i = 0; i < depth; ++i)
        if (posted_requests[i] != MPI_REQUEST_NULL) MPI_Wait(&posted_requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < depth; ++i)
        if (slots[i] != i && (kind != WILD || done == depth)) fail("a receive got another one's message");
    *spent += matching_time + posting * done / depth;
    *counted += done;
}

/* `depth` messages are there before any is asked for. */
static void unexpected(int depth, int kind, double limit, double *spent, double *counted)
{
    if (channel.side) {
        for (int i = 0; i < depth; ++i) send_word(i);
        mpi_send(NULL, 0);
        return;
    }
    mpi_recv(NULL, 0); /* sent last: all others have come */
    memset(taken, 0, (size_t)depth);
    double time = 0;
    int at = 0;
    while (at < depth && time < limit) {
        int batch = depth - at < BATCH ? depth - at : BATCH;
        double start = now();
        for (int i = 0; i < batch; ++i) {
            int index = order[at + i];
            MPI_Recv(&slots[index], 8, MPI_BYTE, kind == WILD ? MPI_ANY_SOURCE : other,
                     kind == WILD ? MPI_ANY_TAG : FIRST_TAG + index, comm, MPI_STATUS_IGNORE);
            taken[index] = 1;
        }
        time += now() - start;
        at += batch;
    }
    int done = at;
    for (int i = 0; i < depth; ++i)
        if (!taken[i]) MPI_Recv(&slots[i], 8, MPI_BYTE, other, FIRST_TAG + i, comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < depth; ++i)
        if (slots[i] != i) fail("a receive got another one's message");
    *spent += time;
    *counted += done;
}

static void matching(void)
{
    static const int depths[] = {10, 1000, 100000};
    enum { DEEPEST = 100000 };
    slots = (int64_t *)(void *)memory(DEEPEST * sizeof *slots);
    order = (int *)(void *)memory(DEEPEST * sizeof *order);
    posted_requests = (MPI_Request *)(void *)memory(DEEPEST * sizeof *posted_requests);
    taken = memory(DEEPEST);
    for (int early = 0; early < 2; ++early)
        for (int kind = 0; kind < ORDERS; ++kind)
            for (size_t d = 0; d < sizeof depths / sizeof depths[0]; ++d) {
                int depth = depths[d], times = depth < 2000 ? 2000 / depth : 1, few = samples < 3 ? samples : 3;
                double values[MOST_SAMPLES];
                char row[64];
                snprintf(row, sizeof row, "matching %s, %s", early ? "unexpected" : "posted", order_names[kind]);
#ifdef LAM_MPI
                if (depth == DEEPEST && !early && comm == MPI_COMM_WORLD) {
                    if (!channel.side)
                        report(row, depth, "not tried: LAM walks over all requests at each that is posted", NULL, 0);
                    continue;
                }
#endif
                draw_order(order, depth, kind);
                /* The first one warms up, where it is cheap. */
                for (int s = depth < DEEPEST ? -1 : 0; s < few; ++s) {
                    double spent = 0, counted = 0;
                    for (int t = 0; t < times; ++t) {
                        meet();
                        (early ? unexpected : posted)(depth, kind, 10 * slice, &spent, &counted);
                    }
                    if (s >= 0) values[s] = 1e9 * spent / counted;
                }
                if (!channel.side) report(row, depth, "ns", values, few);
            }
}

#endif
