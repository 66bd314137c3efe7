/* A model whose messages depend on what it happens to find: receives from any source, tests, probes, waits for any of several
 * requests. It makes checkpoints, and goes on from them.
 *
 *     choosing MINE THEIRS FOLDER STEPS EVERY [matched]
 *
 * All that is found goes into a number, of each rank, and through its own job's messages into those of the other ranks. A message has
 * the sender's number, and that of the message before: so its receiver sees whether a sender that was restarted has found
 * something else than what it had told of. What is received in all does
 * not depend on the order, and is the result. With `matched` it uses matched probes, which LAM does not have.
 */
#include "kit.h"
#include <stddef.h>
#include <stdint.h>

#define NUMBER MPI_UNSIGNED_LONG

enum { LAG = 2, MOST = 20000, RANKS = 8, AHEAD = 2, STEPS = 1000, WINDOW = 16 };

typedef struct {
    uint64_t number, before, serial;
    uint64_t data[MOST];
} Message;

typedef struct {
    int step, ahead;
    uint64_t found, told[RANKS], sent[RANKS], heard[RANKS], last[RANKS], sum;
    /* What has come from a rank, by serial: a receive that was posted later may be found earlier. */
    struct { uint64_t serial, number, before; } come[RANKS][WINDOW];
} State;

static int me, size, remote;
static State state;
static char label[MPI_CONN_MAX_LABEL];
static const char *folder, *mine;
static MPI_Comm other;
static Message in[RANKS + AHEAD];
/* No send is waited for before the end: which messages a receiver takes first is its own choice. */
static MPI_Request sends[STEPS * RANKS], ahead[AHEAD];
static Message *out[STEPS * RANKS];
static int sent, matched;

static uint64_t mixed(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9e3779b97f4a7c15u;
    return a ^ a >> 29;
}

static void find(uint64_t what) { state.found = mixed(state.found, what); }

static const char *file(const char *of, const char *end)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d-%s%s", folder, mine, me, of, end);
    return path;
}

static void write_state(const char *of)
{
    char aside[4096];
    snprintf(aside, sizeof aside, "%s", file(of, ".part"));
    FILE *f = fopen(aside, "w");
    CHECK(f && fwrite(&state, sizeof state, 1, f) == 1 && !fflush(f) && !fclose(f), "%s", aside);
    CHECK(!rename(aside, file(of, "")));
}

static void read_state(const char *of)
{
    FILE *f = fopen(file(of, ""), "r");
    CHECK(f && fread(&state, sizeof state, 1, f) == 1, "%s", file(of, ""));
    if (f) fclose(f);
}

/* How many numbers the message of this serial has. */
static int amount(uint64_t serial, int from, int to)
{
    static const int sizes[] = {1, 0, 50, 900, 3, MOST, 12, 4000};
    return sizes[(serial + 3 * from + 5 * to) % 8];
}

static void take(const Message *m, const MPI_Status *status)
{
    int count, from = status->MPI_SOURCE;
    OK(MPI_Get_count((MPI_Status *)status, NUMBER, &count));
    uint64_t serial = m->serial;
    CHECK(serial >= state.heard[from] && serial < state.heard[from] + WINDOW, "%llu", (unsigned long long)serial);
    SAME(status->MPI_TAG, (int)(m->serial % 3));
    SAME(count, 3 + amount(m->serial, from, me));
    CHECK(!state.come[from][serial % WINDOW].serial, "message %llu of rank %d twice", (unsigned long long)serial, from);
    state.come[from][serial % WINDOW].serial = serial + 1;
    state.come[from][serial % WINDOW].number = m->number;
    state.come[from][serial % WINDOW].before = m->before;
    for (serial = state.heard[from]; state.come[from][serial % WINDOW].serial == serial + 1; ++serial) {
        CHECK(state.come[from][serial % WINDOW].before == state.last[from],
              "%s %d: rank %d has found something else before its message %llu", mine, me, from,
              (unsigned long long)serial);
        state.last[from] = state.come[from][serial % WINDOW].number;
        state.come[from][serial % WINDOW].serial = 0;
    }
    state.heard[from] = serial;
    for (int i = 0; i < count - 3; ++i) state.sum += m->data[i] * (i + 1);
    find(m->number ^ from);
}

static void post(int i) { OK(MPI_Irecv(&in[RANKS + i], 3 + MOST, NUMBER, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &ahead[i])); }

static void begin(int i) { post(i), ++state.ahead; }

/* Receives so many messages, each time in another way. */
static void receive(int step, int left)
{
    MPI_Status statuses[RANKS], *status = &statuses[0];
    MPI_Request requests[RANKS];
    int flag, index, indices[RANKS], some;
    /* Those that were posted in an earlier step come first. */
    while (state.ahead > 0) {
        OK(MPI_Waitany(AHEAD, ahead, &index, status));
        find(index), take(&in[RANKS + index], status), --state.ahead, --left;
    }
    while (left > 0) {
        int how = ++step % 7;
        if (how == 4 && !matched) how = 5;
        switch (how) {
        case 0:
            OK(MPI_Recv(&in[0], 3 + MOST, NUMBER, MPI_ANY_SOURCE, MPI_ANY_TAG, other, status));
            take(&in[0], status), --left;
            break;
        case 1:
            some = left < 2 ? left : 2;
            for (int i = 0; i < some; ++i)
                OK(MPI_Irecv(&in[i], 3 + MOST, NUMBER, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &requests[i]));
            for (int i = 0, active = some; active > 0; i = (i + 1) % some) {
                if (requests[i] == MPI_REQUEST_NULL) continue;
                OK(MPI_Test(&requests[i], &flag, status));
                find(flag);
                if (flag) take(&in[i], status), --left, --active;
            }
            break;
        case 2:
            for (flag = 0; !flag; find(flag)) OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, status));
            OK(MPI_Recv(&in[0], 3 + MOST, NUMBER, status->MPI_SOURCE, status->MPI_TAG, other, status));
            take(&in[0], status), --left;
            break;
        case 3:
            some = left < 2 ? left : 2;
            for (int i = 0; i < some; ++i)
                OK(MPI_Irecv(&in[i], 3 + MOST, NUMBER, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &requests[i]));
            for (int n = some; n > 0; --n) {
                if (n % 2) {
                    OK(MPI_Waitany(some, requests, &index, status));
                } else {
                    for (flag = 0; !flag; find(flag)) OK(MPI_Testany(some, requests, &index, &flag, status));
                }
                find(index), take(&in[index], status), --left;
            }
            break;
#if MPI_VERSION >= 3
        case 4: {
            MPI_Message message;
            if (left % 2) {
                OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &message, status));
            } else {
                for (flag = 0; !flag; find(flag))
                    OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, &message, status));
            }
            OK(MPI_Mrecv(&in[0], 3 + MOST, NUMBER, &message, status));
            take(&in[0], status), --left;
            break;
        }
#endif
        case 5:
            for (int i = 0; i < left; ++i)
                OK(MPI_Irecv(&in[i], 3 + MOST, NUMBER, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &requests[i]));
            for (int all = left; left > 0;) {
                if (left % 2)
                    OK(MPI_Waitsome(all, requests, &some, indices, statuses));
                else
                    OK(MPI_Testsome(all, requests, &some, indices, statuses));
                find(some);
                for (int i = 0; i < some; ++i) find(indices[i]), take(&in[indices[i]], &statuses[i]), --left;
            }
            break;
        default:
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, status));
            OK(MPI_Irecv(&in[0], 3 + MOST, NUMBER, status->MPI_SOURCE, status->MPI_TAG, other, &requests[0]));
            for (flag = 0; !flag; find(flag)) OK(MPI_Testall(1, requests, &flag, status));
            take(&in[0], status), --left;
        }
    }
}

int main(int argc, char **argv)
{
    int handle, count = -1;
    MPI_Comm comms[2];
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me, kit_label = argv[1];
    mine = argv[1], folder = argv[3];
    int steps = atoi(argv[4]), every = atoi(argv[5]);
    matched = argc > 6;
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_restart(handle, folder, label, 2, comms, &count));
    if (count == 0) {
        OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    } else {
        SAME(count, 1);
        other = comms[0];
        read_state(label);
    }
    if (me == 0) printf("FROM %d\n", state.step), fflush(stdout);
    OK(MPI_Comm_remote_size(other, &remote));
    for (int i = 0; i < AHEAD; ++i) ahead[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < state.ahead; ++i) post(i);
    for (int first = state.step;; ++state.step) {
        int step = state.step;
        /* Not once the other job may have left: it could not go on from such a checkpoint, which is of this one alone. */
        if (step % every == 0 && step > first && step < steps) {
            char name[32];
            snprintf(name, sizeof name, "step-%d", step);
            write_state(name);
            OK(MPI_Conn_checkpoint(handle, folder, name));
        }
        if (step == steps + LAG) break;
        for (int to = 0; to < remote && step < steps; ++to) {
            int n = amount(state.sent[to], me, to);
            Message *m = out[sent] = malloc(offsetof(Message, data) + n * sizeof m->data[0]);
            MPI_Request *request = &sends[sent++];
            m->serial = state.sent[to]++;
            m->before = state.told[to], m->number = state.told[to] = mixed(state.found, to);
            for (int i = 0; i < n; ++i) m->data[i] = (m->serial + 1) * (i + 7) + me;
            if (step % 3 == 0)
                OK(MPI_Issend(m, 3 + n, NUMBER, to, (int)(m->serial % 3), other, request));
            else
                OK(MPI_Isend(m, 3 + n, NUMBER, to, (int)(m->serial % 3), other, request));
        }
        if (step >= LAG) receive(step, remote);
        /* The next step, after a checkpoint or not, completes these. */
        if (step >= LAG && step + 1 < steps + LAG)
            for (int i = 0; i < AHEAD && i < remote && step % 3; ++i) begin(i);
        /* What one rank has found concerns the others of its job. */
        uint64_t all[RANKS];
        OK(MPI_Allgather(&state.found, 1, NUMBER, all, 1, NUMBER, MPI_COMM_WORLD));
        for (int i = 0; i < size; ++i) find(all[i]);
    }
    OK(MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE));
    while (sent > 0) free(out[--sent]);
    printf("RESULT %d %016llx\n", me, (unsigned long long)state.sum);
    int failed = kit_end();
    OK(MPI_Comm_free(&other));
    OK(MPI_Conn_remove(handle));
    MPI_Finalize();
    return failed;
}
