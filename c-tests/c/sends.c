/* One half of a pair of jobs of as many ranks each: `sends NAME OTHER SIDE SECTION...`. Every mode of sending, and all
 * that may be done with a request. Rank r talks to rank r of the other job; every value is checked where it arrives. */
#include "partner.h"

enum { SMALL = 5, LARGE = 300000 };
static const int sizes[] = {0, 1, 1000, 4096, 4097, 300000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- ready mode: the receive is there before the send ---- */

static void ready(void)
{
    for (int k = 0; k < SIZES; ++k) {
        int n = sizes[k], *out = numbers(n), *in = numbers(n);
        MPI_Request receive, send;
        MPI_Status status;
        for (int how = 0; how < 2; ++how) {
            int tag = 100 + 2 * k + how;
            memset(in, 0, BYTES(n));
            OK(MPI_Irecv(in, n, MPI_INT, me, tag, inter, &receive));
            tell(10);
            hear(10);
            kit_fill(out, BYTES(n), seed_out(tag));
            if (how == 0)
                OK(MPI_Rsend(out, n, MPI_INT, me, tag, inter));
            else {
                OK(MPI_Irsend(out, n, MPI_INT, me, tag, inter, &send));
                OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                CHECK(send == MPI_REQUEST_NULL);
            }
            OK(MPI_Wait(&receive, &status));
            is_from(&status, tag, n);
            HOLDS(in, BYTES(n), seed_in(tag));
        }
        free(out);
        free(in);
    }
}

/* ---- a send and a receive in one ---- */

static void replace(void)
{
    MPI_Status status;
    for (int k = 0; k < SIZES; ++k) {
        int n = sizes[k], *both = numbers(n + 3), tag = 200 + k;
        kit_fill(both, BYTES(n), seed_out(tag));
        both[n] = both[n + 1] = both[n + 2] = 4711;
        OK(MPI_Sendrecv_replace(both, n, MPI_INT, me, tag, me, k % 2 ? tag : MPI_ANY_TAG, inter, &status));
        is_from(&status, tag, n);
        HOLDS(both, BYTES(n), seed_in(tag));
        CHECK(both[n] == 4711 && both[n + 2] == 4711);
        free(both);
    }
    /* What lies between is left alone. */
    enum { ROWS = 3000 };
    int *grid = numbers(3 * ROWS);
    MPI_Datatype column;
    OK(MPI_Type_vector(ROWS, 1, 3, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < 3 * ROWS; ++i) grid[i] = 1000 * side + i;
    OK(MPI_Sendrecv_replace(grid, 1, column, me, 210, me, 210, inter, &status));
    for (int i = 0; i < 3 * ROWS; ++i) SAME(grid[i], 1000 * (i % 3 ? side : !side) + i);
    OK(MPI_Type_free(&column));
    free(grid);
    /* Half of it with nobody. */
    int word = 70 + side;
    OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, side ? MPI_PROC_NULL : me, 211, side ? me : MPI_PROC_NULL, 211, inter,
                            &status));
    if (side)
        is_from(&status, 211, 1);
    else
        SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    SAME(word, 70);
    word = 80;
    OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, inter, MPI_STATUS_IGNORE));
    SAME(word, 80);
    REFUSED(MPI_Sendrecv_replace(&word, 1, MPI_INT, mine + 7, 0, me, 0, inter, &status), MPI_ERR_RANK);
    REFUSED(MPI_Sendrecv_replace(&word, -1, MPI_INT, me, 0, me, 0, inter, &status), MPI_ERR_COUNT);

    for (int k = 0; k < SIZES; ++k) {
        int n = sizes[k], *out = numbers(n), *in = numbers(n), *both = numbers(n), tag = 220 + 2 * k;
        MPI_Status statuses[2];
        kit_fill(out, BYTES(n), seed_out(tag));
        kit_fill(both, BYTES(n), seed_out(tag + 1));
#ifdef HAVE_4
        MPI_Request requests[2];
        OK(MPI_Isendrecv(out, n, MPI_INT, me, tag, in, n, MPI_INT, me, tag, inter, &requests[0]));
        OK(MPI_Isendrecv_replace(both, n, MPI_INT, me, tag + 1, me, tag + 1, inter, &requests[1]));
        if (k % 2)
            OK(MPI_Waitall(2, requests, statuses));
        else
            for (int i = 0, flag; i < 2; ++i)
                do POLL(MPI_Test(&requests[i], &flag, &statuses[i]));
                while (!flag);
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
#else
        OK(MPI_Sendrecv(out, n, MPI_INT, me, tag, in, n, MPI_INT, me, tag, inter, &statuses[0]));
        OK(MPI_Sendrecv_replace(both, n, MPI_INT, me, tag + 1, me, tag + 1, inter, &statuses[1]));
#endif
        for (int i = 0; i < 2; ++i) is_from(&statuses[i], tag + i, n);
        HOLDS(in, BYTES(n), seed_in(tag));
        HOLDS(both, BYTES(n), seed_in(tag + 1));
        free(out);
        free(in);
        free(both);
    }
}

/* ---- requests given up, looked at, taken back ---- */

static void given_up(void)
{
    int *out = numbers(LARGE), *in = numbers(LARGE), small = 50 + side, word = -1;
    MPI_Request request;
    MPI_Status status;
    /* Sends go on: one that is copied at once, one that must be asked for, one that must be matched. */
    kit_fill(out, BYTES(LARGE), seed_out(300));
    OK(MPI_Isend(&small, 1, MPI_INT, me, 301, inter, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Isend(out, LARGE, MPI_INT, me, 300, inter, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Issend(&small, 1, MPI_INT, me, 302, inter, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Recv(&word, 1, MPI_INT, me, 302, inter, &status));
    SAME(word, 50 + !side);
    OK(MPI_Recv(in, LARGE, MPI_INT, me, 300, inter, &status));
    is_from(&status, 300, LARGE);
    HOLDS(in, BYTES(LARGE), seed_in(300));
    OK(MPI_Recv(&word, 1, MPI_INT, me, 301, inter, &status));
    SAME(word, 50 + !side);
    meet(); /* all three have been received: their buffers are free */
    /* A receive goes on: what comes later of the same kind finds it done. */
    memset(in, 0, BYTES(LARGE));
    OK(MPI_Irecv(in, LARGE, MPI_INT, me, 303, inter, &request));
    OK(MPI_Request_free(&request));
    kit_fill(out, BYTES(LARGE), seed_out(303));
    OK(MPI_Ssend(out, LARGE, MPI_INT, me, 303, inter));
    tell(11);
    hear(11);
    while (kit_wrong(in, BYTES(LARGE), seed_in(303)) >= 0) {
        int flag;
        POLL(MPI_Iprobe(me, 399, inter, &flag, MPI_STATUS_IGNORE));
    }
    HOLDS(in, BYTES(LARGE), seed_in(303));
    free(out);
    free(in);
}

/* The inter-communicator is freed with sends under way that nobody has a request for. */
static void given_up_and_freed(void)
{
    MPI_Comm brief;
    MPI_Request request;
    int *out = numbers(LARGE), *in = numbers(LARGE);
    OK(MPI_Conn_intercomm_create(handle, their_name, &brief));
    kit_fill(out, BYTES(LARGE), seed_out(310));
    if (side == 0) {
        OK(MPI_Isend(out, LARGE, MPI_INT, me, 310, brief, &request));
        OK(MPI_Request_free(&request));
        OK(MPI_Comm_free(&brief));
        tell(12);
        hear(13);
    } else {
        hear(12);
        OK(MPI_Recv(in, LARGE, MPI_INT, me, 310, brief, MPI_STATUS_IGNORE));
        HOLDS(in, BYTES(LARGE), seed_in(310));
        OK(MPI_Comm_free(&brief));
        tell(13);
    }
    free(out);
    free(in);
}

static void looked_at(void)
{
    int in = -1, out = 60 + side, flag = -1;
    MPI_Request request, send;
    MPI_Status status;
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 320, inter, &request));
#ifndef LAM_MPI
    OK(MPI_Request_get_status(request, &flag, &status));
    SAME(flag, 0);
#endif
    meet();
    OK(MPI_Isend(&out, 1, MPI_INT, me, 320, inter, &send));
#ifndef LAM_MPI
    do POLL(MPI_Request_get_status(request, &flag, &status));
    while (!flag);
    is_from(&status, 320, 1);
    SAME(in, 60 + !side);
    CHECK(request != MPI_REQUEST_NULL);
    /* Again, and then for good. */
    OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 1);
#endif
    memset(&status, 0, sizeof status);
    do POLL(MPI_Test(&request, &flag, &status));
    while (!flag);
    is_from(&status, 320, 1);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

static void cancelled(void)
{
    int in[4] = {-1, -1, -1, -1}, out = 90 + side, flag = -1, index = -1, n = -1;
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    /* Taken back before it had a message; the one behind it gets what comes. */
    OK(MPI_Irecv(&in[0], 1, MPI_INT, me, 330, inter, &requests[0]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, me, 330, inter, &requests[1]));
    OK(MPI_Cancel(&requests[0]));
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Wait(&requests[0], &status));
    CHECK(requests[0] == MPI_REQUEST_NULL);
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
    meet();
    OK(MPI_Send(&out, 1, MPI_INT, me, 330, inter));
    OK(MPI_Wait(&requests[1], &status));
    is_from(&status, 330, 1);
    SAME(in[1], 90 + !side);
    SAME(in[0], -1);
    /* Too late: it has its message. */
    OK(MPI_Irecv(&in[2], 1, MPI_INT, me, 331, inter, &requests[0]));
    OK(MPI_Send(&out, 1, MPI_INT, me, 331, inter));
    tell(14);
    hear(14); /* on the same way, behind the message */
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    is_from(&status, 331, 1);
    SAME(in[2], 90 + !side);
    /* By the array calls. */
    for (int i = 0; i < 4; ++i) OK(MPI_Irecv(&in[i], 1, MPI_INT, me, 340 + i, inter, &requests[i]));
    for (int i = 0; i < 4; ++i) OK(MPI_Cancel(&requests[i]));
    OK(MPI_Test(&requests[0], &flag, &status));
    SAME(flag, 1);
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
    OK(MPI_Waitany(4, requests, &index, &status));
    SAME(index, 1);
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
    OK(MPI_Testsome(1, &requests[2], &n, &index, statuses));
    SAME(n, 1);
    SAME(index, 0);
    OK(MPI_Test_cancelled(statuses, &flag));
    SAME(flag, 1);
    OK(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 4; ++i) {
        OK(MPI_Test_cancelled(&statuses[i], &flag));
        SAME(flag, i == 3);
    }
    /* A send completes as if nothing had been asked. */
    OK(MPI_Isend(&out, 1, MPI_INT, me, 350, inter, &requests[0]));
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Recv(in, 1, MPI_INT, me, 350, inter, MPI_STATUS_IGNORE));
    SAME(in[0], 90 + !side);
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 0);
}

/* ---- persistent requests ---- */

static void persistent(void)
{
    int next = (me + 1) % mine, last = (me + mine - 1) % mine, flag, index;
    int native_out = 0, native_in = 0;
    int *out[4], *in[4];
    /* Eight of ours, two native ones, and a null one. */
    enum { ALL = 11 };
    MPI_Request all[ALL];
    MPI_Status statuses[ALL], status;
    static const int lengths[4] = {SMALL, LARGE, 1000, LARGE};
    for (int i = 0; i < 4; ++i) {
        out[i] = numbers(lengths[i]);
        in[i] = numbers(lengths[i]);
        OK(MPI_Recv_init(in[i], lengths[i], MPI_INT, i == 2 ? MPI_ANY_SOURCE : me, 400 + i, inter, &all[i]));
    }
    OK(MPI_Send_init(out[0], lengths[0], MPI_INT, me, 400, inter, &all[4]));
    OK(MPI_Send_init(out[1], lengths[1], MPI_INT, me, 401, inter, &all[5]));
    OK(MPI_Ssend_init(out[2], lengths[2], MPI_INT, me, 402, inter, &all[6]));
    OK(MPI_Rsend_init(out[3], lengths[3], MPI_INT, me, 403, inter, &all[7]));
    OK(MPI_Recv_init(&native_in, 1, MPI_INT, last, 404, MPI_COMM_WORLD, &all[8]));
    OK(MPI_Send_init(&native_out, 1, MPI_INT, next, 404, MPI_COMM_WORLD, &all[9]));
    all[10] = MPI_REQUEST_NULL;
    MPI_Request kept[ALL];
    memcpy(kept, all, sizeof all);

    for (int round = 0; round < 9; ++round) {
        for (int i = 0; i < 4; ++i) {
            memset(in[i], 0, BYTES(lengths[i]));
            kit_fill(out[i], BYTES(lengths[i]), seed_out(400 + i + 10 * round));
        }
        native_out = 100 * round + me;
        /* Receives first, for ready mode. */
        OK(MPI_Startall(4, all));
        tell(15);
        hear(15);
        if (round % 2)
            OK(MPI_Startall(6, all + 4)); /* ours and native ones */
        else
            for (int i = 4; i < 10; ++i) OK(MPI_Start(&all[i]));
        int left = ALL - 1, indices[ALL], done;
        switch (round) {
        case 0:
            for (int i = 0; i < ALL; ++i) OK(MPI_Wait(&all[i], &statuses[i]));
            break;
        case 1:
            OK(MPI_Waitall(ALL, all, statuses));
            break;
        case 2:
            do POLL(MPI_Testall(ALL, all, &flag, statuses));
            while (!flag);
            break;
        case 3:
        case 4:
            for (; left; --left) {
                flag = 1;
                if (round == 3)
                    OK(MPI_Waitany(ALL, all, &index, &status));
                else
                    do POLL(MPI_Testany(ALL, all, &index, &flag, &status));
                    while (!flag);
                CHECK(index >= 0 && index < ALL - 1, "index %d", index);
                if (index < 0 || index >= ALL) return;
                statuses[index] = status;
            }
            break;
        case 5:
        case 6:
            while (left) {
                MPI_Status some[ALL];
                if (round == 5)
                    OK(MPI_Waitsome(ALL, all, &done, indices, some));
                else
                    do POLL(MPI_Testsome(ALL, all, &done, indices, some));
                    while (!done);
                CHECK(done > 0 && done <= left, "%d done", done);
                if (done <= 0) return;
                for (int i = 0; i < done; ++i) statuses[indices[i]] = some[i];
                left -= done;
            }
            break;
        case 7:
            for (int i = ALL - 1; i >= 0; --i)
                do POLL(MPI_Test(&all[i], &flag, &statuses[i]));
                while (!flag);
            break;
        default:
            OK(MPI_Waitall(ALL, all, MPI_STATUSES_IGNORE));
            break;
        }
        SAME(memcmp(all, kept, sizeof all), 0); /* they stay */
        for (int i = 0; i < 4; ++i) {
            if (round != 8) is_from(&statuses[i], 400 + i, lengths[i]);
            HOLDS(in[i], BYTES(lengths[i]), seed_in(400 + i + 10 * round));
        }
        SAME(native_in, 100 * round + last);

        /* None is active: all calls say so at once. */
        memset(statuses, 0x5A, sizeof statuses);
        OK(MPI_Wait(&all[0], &status));
        is_empty(&status);
        OK(MPI_Test(&all[5], &flag, &status));
        SAME(flag, 1);
        is_empty(&status);
        OK(MPI_Waitall(ALL, all, statuses));
        for (int i = 0; i < ALL; ++i) is_empty(&statuses[i]);
        OK(MPI_Testall(ALL, all, &flag, statuses));
        SAME(flag, 1);
        for (int from = 0; from <= 8; from += 8) {
            /* Ours and native ones; then native ones alone. */
            int count = ALL - from;
            OK(MPI_Waitany(count, all + from, &index, &status));
            SAME(index, MPI_UNDEFINED);
            is_empty(&status);
            OK(MPI_Testany(count, all + from, &index, &flag, &status));
            SAME(index, MPI_UNDEFINED);
            SAME(flag, 1);
            is_empty(&status);
            OK(MPI_Waitsome(count, all + from, &done, indices, statuses));
            SAME(done, MPI_UNDEFINED);
            OK(MPI_Testsome(count, all + from, &done, indices, statuses));
            SAME(done, MPI_UNDEFINED);
        }
        OK(MPI_Waitany(8, all, &index, &status)); /* ours alone */
        SAME(index, MPI_UNDEFINED);
        is_empty(&status);
        OK(MPI_Waitsome(8, all, &done, indices, statuses));
        SAME(done, MPI_UNDEFINED);
#ifndef LAM_MPI
        OK(MPI_Request_get_status(all[0], &flag, &status));
        SAME(flag, 1);
        is_empty(&status);
#endif
    }

    /* One native request is active among ours, which are not; then one of ours among native ones. */
    for (int i = 8; i < 10; ++i) OK(MPI_Start(&all[i]));
    for (int left = 2; left; --left) {
        OK(MPI_Waitany(ALL, all, &index, &status));
        CHECK(index == 8 || index == 9, "index %d", index);
    }
    OK(MPI_Start(&all[0]));
    OK(MPI_Start(&all[4]));
    for (int left = 2; left; --left) {
        OK(MPI_Waitany(ALL, all, &index, &status));
        CHECK(index == 0 || index == 4, "index %d", index);
    }
    SAME(memcmp(all, kept, sizeof all), 0);

    /* A receive that is taken back may be started again. */
    OK(MPI_Start(&all[0]));
    REFUSED(MPI_Start(&all[0]), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&all[0]));
    OK(MPI_Wait(&all[0], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
    CHECK(all[0] == kept[0]);
    meet();
    memset(in[0], 0, BYTES(SMALL));
    OK(MPI_Start(&all[0]));
    OK(MPI_Start(&all[4]));
    /* Given up while it is active: the message comes all the same. */
    OK(MPI_Request_free(&all[4]));
    CHECK(all[4] == MPI_REQUEST_NULL);
    OK(MPI_Wait(&all[0], &status));
    is_from(&status, 400, SMALL);
    HOLDS(in[0], BYTES(SMALL), seed_in(400 + 80));
    for (int i = 0; i < 10; ++i)
        if (all[i] != MPI_REQUEST_NULL) OK(MPI_Request_free(&all[i]));
    for (int i = 0; i < ALL; ++i) CHECK(all[i] == MPI_REQUEST_NULL);

    /* With nobody: started and over. */
    OK(MPI_Recv_init(in[0], 1, MPI_INT, MPI_PROC_NULL, 0, inter, &all[0]));
    OK(MPI_Send_init(out[0], 1, MPI_INT, MPI_PROC_NULL, 0, inter, &all[1]));
    for (int round = 0; round < 2; ++round) {
        OK(MPI_Startall(2, all));
        OK(MPI_Waitall(2, all, statuses));
        SAME(statuses[0].MPI_SOURCE, MPI_PROC_NULL);
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&all[i]));

    /* The datatype is needed no more once there is a request. */
    MPI_Datatype pair;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Send_init(out[0], 2, pair, me, 420, inter, &all[0]));
    OK(MPI_Recv_init(in[0], 2, pair, me, 420, inter, &all[1]));
    OK(MPI_Type_free(&pair));
    for (int round = 0; round < 2; ++round) {
        kit_fill(out[0], BYTES(4), seed_out(420 + round));
        OK(MPI_Startall(2, all));
        OK(MPI_Waitall(2, all, statuses));
        is_from(&statuses[1], 420, 4);
        HOLDS(in[0], BYTES(4), seed_in(420 + round));
    }
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&all[i]));

    /* Arguments are looked at when it is made; what is no persistent request is not started. */
    REFUSED(MPI_Send_init(out[0], 1, MPI_INT, mine + 7, 0, inter, &all[0]), MPI_ERR_RANK);
    REFUSED(MPI_Recv_init(in[0], -1, MPI_INT, me, 0, inter, &all[0]), MPI_ERR_COUNT);
    OK(MPI_Irecv(in[0], 1, MPI_INT, me, 430, inter, &all[0]));
    REFUSED(MPI_Start(&all[0]), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&all[0]));
    OK(MPI_Wait(&all[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; ++i) {
        free(out[i]);
        free(in[i]);
    }
}

/* ---- buffered mode ---- */

static void buffered(void)
{
    int *out = numbers(LARGE), *in = numbers(LARGE), word = 1, size, pack, small;
    char *buffer, *back = NULL;
    MPI_Request requests[2];
    MPI_Status status;
    REFUSED(MPI_Bsend(&word, 1, MPI_INT, me, 500, inter), MPI_ERR_BUFFER);

    /* As large as MPI says that two large messages and four small ones need. */
    OK(MPI_Pack_size(LARGE, MPI_INT, MPI_COMM_WORLD, &pack));
    OK(MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &small));
    size = 2 * (pack + MPI_BSEND_OVERHEAD) + 4 * (small + MPI_BSEND_OVERHEAD);
    buffer = kit_alloc((size_t)size);
    OK(MPI_Buffer_attach(buffer, size));
    for (int round = 0; round < 3; ++round) {
        /* Nothing is received yet: the sends return, and what was sent may change. */
        for (int i = 0; i < 2; ++i) {
            kit_fill(out, BYTES(LARGE), seed_out(500 + i + 10 * round));
            if (i == 0)
                OK(MPI_Bsend(out, LARGE, MPI_INT, me, 500 + i, inter));
            else {
                OK(MPI_Ibsend(out, LARGE, MPI_INT, me, 500 + i, inter, &requests[0]));
                OK(MPI_Wait(&requests[0], &status));
                CHECK(requests[0] == MPI_REQUEST_NULL);
            }
            memset(out, 0, BYTES(LARGE));
        }
        for (int i = 0; i < 4; ++i) {
            word = 1000 * side + 10 * round + i;
            OK(MPI_Bsend(&word, 1, MPI_INT, me, 510, inter));
        }
        /* No room for one more large one, as long as nobody takes the others. */
        REFUSED(MPI_Bsend(out, LARGE, MPI_INT, me, 500, inter), MPI_ERR_BUFFER);
        tell(16);
        hear(16);
        /* The MPI's own sends have the buffer too. */
        if (mine > 1) {
            word = 7 + me;
            OK(MPI_Bsend(&word, 1, MPI_INT, (me + 1) % mine, 511, MPI_COMM_WORLD));
            OK(MPI_Recv(&word, 1, MPI_INT, (me + mine - 1) % mine, 511, MPI_COMM_WORLD, &status));
            SAME(word, 7 + (me + mine - 1) % mine);
        }
        for (int i = 1; i >= 0; --i) {
            OK(MPI_Recv(in, LARGE, MPI_INT, me, 500 + i, inter, &status));
            is_from(&status, 500 + i, LARGE);
            HOLDS(in, BYTES(LARGE), seed_in(500 + i + 10 * round));
        }
        for (int i = 0; i < 4; ++i) {
            OK(MPI_Recv(&word, 1, MPI_INT, me, 510, inter, &status));
            SAME(word, 1000 * !side + 10 * round + i);
        }
        tell(17);
        hear(17);
    }
    /* One to whom nobody listens yet: detach waits for him. */
    kit_fill(out, BYTES(LARGE), seed_out(520));
    OK(MPI_Irecv(in, LARGE, MPI_INT, me, 520, inter, &requests[0]));
    OK(MPI_Bsend(out, LARGE, MPI_INT, me, 520, inter));
    size = 0;
    OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    SAME(size, 2 * (pack + MPI_BSEND_OVERHEAD) + 4 * (small + MPI_BSEND_OVERHEAD));
    memset(back, 0x5A, (size_t)size);
    OK(MPI_Wait(&requests[0], &status));
    HOLDS(in, BYTES(LARGE), seed_in(520));
    REFUSED(MPI_Bsend(&word, 1, MPI_INT, me, 500, inter), MPI_ERR_BUFFER);
    meet();

    /* Persistent; with nobody, for which no buffer is needed. */
    OK(MPI_Bsend(&word, 1, MPI_INT, MPI_PROC_NULL, 500, inter));
    OK(MPI_Bsend_init(out, LARGE, MPI_INT, me, 530, inter, &requests[0]));
    REFUSED(MPI_Start(&requests[0]), MPI_ERR_BUFFER);
    OK(MPI_Buffer_attach(buffer, pack + MPI_BSEND_OVERHEAD));
    for (int round = 0; round < 3; ++round) {
        kit_fill(out, BYTES(LARGE), seed_out(530 + round));
        OK(MPI_Start(&requests[0]));
        OK(MPI_Wait(&requests[0], &status));
        CHECK(requests[0] != MPI_REQUEST_NULL);
        memset(out, 0, BYTES(LARGE));
        OK(MPI_Recv(in, LARGE, MPI_INT, me, 530, inter, &status));
        HOLDS(in, BYTES(LARGE), seed_in(530 + round));
        tell(18);
        hear(18);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Buffer_detach(&back, &size));
    SAME(size, pack + MPI_BSEND_OVERHEAD);

#ifdef HAVE_41
    /* A buffer of the communicator's own. */
    OK(MPI_Comm_attach_buffer(inter, buffer, pack + MPI_BSEND_OVERHEAD));
    REFUSED(MPI_Comm_attach_buffer(inter, buffer, size), MPI_ERR_BUFFER);
    kit_fill(out, BYTES(LARGE), seed_out(540));
    OK(MPI_Bsend(out, LARGE, MPI_INT, me, 540, inter));
    REFUSED(MPI_Bsend(out, LARGE, MPI_INT, me, 540, inter), MPI_ERR_BUFFER);
    tell(19);
    hear(19);
    OK(MPI_Irecv(in, LARGE, MPI_INT, me, 540, inter, &requests[0]));
    OK(MPI_Comm_flush_buffer(inter));
    OK(MPI_Wait(&requests[0], &status));
    HOLDS(in, BYTES(LARGE), seed_in(540));
    back = NULL;
    OK(MPI_Comm_detach_buffer(inter, &back, &size));
    CHECK(back == buffer);
    SAME(size, pack + MPI_BSEND_OVERHEAD);
    /* One without bounds. */
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Bsend(out, LARGE, MPI_INT, me, 541, inter));
    OK(MPI_Irecv(in, LARGE, MPI_INT, me, 541, inter, &requests[0]));
    OK(MPI_Buffer_flush());
    OK(MPI_Wait(&requests[0], &status));
    HOLDS(in, BYTES(LARGE), seed_in(540));
    OK(MPI_Buffer_detach(&back, &size));
#else
    for (int tag = 540; tag < 542; ++tag) {
        kit_fill(out, BYTES(LARGE), seed_out(540));
        OK(MPI_Isend(out, LARGE, MPI_INT, me, tag, inter, &requests[0]));
        if (tag == 540) tell(19);
        if (tag == 540) hear(19);
        OK(MPI_Recv(in, LARGE, MPI_INT, me, tag, inter, &status));
        HOLDS(in, BYTES(LARGE), seed_in(540));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }
#endif
    free(buffer);
    free(out);
    free(in);
}

static const struct kit_section sections[] = {
    {"ready", ready},         {"replace", replace},     {"given-up", given_up},
    {"looked-at", looked_at}, {"cancelled", cancelled}, {"given-up-and-freed", given_up_and_freed},
    {"buffered", buffered},   {"persistent", persistent},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
