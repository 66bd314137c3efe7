/* One half of a pair of jobs of as many ranks each: `partitioned NAME OTHER SIDE SECTION...`. Rank r talks to rank r of
 * the other job, in partitions that the two sides cut differently; every value is checked where it arrives. */
#include "partner.h"

#include <pthread.h>

static int threads;

static int arrived(MPI_Request request, int partition)
{
    int flag = -1;
    POLL(MPI_Parrived(request, partition, &flag));
    return flag;
}
static void await(MPI_Request request, int partition)
{
    while (!arrived(request, partition)) {}
}

/* What each side cuts: its send, and its receive. */
static const int cuts[2][2] = {{12, 20}, {5, 8}};
enum { ROUNDS = 6 };

/* ---- out of order, again and again, completed in every way ---- */

static void rounds_of(int total, MPI_Datatype received, int stride, int tag)
{
    int out_cut = cuts[side][0], in_cut = cuts[side][1];
    int *out = numbers(total), *in = numbers(total * stride), *packed = numbers(total);
    MPI_Request both[2];
    MPI_Status statuses[2];
    OK(MPI_Psend_init(out, out_cut, total / out_cut, MPI_INT, me, tag, inter, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(in, in_cut, total / in_cut, received, me, tag, inter, MPI_INFO_NULL, &both[1]));
    MPI_Request kept[2] = {both[0], both[1]};
    for (int round = 0; round < ROUNDS; ++round) {
        int flag, list[12], n = 0, index;
        memset(in, 0, BYTES(total * stride));
        for (int k = 0; k < in_cut; ++k) SAME(arrived(both[1], k), 1); /* not started: nothing is awaited */
        OK(MPI_Startall(2, both));
        kit_fill(out, BYTES(total), seed_out(tag + round));
        switch (round) {
        case 0:
            for (int p = out_cut - 1; p >= 0; --p) OK(MPI_Pready(p, both[0]));
            break;
        case 1:
            OK(MPI_Pready_range(1, out_cut - 1, both[0]));
            OK(MPI_Pready_range(0, 0, both[0]));
            break;
        case 2:
            for (int p = 1; p < out_cut; p += 2) list[n++] = p;
            OK(MPI_Pready_list(n, list, both[0]));
            OK(MPI_Pready_list(0, list, both[0]));
            n = 0;
            for (int p = (out_cut - 1) / 2 * 2; p >= 0; p -= 2) list[n++] = p;
            OK(MPI_Pready_list(n, list, both[0]));
            break;
        default:
            for (int p = 0; p < out_cut; ++p) OK(MPI_Pready((p * 7 + 3) % out_cut, both[0]));
        }
        switch (round) {
        case 0:
            OK(MPI_Waitall(2, both, statuses));
            break;
        case 1:
            for (int k = in_cut - 1; k >= 0; --k) await(both[1], k);
            OK(MPI_Wait(&both[1], &statuses[1]));
            OK(MPI_Wait(&both[0], &statuses[0]));
            break;
        case 2:
            for (int i = 0; i < 2; ++i)
                do POLL(MPI_Test(&both[i], &flag, &statuses[i]));
                while (!flag);
            break;
        case 3:
            for (int left = 2; left; --left) {
                MPI_Status status;
                OK(MPI_Waitany(2, both, &index, &status));
                CHECK(index == 0 || index == 1, "index %d", index);
                statuses[index == 1] = status;
            }
            break;
        case 4:
            do POLL(MPI_Request_get_status(both[1], &flag, &statuses[1]));
            while (!flag);
            is_from(&statuses[1], tag, total);
            for (int k = 0; k < in_cut; ++k) SAME(arrived(both[1], k), 1);
            OK(MPI_Waitall(2, both, statuses));
            break;
        default:
            do POLL(MPI_Testall(2, both, &flag, statuses));
            while (!flag);
        }
        CHECK(both[0] == kept[0] && both[1] == kept[1]);
        is_from(&statuses[1], tag, total);
        for (int i = 0; i < total; ++i) packed[i] = in[i * stride];
        HOLDS(packed, BYTES(total), seed_in(tag + round));
        for (int i = 0; i < total * stride; ++i)
            if (i % stride && in[i]) kit_fail(__FILE__, __LINE__, "number %d was written", i);
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));
    CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
    free(out);
    free(in);
    free(packed);
}

static void whole(void)
{
    MPI_Datatype every_third;
    OK(MPI_Type_create_resized(MPI_INT, 0, 3 * (MPI_Aint)sizeof(int), &every_third));
    OK(MPI_Type_commit(&every_third));
    rounds_of(120, MPI_INT, 1, 100);
    rounds_of(600000, MPI_INT, 1, 200);
    rounds_of(12000, every_third, 3, 300);
    OK(MPI_Type_free(&every_third));
}

/* ---- in step: each partition is on its way before the next one is written ---- */

enum { STEPS = 6 };

static void step_out(int each, int tag)
{
    int *all = numbers(STEPS * each), flag;
    MPI_Request request;
    OK(MPI_Psend_init(all, STEPS, each, MPI_INT, me, tag, inter, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; ++round) {
        memset(all, 0xA5, BYTES(STEPS * each));
        OK(MPI_Start(&request));
        for (int k = 0; k < STEPS; ++k) {
            int p = (k * 5 + 2) % STEPS;
            kit_fill(all + p * each, BYTES(each), seed_out(tag + p + 1000 * round));
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            SAME(flag, 0);
            OK(MPI_Pready(p, request));
            hear(20);
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&request));
    free(all);
}

static void step_in(int each, int tag, int cut)
{
    int total = STEPS * each, part = total / cut, *all = numbers(total);
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Precv_init(all, cut, part, MPI_INT, me, tag, inter, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; ++round) {
        int here[STEPS] = {0};
        memset(all, 0xA5, BYTES(total));
        OK(MPI_Start(&request));
        for (int k = 0; k < STEPS; ++k) {
            int p = (k * 5 + 2) % STEPS;
            here[p] = 1;
            for (int q = 0; q < cut; ++q) {
                int whole = 1;
                for (int i = q * part / each; i <= ((q + 1) * part - 1) / each; ++i) whole &= here[i];
                if (whole)
                    await(request, q);
                else
                    SAME(arrived(request, q), 0);
            }
            /* With fewer partitions than the sender nothing tells that this one is here: it is looked at in the end. */
            if (cut >= STEPS) HOLDS(all + p * each, BYTES(each), seed_in(tag + p + 1000 * round));
            int early = 0;
            for (int i = 0; i < total; ++i) early += !here[i / each] && all[i] != (int)0xA5A5A5A5;
            SAME(early, 0);
            tell(20);
        }
        OK(MPI_Wait(&request, &status));
        is_from(&status, tag, total);
        for (int p = 0; p < STEPS; ++p) HOLDS(all + p * each, BYTES(each), seed_in(tag + p + 1000 * round));
    }
    OK(MPI_Request_free(&request));
    free(all);
}

static void step(void)
{
    static const int sizes[] = {2, 5000, 60000}, cut[] = {12, 6, 3};
    for (int s = 0; s < 3; ++s)
        for (int turn = 0; turn < 2; ++turn)
            for (int c = 0; c < 3; ++c) {
                if (side == turn)
                    step_out(sizes[s], 400 + s);
                else
                    step_in(sizes[s], 400 + s, cut[c]);
            }
}

/* ---- partitioned operations match each other alone, in the order in which they were made ---- */

static void matching(void)
{
    enum { N = 3 };
    MPI_Request out[N], in[N], plain;
    MPI_Status status;
    int a[N][4], b[N][4], word = -1, flag = -1, mine_word = 70 + side;
    OK(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &plain));
    for (int i = 0; i < N; ++i) {
        OK(MPI_Psend_init(a[i], 2, 2, MPI_INT, me, 7, inter, MPI_INFO_NULL, &out[i]));
        OK(MPI_Precv_init(b[i], 4, 1, MPI_INT, me, 7, inter, MPI_INFO_NULL, &in[i]));
    }
    for (int round = 0; round < 2; ++round) {
        /* Started in the other order, and received late: nothing else sees them. */
        for (int i = N - 1; i >= 0; --i) {
            for (int k = 0; k < 4; ++k) a[i][k] = 1000 * side + 100 * round + 10 * i + k;
            OK(MPI_Start(&out[i]));
            OK(MPI_Pready_range(0, 1, out[i]));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (round == 0) {
            OK(MPI_Send(&mine_word, 1, MPI_INT, me, 7, inter));
            OK(MPI_Wait(&plain, &status));
            SAME(word, 70 + !side);
            SAME(status.MPI_TAG, 7);
        }
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, &status));
        if (flag) SAME(status.MPI_TAG, MEETING); /* the other side is ahead */
        OK(MPI_Iprobe(me, 7, inter, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
        for (int i = 0; i < N; ++i) OK(MPI_Start(&in[i]));
        for (int i = 0; i < N; ++i) {
            OK(MPI_Wait(&in[i], &status));
            is_from(&status, 7, 4);
            for (int k = 0; k < 4; ++k) SAME(b[i][k], 1000 * !side + 100 * round + 10 * i + k);
        }
        OK(MPI_Waitall(N, out, MPI_STATUSES_IGNORE));
        meet();
    }
    for (int i = 0; i < N; ++i) {
        OK(MPI_Request_free(&out[i]));
        OK(MPI_Request_free(&in[i]));
    }
}

/* ---- what is wrong is said, and changes nothing ---- */

static void wrong(void)
{
    int a[8] = {0}, b[8], flag = -1, list[3] = {0, 2, 0};
    MPI_Request out, in, other;
    REFUSED(MPI_Psend_init(a, -1, 2, MPI_INT, me, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_ARG);
    REFUSED(MPI_Psend_init(a, 4, -2, MPI_INT, me, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_COUNT);
    REFUSED(MPI_Psend_init(a, 4, (MPI_Count)1 << 61, MPI_INT, me, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_COUNT);
    REFUSED(MPI_Psend_init(a, 4, 2, MPI_DATATYPE_NULL, me, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_TYPE);
    REFUSED(MPI_Psend_init(NULL, 4, 2, MPI_INT, me, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_BUFFER);
    REFUSED(MPI_Psend_init(a, 4, 2, MPI_INT, mine + 7, 0, inter, MPI_INFO_NULL, &out), MPI_ERR_RANK);
    REFUSED(MPI_Psend_init(a, 4, 2, MPI_INT, me, -3, inter, MPI_INFO_NULL, &out), MPI_ERR_TAG);
    REFUSED(MPI_Precv_init(b, 4, 2, MPI_INT, MPI_ANY_SOURCE, 0, inter, MPI_INFO_NULL, &in), MPI_ERR_RANK);
    REFUSED(MPI_Precv_init(b, 4, 2, MPI_INT, me, MPI_ANY_TAG, inter, MPI_INFO_NULL, &in), MPI_ERR_TAG);

    OK(MPI_Psend_init(a, 4, 2, MPI_INT, me, 8, inter, MPI_INFO_NULL, &out));
    OK(MPI_Precv_init(b, 4, 2, MPI_INT, me, 8, inter, MPI_INFO_NULL, &in));
    OK(MPI_Recv_init(b, 1, MPI_INT, me, 8, inter, &other));
    REFUSED(MPI_Pready(0, out), MPI_ERR_REQUEST); /* not started */
    REFUSED(MPI_Pready_list(1, list, out), MPI_ERR_REQUEST);
    OK(MPI_Startall(2, (MPI_Request[]){out, in}));
    REFUSED(MPI_Start(&out), MPI_ERR_REQUEST);
    REFUSED(MPI_Pready(0, in), MPI_ERR_REQUEST);
    REFUSED(MPI_Pready_range(0, 1, in), MPI_ERR_REQUEST);
    REFUSED(MPI_Pready(0, other), MPI_ERR_REQUEST);
    REFUSED(MPI_Parrived(out, 0, &flag), MPI_ERR_REQUEST);
    REFUSED(MPI_Parrived(other, 0, &flag), MPI_ERR_REQUEST);
    REFUSED(MPI_Parrived(in, 4, &flag), MPI_ERR_ARG);
    REFUSED(MPI_Parrived(in, -1, &flag), MPI_ERR_ARG);
    REFUSED(MPI_Pready(4, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready(-1, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready(-2, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready_range(2, 4, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready_range(-1, 2, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready_range(2, 1, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready_list(-1, list, out), MPI_ERR_ARG);
    REFUSED(MPI_Pready_list(3, list, out), MPI_ERR_ARG); /* one of them twice */
    OK(MPI_Pready(1, out));
    FAILS_SAYING(MPI_Pready(1, out), "MPI_Pready", "second time");
    REFUSED(MPI_Pready_range(0, 3, out), MPI_ERR_ARG);
    REFUSED(MPI_Request_free(&out), MPI_ERR_REQUEST); /* it could never end */
    CHECK(out != MPI_REQUEST_NULL);
    for (int k = 0; k < 8; ++k) a[k] = 10 * side + k; /* none of these went */
    OK(MPI_Pready_list(2, list, out));
    OK(MPI_Pready(3, out));
    OK(MPI_Wait(&in, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&out, MPI_STATUS_IGNORE));
    for (int k = 0; k < 8; ++k)
        if (k / 2 != 1) SAME(b[k], 10 * !side + k);
    REFUSED(MPI_Pready(0, out), MPI_ERR_REQUEST);
    OK(MPI_Parrived(in, 3, &flag));
    SAME(flag, 1);
    /* Given up when all is ready: it goes on. */
    OK(MPI_Start(&in));
    OK(MPI_Start(&out));
    OK(MPI_Pready_range(0, 3, out));
    OK(MPI_Request_free(&out));
    CHECK(out == MPI_REQUEST_NULL);
    OK(MPI_Wait(&in, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&in));
    OK(MPI_Request_free(&other));
    meet();
}

/* ---- with nobody; without data; without partitions ---- */

static void nothing(void)
{
    int a[4], b[4], flag = -1;
    MPI_Request both[2];
    MPI_Status statuses[2];
    OK(MPI_Psend_init(a, 2, 2, MPI_INT, MPI_PROC_NULL, 0, inter, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(b, 2, 2, MPI_INT, MPI_PROC_NULL, 0, inter, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 2; ++round) {
        OK(MPI_Startall(2, both));
        OK(MPI_Pready(0, both[0]));
        OK(MPI_Pready(1, both[0]));
        REFUSED(MPI_Pready(2, both[0]), MPI_ERR_ARG);
        OK(MPI_Parrived(both[1], 0, &flag));
        SAME(flag, 1);
        OK(MPI_Waitall(2, both, statuses));
        SAME(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));

    OK(MPI_Psend_init(NULL, 3, 0, MPI_INT, me, 9, inter, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(NULL, 2, 0, MPI_INT, me, 9, inter, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 2; ++round) {
        OK(MPI_Startall(2, both));
        OK(MPI_Pready_range(0, 1, both[0]));
        OK(MPI_Test(&both[0], &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
        REFUSED(MPI_Pready(1, both[0]), MPI_ERR_ARG);
        /* Not ready there, so it has not come. */
        SAME(arrived(both[1], 1), 0);
        meet();
        OK(MPI_Pready(2, both[0]));
        OK(MPI_Waitall(2, both, statuses));
        is_from(&statuses[1], 9, 0);
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));

    OK(MPI_Psend_init(NULL, 0, 5, MPI_INT, me, 9, inter, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(NULL, 0, 5, MPI_INT, me, 9, inter, MPI_INFO_NULL, &both[1]));
    OK(MPI_Startall(2, both));
    OK(MPI_Waitall(2, both, statuses));
    is_from(&statuses[1], 9, 0);
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));

    /* A receive that is shorter takes what fits; the send ends with its last partition. */
    OK(MPI_Psend_init(a, 4, 1, MPI_INT, me, 10, inter, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(b, 2, 1, MPI_INT, me, 10, inter, MPI_INFO_NULL, &both[1]));
    for (int k = 0; k < 4; ++k) a[k] = 40 * side + k;
    OK(MPI_Startall(2, both));
    OK(MPI_Pready_range(0, 1, both[0]));
    REFUSED(MPI_Wait(&both[1], &statuses[1]), MPI_ERR_TRUNCATE);
    for (int k = 0; k < 2; ++k) SAME(b[k], 40 * !side + k);
    meet();
    OK(MPI_Test(&both[0], &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    OK(MPI_Pready_range(2, 3, both[0]));
    OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&both[i]));
}

/* ---- several threads mark and look, while the first waits ---- */

enum { MARKERS = 3, MARKED = 3000, EACH = 40 };
static MPI_Request shared_out, shared_in;
static int *shared_numbers, *shared_seen, shared_round;

static void *mark(void *from)
{
    for (int p = (int)(intptr_t)from; p < MARKED; p += MARKERS) {
        kit_fill(shared_numbers + p * EACH, BYTES(EACH), seed_out(p + 10000 * shared_round));
        OK(MPI_Pready(p, shared_out));
    }
    return NULL;
}

/* Half as many partitions as the other side. */
static void *look(void *from)
{
    for (int p = (int)(intptr_t)from; p < MARKED; p += MARKERS)
        if (p % 2) {
            await(shared_in, p / 2);
            for (int q = p - 1; q <= p; ++q)
                HOLDS(shared_seen + q * EACH, BYTES(EACH), seed_in(q + 10000 * shared_round));
        }
    return NULL;
}

static void from_threads(void)
{
    if (threads != MPI_THREAD_MULTIPLE) {
        if (me == 0) printf("ONE-THREAD\n");
        return;
    }
    shared_numbers = numbers(MARKED * EACH);
    shared_seen = numbers(MARKED * EACH);
    OK(MPI_Psend_init(shared_numbers, MARKED, EACH, MPI_INT, me, 11, inter, MPI_INFO_NULL, &shared_out));
    OK(MPI_Precv_init(shared_seen, MARKED / 2, 2 * EACH, MPI_INT, me, 11, inter, MPI_INFO_NULL, &shared_in));
    for (int turn = 0; turn < 2; ++turn)
        for (shared_round = 0; shared_round < 2; ++shared_round) {
            MPI_Request *request = side == turn ? &shared_out : &shared_in;
            pthread_t all[MARKERS];
            OK(MPI_Start(request));
            for (int i = 0; i < MARKERS; ++i)
                CHECK(!pthread_create(&all[i], NULL, side == turn ? mark : look, (void *)(intptr_t)i));
            OK(MPI_Wait(request, MPI_STATUS_IGNORE)); /* long before the last partition is marked */
            for (int i = 0; i < MARKERS; ++i) CHECK(!pthread_join(all[i], NULL));
        }
    OK(MPI_Request_free(&shared_out));
    OK(MPI_Request_free(&shared_in));
    free(shared_numbers);
    free(shared_seen);
}

static const struct kit_section sections[] = {
    {"whole", whole}, {"step", step},       {"matching", matching},
    {"wrong", wrong}, {"nothing", nothing}, {"threads", from_threads},
};

int main(int argc, char **argv)
{
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
